"""Columns that were not read, but probably belong to the prompt or the answer, are named with what reads them."""

import re

import pytest
from prepare_program import run_tool, write_lines
from read_documents import PLAIN, documents

from packtrain_tools.sources.columns import format_of_columns
from packtrain_tools.sources.documents import Instruction
from packtrain_tools.sources.hints import hints_for

PAIR = {"prompt": "A", "chosen": "B", "rejected": "C"}


@pytest.mark.parametrize("row", [
    {"messages": PLAIN, "system_prompt": "S"}, {"prompt": "A", "completion": "B", "System_Message": "S"},
    {"instruction": "A", "output": "B", "context": "C"}, {"conversations": PLAIN, "available_tools": []},
    {"instruction": "A", "output": "B", "chat_history": []}, {"prompt": "A", "completion": "B", "context": "C"},
    {"prompt": "A", "completion": "B", "input": "C"}, {"prompt": "A", "completion": "B", "label": 1},
    PAIR | {"chosen_score": 2, "rejected_score": 1}])
def test_the_options_of_a_hint_read_the_column(tmp_path, row):
    path = write_lines(tmp_path / "a.jsonl", row)
    hints = hints_for(format_of_columns(list(row), None, []))
    assert hints
    options = [option for hint in hints for option in re.findall(r"--(column|format) (\S+)", hint)]
    renamed = [tuple(value.split("=")) for name, value in options if name == "column"]
    wanted = next((value for name, value in options if name == "format"), None)
    form = format_of_columns(list(row), wanted, renamed)
    assert not hints_for(form) and not set(form.ignored) & {*row}
    assert not isinstance(documents(path, renamed, wanted=wanted)[0], str)


def test_the_input_of_a_prompt_follows_it(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"prompt": "A", "context": "C", "completion": "B"})
    renamed = [("instruction", "prompt"), ("output", "completion"), ("input", "context")]
    assert documents(path, renamed, wanted="instruction") == [Instruction("", "A", "C", "B")]


@pytest.mark.parametrize("names", [
    ["messages", "system", "source"], ["text", "context", "label", "reasoning"], ["prompt", "completion", "id", "score"],
    ["prompt", "chosen", "rejected", "score_chosen", "score_rejected", "label"]])
def test_other_columns_have_no_hint(names):
    assert hints_for(format_of_columns(names, None, [])) == []


def test_reasoning_in_a_column_is_named():
    [hint] = hints_for(format_of_columns(["prompt", "completion", "reasoning"], None, []))
    assert "'reasoning' is not read" in hint


def test_the_command_prints_a_hint_once(tmp_path, tokenizer_folder):
    row = {"prompt": "The owl", "completion": "saw", "system_prompt": "S"}
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(folder / name, row)
    said = run_tool("prepare.py", folder, "--tokenizer", tokenizer_folder, "--out", tmp_path / "out", "--processes", 1).stderr
    assert said.count("'system_prompt' is not read: --column system=system_prompt reads it") == 1
