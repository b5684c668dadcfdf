"""Tests the errors of `prepare` for unreadable data: they name options, and these options make it readable."""

import json
import re
import shlex

import pytest
from prepare_program import run_tool, write_lines
from read_documents import documents, write_table

from packtrain_tools.errors import ToolError
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.formats import find_format

TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
PARTS = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]
ROWS = [
    {"conversation": TURNS, "turn": 1}, {"thread": PARTS}, {"data": ["Hi", "Yes"], "id": "0"},
    {"items": PARTS}, {"conversation": [{"input": "Hi", "output": "Yes"}], "source": "a"},
    {"instruction": "Hi", "context": "", "response": "Yes", "category": "qa"},
    {"id": 1, "system_prompt": "Be brief.", "question": "Hi", "response": "Yes"},
    {"inputs": "Hi", "targets": "Yes", "task": "x"}, {"query": "Hi", "answer": "Yes"},
    {"problem": "Hi", "generated_solution": "Yes", "expected_answer": "3"},
    {"instruction": "Hi", "response": "Yes"}, {"Prompt": "Hi", " completion": "Yes"},
    {"Instruction": "Hi", "Output": "Yes"}, {"content": "Hi", "url": "x"},
    {"instruction": "Hi", "input": "", "output": "Yes", "text": "Hi Yes"},
    {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    {"input": TURNS[:1], "output": "Yes", "category": "math"}, {"input": "Hi", "response": "Yes"},
    {"instruction": "Hi", "input": "x", "response": "Yes"},
    {"message_id": "1", "parent_id": "0", "text": "Hi", "role": "prompter"},
    {"query": "Hi", "tools": "[{\"name\": \"f\"}]", "answers": "[{\"name\": \"f\", \"arguments\": {}}]"}]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row))
@pytest.mark.parametrize("is_table", [False, True])
def test_all_options_that_are_advised_make_the_data_readable(tmp_path, row, is_table):
    path = write_table(tmp_path / "a.parquet", [row]) if is_table \
        else write_lines(tmp_path / "a.jsonl", row)
    with pytest.raises(ToolError) as error:
        documents(path)
    advised = re.findall(r"--column (?:'[^']*'|[^\s,]+)(?: --column (?:'[^']*'|[^\s,]+))*",
                         error.value.advice)
    formats = re.findall(r"--format ([\w-]+)", error.value.advice)
    assert advised or formats
    for options in advised:
        renamed = [tuple(word.split("=")) for word in shlex.split(options) if word != "--column"]
        assert not isinstance(documents(path, renamed)[0], str)
    for name in formats:
        assert not isinstance(documents(path, wanted=name)[0], str)


@pytest.mark.parametrize("row, advice", [
    ({"text": "A"}, "Leave --format out"),
    ({"question": "A", "answer": "B"}, "Without --format: Try --column instruction=question "),
    ({"x": "A"}, "Say which with --format")])
def test_a_format_that_does_not_fit_is_named(tmp_path, row, advice):
    with pytest.raises(ToolError, match="wanted 'messages' for --format messages") as error:
        documents(write_lines(tmp_path / "a.jsonl", row), wanted="messages")
    assert error.value.advice.startswith(advice)


@pytest.mark.parametrize("name, content, advice", [
    ("a.csv", "prompt;completion\na;b\n", "divided by ';': save it as CSV"),
    ("a.csv", "prompt\tcompletion\na\tb\n", "--as tsv reads it"),
    ("a.tsv", "prompt,completion\na,b\n", "--as csv reads it"),
    ("a.csv", "sep=,\nprompt,completion\na,b\n", "Remove this line"),
    ("a.csv", "text\ra\r", "carriage return without a line feed"),
    ("a.json", '{"data": [{"text": "a"}]}', r"Its records lie in 'data': `jq -c '.\[\"data\"\]\[\]'"),
    ("a.json", '[{"text": "a"}]\n[{"text": "b"}]', "a.json:2: .* follows the end of the array"),
    ("a.jsonl", b"\x1f\x8b\x08", "Rename it to a.jsonl.gz"),
    ("a.jsonl", '{"text": "a"}\n'.encode("utf-16"), "is UTF-16, wanted UTF-8\n.*iconv -f UTF-16 "),
    ("a.csv", "text\na\n".encode("utf-16-be"), "is UTF-16BE, wanted"),
    ("a.txt", "some text".encode("utf-16-le"), "is UTF-16LE, wanted"),
    ("a.json", '[{"text": "a"}]'.encode("utf-32"), "is UTF-32, wanted"),
    ("a.bin", b"ORC\x00\x01\x02", "bytes of 0, as binary files do.*\n.*--as text")])
def test_files_of_another_kind_are_named_with_what_to_do(tmp_path, name, content, advice):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ToolError, match=advice):
        documents(path)


def test_short_files_are_no_utf16(tmp_path):
    for content in (b"A", b"AB", b"ABC", b"ABCD", "é".encode()):
        (tmp_path / "a.txt").write_bytes(content)
        list_files([str(tmp_path / "a.txt")])


def test_the_name_of_a_column_is_the_file_s_own_in_faults(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"chat": "USER: Hi"})
    assert documents(path, [("messages", "chat")])[0].startswith("'chat' (--column messages=chat) is no "
                                                                "valid JSON")


def test_a_column_that_no_source_has_is_a_usage_error(tokenizer_folder, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"prompt": "A", "completion": "B"})
    other = write_lines(tmp_path / "b.jsonl", {"question": "A", "completion": "B"})
    common = ["--tokenizer", tokenizer_folder, "--out", tmp_path / "store", "--column", "prompt=question"]
    assert "no source has a column 'question'" in run_tool("prepare.py", path, *common,
                                                           exit_code=64).stderr
    run_tool("prepare.py", path, other, *common)


def test_options_that_change_nothing_are_named(tokenizer_folder, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"text": "A bird"})
    result = run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                      "--train-on", "last", "--system", "S", "--separator", "%", "--instructions-as", "text")
    for name in ("--train-on", "--system", "--separator", "--instructions-as"):
        assert f"has no effect: {name} (no source " in result.stderr


@pytest.mark.parametrize("option", ["--out", "--group-by", "--end-token", "--chat-template",
                                    "--tokenizer"])
def test_an_empty_value_is_a_usage_error(tokenizer_folder, tmp_path, option):
    path = write_lines(tmp_path / "a.jsonl", {"text": "A bird"})
    result = run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                      option, "", exit_code=64)
    assert f"{option} is empty, wanted a value" in result.stderr


def test_an_error_without_examples_counts_why_records_were_left_out(tokenizer_folder, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"text": "A bird"}, {"text": "An owl"}, {"text": ""})
    common = [path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store"]
    fault = run_tool("prepare.py", *common, "--min-length", 100, exit_code=65).stderr
    assert "3 records were read, and 0 examples made of them; 1 have nothing to predict" in fault
    assert "shorter than --min-length that were left out: 2" in fault


def test_counts_are_of_all_that_was_read_and_say_so(tokenizer_folder, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", *({"prompt": f"A {i}", "completion": ""} for i in range(9)))
    common = [path, "--tokenizer", tokenizer_folder, "--overwrite", "--out", tmp_path / "store"]
    said = "Of all 9 examples that were read, before some of them were chosen:\nAnswers that are empty"
    assert said in run_tool("prepare.py", *common, "--sample", 2).stdout
    assert "Of all" not in run_tool("prepare.py", *common).stdout
    summary = json.loads(run_tool("prepare.py", *common, "--sample", 2, "--json").stdout)
    assert (summary["num_examples_read"], summary["counts"]["empty_answers"]) == (9, 9)
    assert summary["stores"][0]["num_examples"] == 2


def test_stores_are_no_sources_and_lie_apart(tokenizer_folder, tmp_path):
    write_lines(tmp_path / "a.jsonl", {"text": "A bird"}, {"text": "An owl"})
    for options in ([], ["--overwrite"], ["--out", tmp_path / "other"]):
        summary = json.loads(run_tool("prepare.py", tmp_path, "--tokenizer", tokenizer_folder, "--json",
                                      "--out", tmp_path / "store", *options).stdout)
        assert summary["stores"][0]["num_examples"] == 2
    fault = run_tool("prepare.py", tmp_path / "a.jsonl", "--tokenizer", tokenizer_folder, "--out",
                     tmp_path / "s", "--validation-out", tmp_path / "s" / "v", "--validation-fraction",
                     0.5, exit_code=64).stderr
    assert "lie one in the other" in fault


def test_any_terminal_can_show_the_samples(tokenizer_folder, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"prompt": "鳥", "completion": "é"})
    run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             environment={"PYTHONIOENCODING": "ascii"})


def test_columns_of_the_first_records_are_known(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"text": "A"}, {"text": "B", "id": 1, "prompt": "C"})
    form = find_format(list_files([str(path)])[0][0], None, [])
    assert (form.name, form.ignored) == ("text", ("id",))  # the format is that of the first
