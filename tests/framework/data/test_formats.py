"""Tests how records are read in each format: columns, weights, groups, lines and tables."""

import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare_program import write_lines
from read_documents import PLAIN, documents, only, write_table

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.documents import Instruction, Text
from packtrain_tools.sources.documents import Preference, Role
from packtrain_tools.sources.formats import Reading, format_of_columns


@pytest.mark.parametrize("row", [{"question": "A?", "prompt": "t-7", "completion": "B"},
                                 {"prompt": "t-7", "completion": "B", "question": "A?"}])
def test_a_column_that_the_command_names_stands_before_one_of_our_name(tmp_path, row):
    renamed = [("prompt", "question")]
    path = write_lines(tmp_path / "a.jsonl", row)
    table = write_table(tmp_path / "a.parquet", [row])
    assert documents(path, renamed) == documents(table, renamed) == [Text("A?", "B")]
    assert format_of_columns(list(row), None, renamed).ignored == ("prompt",)


def test_columns_may_change_places(tmp_path):
    row = {"prompt": "A", "completion": "B"}
    swapped = [("prompt", "completion"), ("completion", "prompt")]
    assert only(tmp_path, row, renamed=swapped) == Text("B", "A")
    assert format_of_columns(list(row), None, swapped).ignored == ()


def test_a_file_without_the_named_column_has_its_own(tmp_path):
    row = {"prompt": "A", "completion": "B"}
    assert only(tmp_path, row, renamed=[("prompt", "question")]) == Text("A", "B")
    _, fault = documents(write_lines(tmp_path / "b.jsonl", row, row | {"question": "C"}),
                         [("prompt", "question")])
    assert "has the column 'question', which --column names and the file's first" in fault


@pytest.mark.parametrize("first", [1, 150])
def test_an_optional_column_with_another_name_may_begin_in_any_record(tmp_path, first):
    rows = [{"prompt": "A", "completion": "B"}] * first + [{"prompt": "A", "completion": "B", "sys": "S"}]
    found = documents(write_lines(tmp_path / "a.jsonl", *rows), [("system", "sys")])
    assert found == [Text("A", "B")] * first + [Text("S\n\nA", "B")]


def test_two_columns_for_one_of_ours_are_refused():
    renamed = [("prompt", "a"), ("prompt", "b")]
    assert format_of_columns(["b", "completion"], None, renamed).theirs == {"prompt": "b"}
    with pytest.raises(ValueError, match="has 'a' and 'b', and --column calls both 'prompt'"):
        format_of_columns(["a", "b", "completion"], None, renamed)


def test_a_column_is_left_out_on_request(tmp_path):
    row = {"instruction": "A", "output": "B", "text": "A B", "weight": 7}
    left_out = [("text", ""), ("weight", "")]
    assert only(tmp_path, row, renamed=left_out) == Instruction("", "A", "", "B")
    assert format_of_columns(list(row), None, left_out).ignored == ("text", "weight")


def test_columns_of_preference_pairs_are_pairs_unless_the_command_says_what_they_are():
    names = ["prompt", "chosen", "rejected", "messages"]
    assert format_of_columns(names, None, []).name == "pairs"
    assert format_of_columns(names, "messages", []).name == "messages"
    assert format_of_columns(names[:3], None, [("completion", "chosen")]).name == "prompt-completion"


def test_token_ids_are_sent_to_their_own_command():
    with pytest.raises(ValueError, match="packtrain prepare --pretokenized FILE"):
        format_of_columns(["input_ids", "labels"], None, [])


def test_a_table_may_not_have_a_used_column_twice():
    with pytest.raises(ValueError, match="has the column 'text' twice"):
        format_of_columns(["text", "text"], None, [])
    assert format_of_columns(["text", "id", "id"], None, []).ignored == ("id", "id")


def test_a_system_column_stands_before_a_prompt(tmp_path):
    row = {"prompt": "A", "completion": "B", "system": "S"}
    assert only(tmp_path, row) == Text("S\n\nA", "B")
    chat = only(tmp_path, row | {"prompt": [{"role": "user", "content": "A"}]})
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant"]
    assert chat.asked == [0.0, 0.0, 1.0]


def test_tools_with_a_prompt_of_text_are_refused(tmp_path):
    row = {"prompt": "A", "completion": "B", "tools": [{"name": "f"}]}
    assert "has tools, which only messages can call" in only(tmp_path, row)
    assert only(tmp_path, row | {"tools": []}) == Text("A", "B")
    assert only(tmp_path, row, reading=Reading(reshaping=Reshaping("S")),
                renamed=[("tools", "")]) == Text("S\n\nA", "B")
    assert only(tmp_path, row, renamed=[("tools", "")]) == Text("A", "B")


@pytest.mark.parametrize("as_text", [False, True])
def test_calls_with_tools_are_a_conversation(tmp_path, as_text):
    calls = [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]
    tools = [{"name": "f"}, {"name": "g"}]
    row = {"prompt": "A", "completion": json.dumps(calls) if as_text else calls,
           "tools": json.dumps(tools) if as_text else tools}
    chat = only(tmp_path, row)
    assert chat.tools == tools and chat.asked == [0.0, 1.0]
    assert [call["function"] for call in chat.messages[1]["tool_calls"]] == calls
    assert only(tmp_path, {"prompt": "A", "completion": json.dumps(calls)}) == \
        Text("A", json.dumps(calls))


def test_messages_as_json_in_a_prompt_are_messages(tmp_path):
    row = {"prompt": PLAIN[:1], "completion": PLAIN[1:]}
    as_text = {name: json.dumps(value) for name, value in row.items()}
    assert only(tmp_path, as_text) == only(tmp_path, row)
    assert only(tmp_path, row | {"prompt": as_text["prompt"]}) == only(tmp_path, row)
    assert only(tmp_path, {"prompt": "[1, 2]", "completion": "[]"}) == Text("[1, 2]", "[]")


def test_a_group_is_the_same_in_files_of_every_kind(tmp_path):
    rows = [{"text": "A", "doc": 7}, {"text": "B", "doc": 8}]
    (tmp_path / "a.csv").write_text("text,doc\nA,7\nB,8.0\nC,\n")
    *found, fault = documents(tmp_path / "a.csv", reading=Reading("doc"))
    assert fault == "'doc' is empty, wanted a value, since --group-by names it"
    for path in (write_lines(tmp_path / "a.jsonl", *rows), write_table(tmp_path / "a.parquet", rows)):
        assert documents(path, reading=Reading("doc")) == found
    assert found[0].group != found[1].group


@pytest.mark.parametrize("history", [[["A", "B"], ["C", "D"]], '[["A", "B"], ["C", "D"]]'])
def test_history_stands_before_an_instruction(tmp_path, history):
    row = {"instruction": "E", "input": "", "output": "F", "system": "S", "history": history}
    document = only(tmp_path, row)
    assert [message["content"] for message in document.as_conversation().messages] == list("SABCDEF")
    assert document.as_text() == Text(
        "S\n\n### Instruction:\nA\n\n### Response:\nB\n\n### Instruction:\nC\n\n### Response:\nD"
        "\n\n### Instruction:\nE\n\n### Response:\n", "F")


def test_history_may_be_of_turns(tmp_path):
    row = {"instruction": "E", "output": "F"}
    wanted = only(tmp_path, row | {"history": [["A", "B"]]})
    assert only(tmp_path, row | {"history": [{"question": "A", "answer": "B"}]}) == wanted
    turns = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    assert only(tmp_path, row | {"history": turns}) == wanted
    assert "not of the user and the assistant in turn" in only(tmp_path, row | {"history": turns[1:]})


@pytest.mark.parametrize("value", [0, False, 0.0])
@pytest.mark.parametrize("row, name", [
    ({"instruction": "A", "output": "B"}, "input"), ({"instruction": "A", "output": "B"}, "system"),
    ({"prompt": "A", "completion": "B"}, "system"), ({"prompt": "A", "chosen": "B", "rejected": "C"}, "system"),
    ({"instruction": "A", "chosen": "B", "rejected": "C"}, "input"),
    ({"prompt": "A", "completion": "B", "reward": 1.0}, "system")])
def test_zero_and_false_are_no_empty_text(tmp_path, row, name, value):
    assert f"'{name}' is {json.dumps(value)}, wanted a string" in only(tmp_path, {**row, name: value})
    assert not isinstance(only(tmp_path, {**row, name: None}), str)


def test_a_group_that_is_no_number_is_as_if_it_were_missing(tmp_path):
    path = write_table(tmp_path / "a.parquet", [{"text": "a", "doc": 1.0}, {"text": "b", "doc": float("nan")}])
    assert documents(path, reading=Reading(group_by="doc"))[1:] == [
        "'doc' is no number, wanted a value, since --group-by names it"]


@pytest.mark.parametrize("name", ["label", "kto_tag"])
@pytest.mark.parametrize("row", [{"prompt": "A", "completion": "B"}, {"messages": PLAIN},
                                 {"conversations": PLAIN}])
def test_a_label_means_a_judgement_where_it_is_true_or_false(tmp_path, name, row):
    [(role, _)] = only(tmp_path, row | {name: False}).members
    assert role == Role.UNDESIRABLE
    assert not isinstance(only(tmp_path, row | {name: "news"}), (str, Preference))
    assert f"holds a preference ('{name}' is true or false" in documents(
        write_lines(tmp_path / "b.jsonl", row, row | {name: True}))[1]


@pytest.mark.parametrize("history, fault", [
    (3, "'history' is 3, wanted a list of [asked, answered]"),
    ([["A"]], "entry 1 of 'history' is not [asked, answered]"),
    ([["A", "B"], ["C", 4]], "entry 2 of 'history' is not [asked, answered]")])
def test_a_history_that_is_none_is_refused(tmp_path, history, fault):
    assert fault in only(tmp_path, {"instruction": "E", "output": "F", "history": history})


@pytest.mark.parametrize("row", [
    {"text": "A"}, {"prompt": "A", "completion": "B"}, {"instruction": "A", "output": "B"},
    {"messages": PLAIN}, {"conversations": PLAIN}, {"prompt": PLAIN[:1], "completion": "B"}])
def test_every_format_has_weights_and_groups(tmp_path, row):
    row = {**row, "weight": 0.25, "doc": {"b": 1, "a": [None]}}
    document = only(tmp_path, row, reading=Reading("doc"))
    assert (document.weight, document.group) == (0.25, '{"a":[null],"b":1}')
    if isinstance(document, Instruction):
        for made in (document.as_text(), document.as_conversation()):
            assert (made.weight, made.group) == (0.25, '{"a":[null],"b":1}')
    plain = only(tmp_path, row | {"weight": None})
    assert (plain.weight, plain.group) == (1.0, "")
    assert "'weight' is 3, wanted a number from 0 to 1" in only(tmp_path, row | {"weight": 3})
    assert "'weight' is \"1\", wanted true" in only(tmp_path, row | {"weight": "1"})


def test_the_column_of_groups_is_not_called_ignored(tmp_path):
    assert format_of_columns(["text", "doc", "id"], None, [], Reading("doc")).ignored == ("id",)


def test_a_record_without_its_group_is_a_bad_line(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"text": "A", "doc": 1}, {"text": "B"},
                       {"text": "C", "doc": None})
    found = documents(path, reading=Reading("doc"))
    assert found[1:] == ["'doc' is missing, wanted a value, since --group-by names it",
                         "'doc' is null, wanted a value, since --group-by names it"]
    table = write_table(tmp_path / "a.parquet", [{"text": "A"}])
    with pytest.raises(ToolError, match="has the columns 'text'; wanted 'doc', which --group-by"):
        documents(table, reading=Reading("doc"))
    (tmp_path / "a.txt").write_text("A")
    with pytest.raises(ToolError, match="is plain text, which has no column 'doc'"):
        documents(tmp_path / "a.txt", reading=Reading("doc"))


def test_groups_are_the_same_in_lines_and_tables(tmp_path):
    rows = [{"text": "A", "doc": value} for value in (1, 2)]
    lines = documents(write_lines(tmp_path / "a.jsonl", *rows), reading=Reading("doc"))
    table = documents(write_table(tmp_path / "a.parquet", rows, doc=pa.float64()),
                      reading=Reading("doc"))
    assert lines == table


def test_a_command_reshapes_conversations_of_every_format(tmp_path):
    reading = Reading(reshaping=Reshaping("S", True))
    for row in ({"messages": PLAIN}, {"conversations": PLAIN}, {"prompt": PLAIN[:1],
                                                                 "completion": "Yes"}):
        assert only(tmp_path, row, reading=reading).messages[0]["content"] == "S\n\nHi"
    document = only(tmp_path, {"instruction": "Hi", "output": "Yes"}, reading=reading)
    assert document.as_conversation().messages[0]["content"] == "S\n\nHi"
    assert document.as_text().prompt.startswith("S\n\n### Instruction:\nHi")


def test_nulls_of_json_are_data_and_nulls_of_tables_are_not(tmp_path):
    call = {"role": "assistant", "tool_calls": [{"type": "function", "function": {
        "name": "f", "arguments": {"a": 1, "b": None}}}]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"default": None}}}]
    rows = [{"messages": [PLAIN[0], call], "tools": tools}]
    [lines] = documents(write_lines(tmp_path / "a.jsonl", *rows))
    [table] = documents(write_table(tmp_path / "a.parquet", rows))
    assert lines.messages[1] == call and lines.tools == tools
    assert table.messages[1]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert table.tools[0]["function"]["parameters"] == {}


def test_a_conversation_is_the_same_in_lines_and_tables(tmp_path):
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "x"}}, "id": "1"}
    rows = [{"messages": [PLAIN[0], {"role": "assistant", "content": None, "tool_calls": [call]},
                          {"role": "tool", "content": "3", "tool_call_id": "1"},
                          PLAIN[1] | {"train": True, "reasoning_content": "Hm."}], "weight": 0.5},
            {"messages": PLAIN, "weight": None}]
    lines = documents(write_lines(tmp_path / "a.jsonl", *rows))
    assert documents(write_table(tmp_path / "a.parquet", rows)) == lines
    assert isinstance(lines[0], Conversation)


@pytest.mark.parametrize("column, fault", [("text", "'text' is null, wanted a string"),
                                           ("messages", "'messages' is null, wanted a list")])
def test_a_null_is_called_a_null_in_lines_and_tables(tmp_path, column, fault):
    rows = [{column: "A" if column == "text" else PLAIN}, {column: None}]
    for path in (write_lines(tmp_path / "a.jsonl", *rows),
                 write_table(tmp_path / "a.parquet", rows)):
        assert fault in documents(path)[1]


@pytest.mark.parametrize("values, kind, fault", [
    ([b"A"], pa.binary(), "'text' is binary data (1 bytes), wanted a string"),
    ([datetime.date(2024, 1, 2)], None, "'text' is \"2024-01-02\", wanted a string"),
    ([decimal.Decimal("1.5")], None, "'text' is \"1.5\", wanted a string"),
    ([[("a", 1)]], pa.map_(pa.string(), pa.int64()), "'text' is an object, wanted a string"),
    ([1], pa.timestamp("ns"), "'text' is "),
    ([2**62], pa.timestamp("us"), "'text' is a value that cannot be read ("),
    ([float("nan")], None, "'text' is NaN")])
def test_what_is_no_text_in_a_table_is_named(tmp_path, values, kind, fault):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(values, kind)}), path)
    assert fault in documents(path)[0]


def test_a_string_in_a_table_that_is_not_utf_8_is_a_bad_row(tmp_path):
    raw = pa.array([b"good", b"\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({"text": text, "id": [1, 2]}), tmp_path / "a.parquet")
    good, fault = documents(tmp_path / "a.parquet")
    assert good == Text(None, "good")
    assert "'text' is a value that cannot be read (UnicodeDecodeError" in fault

