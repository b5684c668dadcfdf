"""What a file is: suffixes, compression, rows of CSV, contents that the name does not say, standard
input."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare_program import TOOLS, dump, run_tool, write_lines
from read_documents import PLAIN, documents

from packtrain_tools.errors import ToolError
from packtrain_tools.sources.documents import Text
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.readers import read_records
from packtrain_tools.sources.source_file import CSV, LINES, TEXT, TSV, VALUES, source_file

ROWS = [{"prompt": f"A {i},\n\"b\"", "completion": f"é {i}"} for i in range(3)]
TEXTS = [Text(row["prompt"], row["completion"]) for row in ROWS]
LINE = b'{"prompt": "A", "completion": "B"}\n'


def as_csv(delimiter=","):
    quoted = [[field.replace('"', '""') for field in row.values()] for row in ROWS]
    lines = [f'"{delimiter}"'.join(fields) for fields in quoted]
    return f"prompt{delimiter}completion\n" + "".join(f'"{line}"\n' for line in lines)


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name, kind", [
    ("a.jsonl", LINES), ("a.JSONL", LINES), ("a.jsonlines", LINES), ("a.ndjson", LINES),
    ("a.jl", LINES), ("a.JSON", VALUES), ("a.csv", CSV), ("a.Tsv", TSV), ("a.txt", TEXT),
    ("a.jsonl.GZ", LINES), ("a.csv.bz2", CSV), ("a.yaml", TEXT), ("a", TEXT)])
def test_kinds_follow_suffixes_in_capitals_or_not(tmp_path, name, kind):
    assert source_file(0, str(written(tmp_path / name, ""))).kind == kind


@pytest.mark.parametrize("suffix, pack", [
    ("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress),
    (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)), (".GZ", gzip.compress)])
def test_lines_and_rows_are_read_compressed(tmp_path, suffix, pack):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    for name, content in [("a.jsonl", lines), ("a.csv", as_csv().encode()),
                          ("a.tsv", as_csv("\t").encode())]:
        assert documents(written(tmp_path / (name + suffix), pack(content))) == TEXTS


@pytest.mark.parametrize("suffix, pack", [
    (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda data: b"x" * 90])
def test_compressed_files_that_are_cut_or_none_are_errors(tmp_path, suffix, pack, change):
    path = written(tmp_path / f"a.jsonl{suffix}", change(pack(LINE)))
    with pytest.raises(ToolError, match="cannot be decompressed"):
        documents(path)


@pytest.mark.parametrize("suffix, pack", [
    (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress),
    (".zst", lambda data: pa.compress(data, "zstd", asbytes=True))])
def test_all_streams_of_a_compressed_file_are_read_or_it_is_refused(tmp_path, suffix, pack):
    first, second = pack(LINE * 99), pack(LINE)
    assert len(documents(written(tmp_path / f"whole.jsonl{suffix}", first + second))) == 100
    for number, rest in enumerate((b"garbage, no stream", second[:1] + b"#" + second[2:], second[:-1])):
        path = written(tmp_path / f"broken-{number}.jsonl{suffix}", first + rest)
        with pytest.raises(ToolError, match=f"broken-{number}.*cannot be decompressed"):
            documents(path)


def test_bytes_of_zero_between_streams_of_xz_are_padding(tmp_path):
    packed = lzma.compress(LINE)
    assert len(documents(written(tmp_path / "a.jsonl.xz", packed + bytes(8) + packed + bytes(4)))) == 2


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_file_without_bytes_is_named(tmp_path, suffix):
    written(tmp_path / "a.jsonl", LINE)
    written(tmp_path / f"b.jsonl{suffix}", b"")
    with pytest.raises(ToolError, match=f"b.jsonl{suffix}: cannot be decompressed: it has no bytes"):
        list_files([str(tmp_path)])


@pytest.mark.parametrize("name, content, fault", [
    ("a.txt", LINE, "would be read as plain text, and begins with a JSON object"),
    ("a.jsonl.txt", LINE, "ends in .jsonl .an object a line. or .json, or give --as jsonl"),
    ("a.jsonl.bak", b"\xef\xbb\xbf\n \n" + LINE, "begins with a JSON object"),
    ("a.txt", b"[\n " + LINE + b"]", "begins with a JSON object"),
    ("a.txt", b'{"text": "' + b"x" * 2_000_000 + b'"}', "begins with a JSON object"),
    ("a.jsonl", b"[" + LINE.strip() + b",\n" + LINE + b"]", "holds one JSON array"),
    ("a.jsonl", b"[" + LINE.strip() + b"]\n", "holds one JSON array"),
    ("a.jsonl", b'{\n"text": "x"\n}\n', "holds a JSON object over several lines"),
    ("a.jsonl", b"PAR1\x00", "is a Parquet table, though .*\n.*ends in .parquet"),
    ("a.json", gzip.compress(LINE), "is compressed by gzip, though"),
    ("a.csv", b"PK\x03\x04\x00\x00", "is a ZIP archive .or a spreadsheet."),
    ("a.jsonl.gz", gzip.compress(gzip.compress(LINE)), "is compressed by gzip"),
    ("a.txt", b"prompt,completion\na,b\n", "header of a table divided by commas\n.*ends in .csv, or give --as csv"),
    ("a.csv.txt", b'\xef\xbb\xbf"id","text"\r\n1,"b"\r\n', "header of a table divided by commas"),
    ("a", b"instruction\tinput\toutput\na\tb\tc\n", "header of a table divided by tabs\n.*give --as tsv"),
    ("a.txt", b"prompt;completion\na;b\n", "divided by semicolons\n.*Save it as CSV"),
    ("a.txt", b"- prompt: a\n  completion: b\n", "a list of records in YAML\n.*Convert it to JSONL"),
    ("a.txt", b"---\n- messages:\n  - role: user\n", "a list of records in YAML"),
    ("a", b"\0" * 257 + b"ustar\x0000", "is a tar archive")])
def test_files_that_are_not_what_their_name_says_are_refused(tmp_path, name, content, fault):
    with pytest.raises(ToolError, match=fault):
        list_files([str(written(tmp_path / name, content))])
    with pytest.raises(ToolError, match=fault):
        list_files([str(tmp_path)] if not name.endswith("bak") else [str(tmp_path / name)])


@pytest.mark.parametrize("name, content", [
    ("a.txt", b"{} is empty"), ("a.txt", b"[1] A reference."), ("a.txt", b"{not json"),
    ("a.txt", b"PARTS of a text"), ("a.txt", b"BZh was here"), ("a.jsonl", b'["a"]\n' + LINE),
    ("a.txt", b"prompt,completion"), ("a.txt", b"Prompt, completion and text\nare words."), ("a.txt", b"a,b\nc,d\n"),
    ("a.txt", b"- text: a line\n- text: another\n"), ("a.txt", b"- name: a\n  messages: b\n"), ("a.md", b"text | more\n"),
    ("a.jsonl", b'[{"a": 1}]\n' + LINE), ("a.jsonl", b'{"broken\n' + LINE), ("a.txt", b"")])
def test_files_that_only_look_odd_are_taken(tmp_path, name, content):
    list_files([str(written(tmp_path / name, content))])


@pytest.mark.parametrize("kind, name", [("text", "a.jsonl"), ("text", "a.txt"), ("jsonl", "a.bak"),
                                        ("json", "a.jsonl")])
def test_the_command_may_say_what_files_are(tokenizer_folder, tmp_path, kind, name):
    source = written(tmp_path / name, LINE)
    run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             "--as", kind)
    [example] = dump(tmp_path / "store")["examples"]
    assert sum(example["loss_mask"]) == (len(example["input_ids"]) if kind == "text" else 2)


def test_rows_of_csv_have_their_lines_and_bytes(tmp_path):
    content = '\ufefftext,id\r\n"a\r\n""b""",1\r\n\r\nc,2'.encode()
    path = written(tmp_path / "a.csv", content)
    records = list(read_records(source_file(0, str(path)), None))
    assert [(record.line, record.data) for record in records] == [
        (2, {"text": 'a\r\n"b"', "id": "1"}), (5, {"text": "c", "id": "2"})]
    assert [content[record.byte:record.byte + record.num_bytes] for record in records] == [
        b'"a\r\n""b""",1\r\n', b"c,2"]


def test_bad_rows_of_csv_are_named_and_the_next_ones_read(tmp_path):
    path = written(tmp_path / "a.csv", b'text,id\na\nb,1,2\n"c"d,1\n\xff,1\ne,1\n"f,1\ng,1\n')
    assert documents(path) == [
        "has 1 fields, wanted 2, as the header has", "has 3 fields, wanted 2, as the header has",
        "is no row: ',' expected after '\"'", "is not UTF-8: byte 0xff", Text(None, "e"),
        "is no row, with the lines to 8: unexpected end of data", Text(None, "g")]


@pytest.mark.parametrize("content, fault", [
    ("", "has no header"), ("\n\n", "has no header"), (",text\n0,a\n", "a.csv:1: column 1 of the "
     "header has no name\n.*index=False"), ("text,text\na,b\n", "the header has the name 'text' "
     "twice"), ('"te\n', "a.csv:1: the header is no row: unexpected end"),
    ("\ufeffa;b\n", "a.csv:1: has the columns 'a;b'; wanted 'text'")])
def test_headers_of_csv_that_are_none_are_refused(tmp_path, content, fault):
    with pytest.raises(ToolError, match=fault):
        documents(written(tmp_path / "a.csv", content))


def test_cells_may_hold_messages_and_weights(tmp_path):
    cell = json.dumps(PLAIN).replace('"', '""')
    path = written(tmp_path / "a.csv", f'messages,tools,weight\n"{cell}",,0.5\n"{cell}",[],\n'
                                       f'"{cell}",,x\n[],,\n')
    first, second, third, fourth = documents(path)
    assert (first.messages, first.tools, first.weight) == (PLAIN, None, 0.5)
    assert (second.tools, second.weight) == (None, 1.0)
    assert "'weight' is \"x\", wanted" in third
    assert "'messages' is an empty list" in fourth


def piped(content, *arguments):
    return subprocess.run([sys.executable, TOOLS / "prepare.py", *map(str, arguments)],
                          input=content, capture_output=True, timeout=100)


def test_standard_input_is_read_as_a_file_would_be(tokenizer_folder, tmp_path):
    lines = b"".join(json.dumps({"prompt": f"The owl {i}", "completion": f" saw {i}"}).encode() +
                     b"\n" for i in range(5000))
    rows = b"prompt,completion\n" + b"".join(b"The owl %d, saw %d\n" % (i, i) for i in range(5000))
    source = written(tmp_path / "a.jsonl", lines)
    run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "file")
    wanted = dump(tmp_path / "file")["examples"]
    for name, content, more in [("lines", lines, []), ("rows", rows, ["--as", "csv"])]:
        result = piped(content, "-", "--tokenizer", tokenizer_folder, "--out", tmp_path / name,
                       *more)
        assert result.returncode == 0, result.stderr
        store = dump(tmp_path / name)
        assert (store["examples"], store["sources"]) == (wanted, ["-"])


@pytest.mark.parametrize("arguments, fault", [
    (["-", "--as", "parquet"], "standard input cannot be read as parquet"),
    (["-", "-"], "is named twice"), (["/dev/stdin"], "is no regular file")])
def test_standard_input_that_cannot_be_read_is_refused(tokenizer_folder, tmp_path, arguments, fault):
    result = piped(LINE, *arguments, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store")
    assert result.returncode in (64, 65)
    assert fault in result.stderr.decode() and "Traceback" not in result.stderr.decode()


def test_bad_rows_and_lines_of_any_content_are_listed(tokenizer_folder, tmp_path):
    written(tmp_path / "a.csv", b'text\n"a\x1b\n"b\n')
    write_lines(tmp_path / "b.jsonl", {"text": "\ud800"}, {"text": "good", "\ud801": 1},
                {"\ud800": 1, "prompt": "x"})
    pq.write_table(pa.table({"text": pa.array([1, None], pa.timestamp("ns"))}),
                   tmp_path / "c.parquet")
    run_tool("prepare.py", tmp_path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             "--skip-bad-lines", "--max-bad-fraction", 1)
    assert len(dump(tmp_path / "store")["examples"]) == 1
    listed = [json.loads(line) for line in (tmp_path / "store" / "bad-lines.jsonl").open()]
    assert [(entry.get("line"), entry.get("row")) for entry in listed] == [
        (2, None), (1, None), (3, None), (None, 1), (None, 2)]
    assert all(entry["fault"].isprintable() for entry in listed)
    assert r"has the columns '\ud800', 'prompt'" in listed[2]["fault"]


def stream_of(rows, num_batches):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("text", pa.string())])) as writer:
        for number in range(num_batches):
            writer.write_batch(pa.record_batch({"text": [f"{number} {row}" for row in range(rows)]}))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name, content", [
    ("a.arrow", stream_of(50, 9)[:-900]), ("a.arrow", b"\xff\xff\xff\xff\x10"), ("a.parquet", b"PAR1 cut")])
def test_a_table_that_is_cut_is_named(tmp_path, name, content):
    path = written(tmp_path / name, content)
    with pytest.raises(ToolError, match=f"{name}: cannot be read: .*\n.*Is the file complete"):
        documents(path)


def test_an_arrow_stream_without_its_end_is_reported(tmp_path, capsys):
    whole = stream_of(2, 3)
    assert len(documents(written(tmp_path / "a.arrow", whole))) == 6
    assert "has no mark of its end" not in capsys.readouterr().err
    cut = written(tmp_path / "b.arrow", whole[:-8])
    assert len(documents(cut)) == 6
    assert f"{cut}: has no mark of its end, so later rows may be missing" in capsys.readouterr().err


def test_files_that_spark_writes_next_to_its_tables_are_left_out(tmp_path):
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "part-0.parquet")
    pq.write_metadata(pa.schema([("text", pa.string())]), tmp_path / "_common_metadata")
    for name in ("_SUCCESS", "_metadata", "_committed_123"):
        written(tmp_path / name, b"PAR1\0")
    assert [file.path for file in list_files([str(tmp_path)])[0]] == [str(tmp_path / "part-0.parquet")]


def test_parts_that_are_not_in_the_folder_are_reported(tmp_path, capsys):
    for name in ("train-00000-of-00003.jsonl", "train-00002-of-00003.jsonl", "more-00000-of-00001.jsonl"):
        written(tmp_path / name, LINE)
    assert len(list_files([str(tmp_path)])[0]) == 3
    assert capsys.readouterr().err == f"packtrain prepare: {tmp_path}: holds 2 of the 3 files " \
        "train-*-of-00003.jsonl: are the others missing?\n"
