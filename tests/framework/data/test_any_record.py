"""Any record is a document or a named bad line."""

import json
import math
import random

import pyarrow as pa
import pytest
from prepare_program import write_lines
from read_documents import PLAIN, documents, write_table

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.documents import (BadRecord, Instruction, Preference, Rollouts,
                                               Text, Tokens, printable)
from packtrain_tools.sources.formats import FORMATS, Reading
from packtrain_tools.sources.rollout_columns import ROLLOUTS

ODD = [None, True, 0, -1, 0.5, 1e308, float("nan"), float("inf"), 10**4000, "", " ", "x",
       "\ud800", "\x1b[31m\x00\n", "\ufeff", "\U0010ffff", "[", "{}", "[]", "null", '"x"',
       "[" * 3000, '{"a": 1' + "0" * 5000 + "}", '[{"role": "user", "content": "\\ud800"}]']
KEYS = ["role", "content", "from", "value", "text", "train", "weight", "tool_calls", "function",
        "function_call", "name", "arguments", "type", "thinking", "reasoning", "input", "output",
        "system", "\ud800", ""]
WORDS = ["user", "assistant", "system", "tool", "human", "gpt", "function_call", "text", "thinking"]


def anything(chance, depth=4):
    what = chance.random()
    if depth == 0 or what < 0.3:
        return chance.choice(ODD)
    if what < 0.5:
        return chance.choice(WORDS)
    if what < 0.75:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {chance.choice(KEYS): anything(chance, depth - 1) for _ in range(chance.randrange(5))}


def nearly_messages(chance):
    """Messages with something odd somewhere."""
    messages = json.loads(json.dumps(PLAIN * chance.randrange(1, 3)))
    for _ in range(chance.randrange(1, 4)):
        messages[chance.randrange(len(messages))][chance.choice(KEYS)] = anything(chance)
    return messages


USUAL = {"pairs": {"prompt": "Say x.", "chosen": " x", "rejected": " y", "margin": 0.5},
         "judged": {"prompt": "Say x.", "completion": " x", "label": True},
         "rollouts": {"prompt": "Say x.", "completion": " x", "advantage": 0.5, "old_log_prob": [-1.0]}}


def odd_preference(chance, name):
    """A usual record with something odd in a column or two."""
    columns = FORMATS[name].required + FORMATS[name].optional
    if name == "rollouts":  # all records have the columns that the first ones have
        columns = [column for column in columns if column in USUAL[name] or column not in ROLLOUTS]
    record = dict(USUAL[name])
    for column in chance.sample(columns, chance.randrange(3)):
        record[column] = nearly_messages(chance) if chance.random() < 0.3 else anything(chance)
    return record


def odd_record(chance, name):
    if name in USUAL:
        return odd_preference(chance, name) | {"doc": chance.choice([1, "a", 1.5, anything(chance)])}
    columns = FORMATS[name]
    record = dict.fromkeys(columns.required, "x")
    if name in ("messages", "sharegpt"):
        record[columns.required[0]] = nearly_messages(chance)
    for column in columns.required + columns.optional:
        what = chance.random()
        if what < 0.2:
            record[column] = nearly_messages(chance)
        elif what < 0.5:
            record[column] = anything(chance)
    return record | {"doc": chance.choice([1, "a", 1.5, anything(chance)])}


def check_all(found):
    for document in found:
        if isinstance(document, Preference):
            assert document.margin is None or math.isfinite(document.margin)
            check_all(member for _, member in document.members)
        elif isinstance(document, Rollouts):
            check_all(rollout.member for rollout in document.members)
            numbers = [number for rollout in document.members for values in rollout.values.values()
                       for number in (values if isinstance(values, list) else [values])]
            assert document.members and all(map(math.isfinite, numbers))
        elif isinstance(document, Instruction):
            for made in (document.as_text, document.as_conversation):
                try:
                    made()
                except ValueError as fault:
                    assert str(fault)
        elif isinstance(document, str):
            assert document.isprintable() and document
        else:
            assert isinstance(document, Text | Conversation | Tokens)
            assert 0 <= document.weight <= 1
            assert not isinstance(document, Conversation) or all(
                weight is None or 0 <= weight <= 1 for weight in document.asked)


READINGS = [Reading(), Reading("doc", reshaping=Reshaping("S", True))]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_line_is_a_document_or_a_named_bad_line(tmp_path, name, reading):
    chance = random.Random(f"{name} {reading.group_by}")
    records = [odd_record(chance, name) for _ in range(2000)]
    found = documents(write_lines(tmp_path / "a.jsonl", *records), reading=reading, wanted=name)
    assert len(found) == len(records)
    check_all(found)
    assert sum(not isinstance(document, str) for document in found) > 50


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_is_a_document_or_a_named_bad_row(tmp_path, name):
    chance = random.Random(name)
    for number in range(150):
        record = odd_record(chance, name)
        try:
            path = write_table(tmp_path / f"{number}.parquet", [record])
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, RecursionError):
            continue  # Arrow holds no such value
        check_all(documents(path, wanted=name))


ROWS_OF_CSV = ["x", '"x', '"a\nb"', 'x"y"', "1" * 5000, "\x00", "[1]", "", '"x" y', "é", "a,b"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_of_csv_is_a_document_or_a_named_bad_line(tmp_path, name):
    chance = random.Random(name)
    columns = FORMATS[name].required + FORMATS[name].optional
    for number in range(100):
        lines = [",".join(chance.choice(ROWS_OF_CSV) for _ in columns) for _ in range(5)]
        path = tmp_path / f"{number}.csv"
        path.write_bytes("\n".join([",".join(columns), *lines]).encode(
            chance.choice(["utf-8", "latin-1"])))
        check_all(documents(path, wanted=name))


@pytest.mark.parametrize("line, fault", [
    ('{"text": 1' + "0" * 5000 + "}", "holds a number of too many digits"),
    ('{"text": ' + "[" * 5000 + "]" * 5000 + "}", "is nested too deeply"),
    ('{"text": "\\ud800"}', "'text' holds half of a surrogate pair"),
    ('{"text": NaN}', "'text' is NaN, wanted a string"),
    ('{"text": "a", "text": "b"}', "the key 'text' appears twice"),
    ("[1]", "is a list, wanted a JSON object")])
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_odd_json_is_a_named_bad_line(tmp_path, line, fault, suffix):
    path = tmp_path / f"a.{suffix}"
    path.write_text('{"text": "good"}\n' + line + '\n{"text": "good"}\n')
    if "[" * 5000 in line and suffix == "json":  # the reader cannot find its end
        with pytest.raises(ToolError, match=r"a.json:2: is nested too deeply"):
            documents(path)
    else:
        good, bad, again = documents(path)
        assert fault in bad and good == again == Text(None, "good")


def test_faults_are_printable_and_of_one_line():
    fault = BadRecord("has '\ud800' \x1b[31m\n" + "x" * 5000, 1).fault
    assert fault.startswith(r"has '\ud800' \x1b[31m\n") and len(fault) == 2000
    assert printable("turn 2: 'größe 漢 \u00a0'") == "turn 2: 'größe 漢 \u00a0'"
