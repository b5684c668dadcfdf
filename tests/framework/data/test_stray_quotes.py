"""A quote too many in CSV or TSV joins the next rows to its cell. Its row is named, and rows without one are read."""

import pytest
from read_documents import documents

from packtrain_tools.sources.documents import Text
from packtrain_tools.sources.readers import read_records
from packtrain_tools.sources.source_file import source_file

ROWS = [("Name a bird", "heron"), ("Name a fish", "trout"), ("Name a tree", "oak"), ("Name a stone", "flint"),
        ("Name a river", "Rhine")]


def table(path, rows, header=("prompt", "completion")):
    mark = {"csv": ",", "tsv": "\t"}[path.suffix[1:]]
    path.write_text("".join(mark.join(row) + "\n" for row in (header, *rows)))
    return path


def with_cell(rows, row, column, text):
    return [tuple(text if (i, j) == (row, column) else cell for j, cell in enumerate(cells))
            for i, cells in enumerate(rows)]


def texts(rows):
    return [Text(*row) for row in rows]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("first, last", [(0, 1), (0, 3), (1, 4), (2, 3)])
def test_a_quote_that_joins_rows_is_named_and_the_next_rows_are_read(tmp_path, suffix, column, first, last):
    rows = with_cell(ROWS, first, column, '"' + ROWS[first][column])
    rows = with_cell(rows, last, column, ROWS[last][column] + '"')
    found = documents(table(tmp_path / f"a.{suffix}", rows))
    assert found.pop(last) == f"has the quote that ends a cell of line {first + 2}"
    fault = found.pop(first)
    assert f"has a quote that joins it with the lines to {last + 2}, each of which is a row" in fault
    assert found == texts(row for i, row in enumerate(ROWS) if i not in (first, last))


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_a_quote_without_an_end_is_named_and_the_next_rows_are_read(tmp_path, suffix, row):
    rows = with_cell(ROWS, row, 1, '"' + ROWS[row][1])
    found = documents(table(tmp_path / f"a.{suffix}", rows))
    assert "unexpected end of data" in found.pop(row)
    assert found == texts(rows[:row] + rows[row + 1:])


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_quotes_at_the_beginnings_of_several_cells_are_each_named(tmp_path, suffix):
    rows = with_cell(with_cell(ROWS, 0, 1, '"heron'), 2, 1, '"oak')
    first, second, third, *others = documents(table(tmp_path / f"a.{suffix}", rows))
    assert "is no row, with the lines to 4" in first and "is no row, with the lines to 6" in third
    assert [second, *others] == texts([ROWS[1], *ROWS[3:]])


def test_rows_after_a_joined_one_have_their_lines_and_bytes(tmp_path):
    path = table(tmp_path / "a.csv", with_cell(with_cell(ROWS, 0, 1, '"heron'), 2, 1, 'oak"'))
    content = path.read_bytes()
    records = list(read_records(source_file(0, str(path)), None))
    assert [record.line for record in records] == [2, 3, 4, 5, 6]
    assert b"".join(content[each.byte:each.byte + each.num_bytes] for each in records) == content.partition(b"\n")[2]


ANSWERS = ["one\ntwo", "Dear Sir,\nthank you, and goodbye.", "Roses are red\nviolets are blue, too", "1,000\n2,000",
           "The sum:\n1,000", "def add(a, b):\n    return a, b", "print:\nf(a,b)\ng(c,d)", "a\n\nb,c", "a,b\nc,d",
           'She said "no"\nand left,\nat once', "- x\n- y\n- z", "a\nb,c,d", "\n", ","]


@pytest.mark.parametrize("answer", ANSWERS)
def test_cells_of_several_lines_are_read(tmp_path, answer):
    doubled = answer.replace('"', '""')
    rows = with_cell(ROWS, 1, 1, f'"{doubled}"')
    assert documents(table(tmp_path / "a.csv", rows)) == texts(with_cell(ROWS, 1, 1, answer))
    quoted = [tuple(f'"{cell}"' for cell in row) for row in with_cell(ROWS, 1, 1, doubled)]
    assert documents(table(tmp_path / "b.csv", quoted)) == texts(with_cell(ROWS, 1, 1, answer))


@pytest.mark.parametrize("answer", ["one\ntwo", "def f(a):\n\treturn a", "a\tb\nc\td", "x\n\ty"])
def test_cells_of_several_lines_in_tsv_are_read(tmp_path, answer):
    assert documents(table(tmp_path / "a.tsv", with_cell(ROWS, 1, 1, f'"{answer}"'))) == \
        texts(with_cell(ROWS, 1, 1, answer))


def test_a_file_of_one_column_has_cells_of_any_lines(tmp_path):
    rows = [('"a\nb\nc"',), ("d",)]
    assert documents(table(tmp_path / "a.csv", rows, ("text",))) == [Text(None, "a\nb\nc"), Text(None, "d")]
