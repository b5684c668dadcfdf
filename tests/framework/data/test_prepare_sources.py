"""Tests the sources of `packtrain prepare`: formats, kinds of files, folders, the hub."""

import gzip
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare_program import dump, ids_of, run_tool, write_lines

from packtrain_tools.sources import hub, json_values
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.formats import BadRecord, Instruction, decode, find_format, format_of_columns
from packtrain_tools.sources.readers import Reader, read_records
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.source_file import source_file

ROWS = [{"prompt": f"The owl {i}", "completion": f" saw {i} birds" * (1 + i % 3), "id": i}
        for i in range(2500)]


def texts_of(path, renamed=None, wanted=None):
    """(prompt, text) of every document of a source."""
    files, _ = list_files([str(path)])
    texts = []
    for chunk in Reader(files, None).chunks():
        for record in chunk.records():
            text = decode(record, find_format(record.file, wanted, renamed or []))
            text = text.as_text() if isinstance(text, Instruction) else text
            texts.append((text.prompt, text.text))
    return texts


def write_parquet(path):
    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=700)
    return path


def write_arrow_file(path):
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1500)
    return path


def write_arrow_stream(path):
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    return path


def write_gz(path):
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
    return path


def write_zst(path):
    """Writes two frames, as parallel compressors do."""
    lines = [(json.dumps(row) + "\n").encode() for row in ROWS]
    path.write_bytes(b"".join(pa.compress(b"".join(part), "zstd", asbytes=True)
                              for part in (lines[:1000], lines[1000:])))
    return path


def write_array(path):
    path.write_text(" [\n" + ",\n".join(json.dumps(row, indent=1) for row in ROWS) + "\n]\n")
    return path


KINDS = {"a.parquet": write_parquet, "file.arrow": write_arrow_file,
         "stream.arrow": write_arrow_stream, "a.jsonl.gz": write_gz, "a.jsonl.zst": write_zst,
         "a.json": write_array, "lines.json": lambda path: write_lines(path, *ROWS)}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_same_documents(tmp_path, name):
    assert texts_of(KINDS[name](tmp_path / name)) == [(row["prompt"], row["completion"])
                                                      for row in ROWS]


@pytest.mark.parametrize("opened", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_table_without_rows_has_its_columns(tmp_path, opened):
    schema = pa.Table.from_pylist(ROWS[:1]).schema
    with opened(tmp_path / "a.arrow", schema):
        pass
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    for name in ("a.arrow", "a.parquet"):
        form = find_format(source_file(0, str(tmp_path / name)), None, [])
        assert (form.name, form.ignored) == ("prompt-completion", ("id",))
        assert texts_of(tmp_path / name) == []


def test_a_chunk_of_rows_takes_no_more_than_them_to_a_worker(tmp_path):
    file = source_file(0, str(write_arrow_stream(tmp_path / "a.arrow")))
    chunks = list(Reader([file], None).chunks())
    assert len(chunks) > 2
    assert sum(len(pickle.dumps(chunk)) for chunk in chunks) < 1.5 * file.num_bytes


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.json"])
def test_a_file_that_is_cut_short_is_an_error(tmp_path, name):
    path = KINDS[name](tmp_path / name)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ToolError, match=f"{name}.*(decompressed|complete|no end|no valid JSON)"):
        texts_of(path)


def test_elements_of_an_array_have_their_lines_and_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(json_values, "BLOCK_BYTES", 7)  # elements lie across blocks
    path = tmp_path / "a.json"
    path.write_text('[{"text": "ä"},\n\n {"text":\n"b"}, 12, 3]\n')
    content = path.read_bytes()
    records = list(read_records(source_file(0, str(path)), None))
    assert [record.line for record in records] == [1, 3, 4, 4]
    assert [record.data for record in records] == [
        b'{"text": "\xc3\xa4"}', b'{"text":\n"b"}', b"12", b"3"]
    for record in records:
        assert content[record.byte:record.byte + record.num_bytes] == record.data


def test_a_value_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(json_values, "BLOCK_BYTES", 64)
    monkeypatch.setattr(json_values, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": [{"text": "x" * 50}] * 100}))
    with pytest.raises(ToolError, match=r"a.json:1: no value ends within 1,000 char.*\n.*jq -c '.data"):
        texts_of(path, wanted="text")
    path.write_text(json.dumps([{"text": "x" * 900}, {"text": "y" * 900}], indent=1))
    assert [len(text) for _, text in texts_of(path)] == [900, 900]


def test_a_folder_of_datasets_is_read_in_its_own_order(tmp_path):
    import datasets
    folder = tmp_path / "saved"
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(
        folder, num_shards={"train": 3})
    with pytest.raises(ToolError, match="holds the splits train"):
        list_files([str(folder)])
    assert texts_of(folder / "train") == [(row["prompt"], row["completion"]) for row in ROWS]


def test_splits_are_not_mixed_and_what_describes_data_is_not_data(tmp_path):
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}-00000-of-00001.parquet")
    (tmp_path / "README.md").write_text("a card")
    with pytest.raises(ToolError, match="files of the splits test, train"):
        list_files([str(tmp_path)])
    (tmp_path / "test-00000-of-00001.parquet").unlink()
    files, _ = list_files([str(tmp_path)])
    assert [file.path for file in files] == [str(tmp_path / "train-00000-of-00001.parquet")]


def test_instructions_are_laid_out_under_headings(tmp_path):
    path = write_lines(tmp_path / "a.jsonl",
                       {"instruction": "Add.", "input": "1 and 2", "output": "3", "text": None},
                       {"instruction": "Sing.", "input": "", "output": "La"})
    path.write_text(path.read_text().replace(', "text": null', ""))
    assert texts_of(path) == [
        ("### Instruction:\nAdd.\n\n### Input:\n1 and 2\n\n### Response:\n", "3"),
        ("### Instruction:\nSing.\n\n### Response:\n", "La")]


@pytest.mark.parametrize("names, wanted, renamed, found", [
    (["text", "id"], None, [], "text (text; ignored: id)"),
    (["prompt", "completion", "text"], "text", [], "text (text; ignored: prompt, completion)"),
    (["question", "answer"], None, [("prompt", "question"), ("completion", "answer")],
     "prompt-completion (prompt=question, completion=answer)"),
    (["instruction", "input", "output"], None, [], "instruction (instruction, output, input)")])
def test_formats_are_found_by_columns(names, wanted, renamed, found):
    assert str(format_of_columns(names, wanted, renamed)) == found


@pytest.mark.parametrize("names, wanted, message", [
    (["txt"], None, "has the columns 'txt'; wanted 'text'; or 'prompt' and 'completion'"),
    (["text"], "instruction", "has the columns 'text'; wanted 'instruction', 'output'"),
    (["prompt", "completion", "text"], None, "which fit the formats text and prompt-completion")])
def test_columns_that_say_nothing_or_too_much_are_refused(names, wanted, message):
    with pytest.raises(ValueError, match=message):
        format_of_columns(names, wanted, [])


def test_one_column_with_two_meanings_is_refused():
    renamed = [("prompt", "q"), ("completion", "q")]
    with pytest.raises(ValueError, match="has 'q', and --column calls it both 'prompt' and 'completion'"):
        format_of_columns(["q", "a"], None, renamed)
    assert format_of_columns(["prompt", "completion"], None, renamed).name == "prompt-completion"


def test_several_columns_may_be_left_out():
    renamed = [("system", ""), ("tools", "")]
    form = format_of_columns(["prompt", "completion", "system", "tools"], None, renamed)
    assert form.columns == ("prompt", "completion")


def test_a_null_in_a_table_is_a_bad_row(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": "a"}, {"text": None}]), path)
    file = source_file(0, str(path))
    [chunk] = Reader([file], None).chunks()
    form = find_format(file, None, [])
    assert decode(chunk.records()[0], form).text == "a"
    with pytest.raises(BadRecord, match="'text' is null, wanted a string") as caught:
        decode(chunk.records()[1], form)
    assert file.place(caught.value.line) == f"{path}: row 2"


def test_sources_of_many_kinds_make_one_store_and_say_what_they_are(
        tokenizer_folder, oracle, tmp_path):
    lines = write_lines(tmp_path / "a.jsonl", {"question": "Who?", "answer": "Me", "text": "no"})
    table = write_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.txt").write_text("three")
    result = run_tool("prepare.py", tmp_path / "c.txt", lines, table, "--tokenizer",
                      tokenizer_folder, "--out", tmp_path / "store", "--column", "prompt=question",
                      "--column", "completion=answer", "--format", "prompt-completion")
    assert (f"{lines}: prompt-completion (prompt=question, completion=answer; ignored: text)"
            in result.stderr)
    assert f"{table}: prompt-completion (prompt, completion; ignored: id)" in result.stderr
    assert f"{tmp_path / 'c.txt'}: document\n" in result.stderr
    store = dump(tmp_path / "store")
    assert store["sources"] == [str(tmp_path / "c.txt"), str(lines), str(table)]
    assert [e["source"] for e in store["examples"]] == [0, 1] + [2] * len(ROWS)
    assert store["examples"][1]["input_ids"] == (
        ids_of(oracle, "Who?") + ids_of(oracle, "Me") + [oracle.eos_token_id])
    last = store["examples"][-1]["input_ids"]
    assert last == (ids_of(oracle, ROWS[-1]["prompt"]) + ids_of(oracle, ROWS[-1]["completion"]) +
                    [oracle.eos_token_id])


def test_unknown_columns_are_refused_with_what_was_found(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", {"question": "Who?", "answer": "Me"})
    arguments = [source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store"]
    result = run_tool("prepare.py", *arguments, exit_code=65)
    assert f"{source}:1: has the columns 'question', 'answer'; wanted 'text'" in result.stderr
    assert "--column prompt=question --column completion=answer" in result.stderr
    assert "'pompt=question' is not OURS=YOURS" in run_tool(
        "prepare.py", *arguments, "--column", "pompt=question", exit_code=64).stderr


@pytest.mark.parametrize("source, wanted", [
    ("hf:owner/name", ("owner/name", None, None, "train")),
    ("hf:squad", ("squad", None, None, "train")),
    ("hf:owner/name/en@v1.2:test[:10]", ("owner/name", "en", "v1.2", "test[:10]"))])
def test_hub_names_have_configuration_revision_and_split(monkeypatch, source, wanted):
    """The loader is replaced: what is asked of it, and that its rows are read."""
    import datasets
    asked = []

    def load_dataset(name, config, *, revision, split):
        asked.append((name, config, revision, split))
        return datasets.Dataset.from_list(ROWS)

    hub.open_hub.cache_clear()
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert texts_of(source) == [(row["prompt"], row["completion"]) for row in ROWS]
    assert asked == [wanted]
    hub.open_hub.cache_clear()


def test_the_hub_without_a_network_is_a_clear_error(tokenizer_folder, tmp_path):
    result = run_tool("prepare.py", "hf:nobody/nothing", "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", exit_code=65,
                      environment={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)})
    assert "hf:nobody/nothing: cannot be loaded: " in result.stderr
    assert "Without a network it must be in the cache" in result.stderr
    result = run_tool("prepare.py", "nobody/nothing", "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", exit_code=65)
    assert "write hf:nobody/nothing" in result.stderr
