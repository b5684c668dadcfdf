"""Messages, their contents, weights, calls and tools, of the forms people have, read as one."""

import json

import pytest
from prepare_program import write_lines  # noqa: F401  (makes packtrain_tools importable)

from packtrain_tools.chat.conversations import read_conversation, read_messages

ASK = {"role": "user", "content": "How many?"}
ANSWER = {"role": "assistant", "content": "Three."}
PLAIN = [ASK, ANSWER]
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": {"default": None}}}]


def with_call(arguments, **more):
    return {"role": "assistant", "tool_calls": [
        {"type": "function", "function": {"name": "count", "arguments": arguments}}], **more}


def only_call(message):
    [call] = read_messages([ASK, message]).messages[1]["tool_calls"]
    return call


@pytest.mark.parametrize("keys, wanted", [
    ({}, None), ({"train": True}, 1.0), ({"train": False}, 0.0), ({"train": 0.25}, 0.25),
    ({"weight": 1}, 1.0), ({"weight": 0}, 0.0), ({"weight": 0.5, "train": None}, 0.5),
    ({"weight": 1, "train": True}, 1.0), ({"trainable": False}, 0.0), ({"masked": True}, 0.0), ({"masked": False}, 1.0),
    ({"masked": True, "train": False}, 0.0), ({"masked": None}, None)])
def test_a_message_asks_for_a_weight_by_train_or_weight(keys, wanted):
    chat = read_messages([ASK, ANSWER | keys])
    assert chat.asked == [None, wanted]
    assert chat.messages == PLAIN


@pytest.mark.parametrize("role", ["system", "developer", "user", "tool"])
def test_messages_of_every_role_may_be_learned(role):
    chat = read_messages([{"role": role, "content": "x", "train": 0.5}, ANSWER])
    assert chat.asked == [0.5, None]


@pytest.mark.parametrize("keys, fault", [
    ({"train": "yes"}, "'train' is \"yes\", wanted true, false or a number from 0 to 1"),
    ({"train": 1.5}, "'train' is 1.5, wanted a number from 0 to 1"),
    ({"weight": -1}, "'weight' is -1, wanted a number from 0 to 1"),
    ({"weight": float("nan")}, "'weight' is NaN, wanted a number from 0 to 1"),
    ({"weight": [1]}, "'weight' is a list, wanted true"), ({"masked": "no"}, "'masked' is \"no\", wanted true"),
    ({"masked": True, "train": True}, "its keys ask for different weights: 'train' for 1 and 'masked' for 0"),
    ({"weight": 0.5, "train": True}, "its keys ask for different weights: 'train' for 1 and 'weight' for 0.5")])
def test_weights_that_are_none_are_refused_by_name(keys, fault):
    with pytest.raises(ValueError, match=f"turn 2: {fault}"):
        read_messages([ASK, ANSWER | keys])


@pytest.mark.parametrize("parts", [
    [{"type": "text", "text": "Three."}], [{"type": "output_text", "text": "Three.", "more": 1}],
    [{"text": "Three."}], ["Three."], [{"type": "input_text", "text": "Three.", "image": None}]])
def test_text_parts_have_one_form(parts):
    [_, message] = read_messages([ASK, {"role": "assistant", "content": parts}]).messages
    assert message["content"] == [{"type": "text", "text": "Three."}]


@pytest.mark.parametrize("parts", [[{"type": "text", "text": "Three."}], [{"type": "output_text", "text": "Three."}]])
def test_parts_as_json_in_a_string_are_parts(parts):
    answer = {"role": "assistant", "content": json.dumps(parts)}
    assert read_messages([ASK, answer]).messages[1]["content"] == [{"type": "text", "text": "Three."}]
    picture = json.dumps([{"type": "image_url", "image_url": {"url": "x"}}, *parts])
    with pytest.raises(ValueError, match="turn 1: part 1 of the content is of the type 'image_url', wanted text"):
        read_messages([{"role": "user", "content": picture}, answer])


@pytest.mark.parametrize("text", ['[{"type": "text"}]', '[{"type": "owl", "text": "x"}]', '["text"]', "[1]", "[]", "[{", "[x] y",
                                  '[{"type": "text", "text": "x"}] is a list', '{"type": "text", "text": "x"}'])
def test_other_texts_in_brackets_stay_text(text):
    assert read_messages([ASK, {"role": "assistant", "content": text}]).messages[1]["content"] == text


@pytest.mark.parametrize("part, fault", [
    ({"type": "image_url", "image_url": {"url": "x"}}, "of the type 'image_url', wanted text"),
    ({"type": "image"}, "of the type 'image', wanted text"),
    ({"type": "tool_use", "text": "x"}, "of the type 'tool_use', wanted text"),
    ({"type": 7, "text": "x"}, "of the type 7, wanted text"),
    ({"image": "x"}, "an object with 'image', wanted text"),
    ({"type": "thinking", "thinking": "x"}, "of the type 'thinking', wanted text"),  # of a user
    ({"type": "text"}, "has null as 'text', wanted a string"),
    (3, "is 3, wanted text")])
def test_parts_that_are_no_text_are_refused_by_kind(part, fault):
    with pytest.raises(ValueError, match=f"turn 1: part 2 of the content .*{fault}"):
        read_messages([{"role": "user", "content": ["x", part]}, ANSWER])


@pytest.mark.parametrize("part", [{"type": "thinking", "thinking": "Hm."},
                                  {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                                  {"type": "reasoning", "text": "Hm."},
                                  {"type": "reasoning", "reasoning": "Hm."}])
def test_thoughts_among_the_parts_become_reasoning(part):
    [_, message] = read_messages([ASK, {"role": "assistant", "content": [part, "x"]}]).messages
    assert message == {"role": "assistant", "content": [{"type": "text", "text": "x"}],
                       "reasoning_content": "Hm."}


def test_two_different_thoughts_of_a_turn_are_refused():
    turn = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, "x"]}
    assert read_messages([ASK, turn | {"thinking": "Hm."}]).messages[1]["reasoning_content"] == "Hm."
    with pytest.raises(ValueError, match="turn 2: has its reasoning twice"):
        read_messages([ASK, turn | {"thinking": "Other."}])


def test_different_reasoning_in_two_keys_is_refused():
    turn = {"role": "assistant", "content": "x", "reasoning_content": "Hm.", "reasoning": "Hm."}
    assert read_messages([ASK, turn]).messages[1]["reasoning_content"] == "Hm."
    with pytest.raises(ValueError, match="turn 2: has different reasoning in 'reasoning_content' and 'reasoning'"):
        read_messages([ASK, turn | {"reasoning": "Other."}])


def test_null_keys_and_empty_calls_are_as_if_they_were_missing():
    message = {"role": "assistant", "content": "x", "name": None, "tool_calls": [],
               "reasoning": "", "function_call": None, "more": {"a": None}}
    assert read_messages([ASK, message]).messages[1] == {
        "role": "assistant", "content": "x", "more": {"a": None}}


def test_a_call_without_words_has_no_content():
    for message in (with_call({}), with_call({}, content=None)):
        assert "content" not in read_messages([ASK, message]).messages[1]
    assert read_messages([ASK, with_call({}, content="")]).messages[1]["content"] == ""


@pytest.mark.parametrize("messages, fault", [
    ([], "'messages' is an empty list"),
    (None, "'messages' is null, wanted a list of messages"),
    (3, "'messages' is 3, wanted"),
    ("[1", "'messages' is no valid JSON"),
    ("[" * 5000, "'messages' is nested too deeply"),
    ([7], "turn 1: is 7, wanted an object"),
    ([{"content": "x"}], "turn 1: is no object with a 'role'"),
    ([{"role": 3, "content": "x"}], "turn 1: has the role 3, wanted a string"),
    ([ASK, {"role": "boss", "content": "x"}], "turn 2: has the role 'boss', wanted one of system"),
    ([ASK, {"role": "assistant"}], "turn 2: has neither 'content' nor 'tool_calls'"),
    ([{"role": "user", "content": 3}], "'content' is neither text nor a list of parts, but 3"),
    ([{"role": "user", "content": []}], "turn 1: has neither 'content' nor 'tool_calls'"),
    ([{"role": "user", "content": "\ud800"}], "half of a surrogate pair"),
    ([ASK, ANSWER | {"reasoning": {"a": 1}}], "the reasoning is an object, wanted a string")])
def test_messages_that_are_none_are_refused(messages, fault):
    with pytest.raises(ValueError, match=fault):
        read_messages(messages)


@pytest.mark.parametrize("given, read", [
    ({"of": None, "n": [None]}, {"of": None, "n": [None]}),
    ('{"of": null}', '{"of": null}'), ("", {}), (None, {}), ("null", {}), ({}, {})])
def test_arguments_stay_what_the_data_has(given, read):
    assert only_call(with_call(given))["function"] == {"name": "count", "arguments": read}


@pytest.mark.parametrize("call", [
    {"name": "count", "arguments": {"of": 1}},
    {"name": "count", "parameters": {"of": 1}},
    {"function": "count", "arguments": {"of": 1}},
    {"type": "function", "function": {"name": "count", "arguments": {"of": 1}}},
    json.dumps({"type": "function", "function": {"name": "count", "arguments": {"of": 1}}})])
def test_calls_have_one_form(call):
    assert only_call({"role": "assistant", "tool_calls": [call]}) == {
        "type": "function", "function": {"name": "count", "arguments": {"of": 1}}}


def test_a_call_keeps_its_id_and_loses_its_nulls():
    call = {"id": "c1", "index": None, "type": "function",
            "function": {"name": "count", "arguments": "{}", "strict": None}}
    assert only_call({"role": "assistant", "tool_calls": json.dumps([call])}) == {
        "id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}}


def test_the_older_function_call_becomes_a_call():
    message = {"role": "assistant", "content": None,
               "function_call": {"name": "count", "arguments": "{}"}}
    assert only_call(message) == {"type": "function",
                                  "function": {"name": "count", "arguments": "{}"}}
    with pytest.raises(ValueError, match="turn 2: has both 'tool_calls' and 'function_call'"):
        only_call(message | with_call({}))


@pytest.mark.parametrize("calls, fault", [
    ([7], "'tool_calls' holds 7, wanted an object"),
    ({"name": "x"}, "'tool_calls' is no list"),
    ([{"function": {"arguments": {}}}], "call 1 has null as the 'name' of its function"),
    ([{"function": {"name": 3, "arguments": {}}}], "call 1 has 3 as the 'name'"),
    ([{"function": [1]}], "the function of call 1 is a list"),
    ([{"function": {"name": "f", "arguments": "{"}}],
     r"the arguments of a tool call \('f'\) is no valid JSON"),
    ([{"function": {"name": "f", "arguments": [1]}}], "are a list, wanted an object"),
    ([{"function": {"name": "f", "arguments": "[1]"}}], "are a list, wanted an object"),
    ([{"function": {"name": "f", "arguments": json.loads('{"a":' * 150 + "1" + "}" * 150)}}],
     "is nested more than 100 deep")])
def test_calls_that_are_none_are_refused(calls, fault):
    with pytest.raises(ValueError, match=f"turn 2: .*{fault}"):
        read_messages([ASK, {"role": "assistant", "tool_calls": calls}])


@pytest.mark.parametrize("tools", [TOOLS, json.dumps(TOOLS), [json.dumps(TOOLS[0])]])
def test_tools_are_objects_with_their_nulls(tools):
    assert read_messages(PLAIN, tools).tools == TOOLS


@pytest.mark.parametrize("tools", [None, "", "  ", [], "[]", "null"])
def test_no_tools_are_none(tools):
    assert read_messages(PLAIN, tools).tools is None


@pytest.mark.parametrize("tools, fault", [
    ({"name": "x"}, "'tools' is an object, wanted a list of objects"),
    ([3], "entry 1 of 'tools' is 3, wanted an object"), (["{"], "entry 1 of 'tools' is no valid"),
    ("[", "'tools' is no valid JSON")])
def test_tools_that_are_none_are_refused(tools, fault):
    with pytest.raises(ValueError, match=fault):
        read_messages(PLAIN, tools)


def test_older_functions_become_tools():
    record = {"messages": PLAIN, "functions": [{"name": "count"}]}
    assert read_conversation("messages", record).tools == [
        {"type": "function", "function": {"name": "count"}}]
    with pytest.raises(ValueError, match="has both 'tools' and 'functions'"):
        read_conversation("messages", record | {"tools": TOOLS})
