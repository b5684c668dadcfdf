"""Shapes in which data sets hold conversations, further columns, and what a command changes."""

import json

import pytest
from prepare_program import write_lines  # noqa: F401  (makes packtrain_tools importable)

from packtrain_tools.chat.content import text_of
from packtrain_tools.chat.conversations import (Conversation, read_conversation, read_messages,
                                                read_prompt_completion, read_sharegpt, with_messages)
from packtrain_tools.chat.names import make_names
from packtrain_tools.chat.reshape import with_default_system, with_system_merged

ASK = {"role": "user", "content": "How many?"}
ANSWER = {"role": "assistant", "content": "Three."}
PLAIN = [ASK, ANSWER]
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": {"default": None}}}]
CALL = {"role": "assistant", "tool_calls": [
    {"type": "function", "function": {"name": "count", "arguments": {}}}]}


@pytest.mark.parametrize("turns", [
    [{"from": "human", "value": "How many?"}, {"from": "gpt", "value": "Three."}],
    [{"role": "prompter", "text": "How many?"}, {"role": "bot", "text": "Three."}],
    [{"speaker": "Human", "text": "How many?"}, {"speaker": "AI", "text": "Three."}],
    [{"author": "user", "message": "How many?"}, {"author": "model", "message": "Three."}],
    [{"user": "human", "text": "How many?"}, {"user": "chatbot", "text": "Three."}],
    ["How many?", "Three."],
    [{"input": "How many?", "output": "Three."}],
    [{"user": "How many?", "assistant": "Three."}],
    [{"human": "How many?", "bot": "Three."}],
    [{"Human": "How many?", "Assistant": "Three."}], [{"query": "How many?", "response": "Three."}],
    [{"sender": "user", "text": "How many?"}, {"sender": "assistant", "text": "Three."}],
    [{"role": "user", "parts": [{"text": "How many?"}]}, {"role": "model", "parts": ["Three."]}],
    [["How many?", "Three."]], [json.dumps(message) for message in PLAIN], json.dumps(json.dumps(PLAIN)),
    {"role": ["user", "assistant"], "content": ["How many?", "Three."]},
    {"from": ["human", "gpt"], "value": ["How many?", "Three."]},
    {"input": ["How many?"], "output": ["Three."]},
    json.dumps(PLAIN), json.dumps(["How many?", "Three."])])
@pytest.mark.parametrize("column", ["messages", "conversations"])
def test_shapes_of_public_data_sets_are_the_same_conversation(turns, column):
    chat = read_conversation(column, {column: turns})
    said = [{**message, "content": text_of(message["content"])} for message in chat.messages]
    assert (said, chat.tools, chat.asked) == (PLAIN, None, [None, None])


DOUBLED = '{"role": "assistant", "content": "Three.", "content": "Many."}'


@pytest.mark.parametrize("read", [
    lambda: read_conversation("messages", {"messages": f"[{json.dumps(ASK)}, {DOUBLED}]"}),
    lambda: read_conversation("messages", {"messages": [json.dumps(ASK), DOUBLED]}),
    lambda: read_prompt_completion(with_messages({"prompt": "How many?", "completion": f"[{DOUBLED}]"})),
    lambda: with_messages({"prompt": "x", "tools": TOOLS, "completion": '[{"name": "f", "arguments": {"a": 1, "a": 2}}]'}),
    lambda: read_messages([ASK, {"role": "assistant", "tool_calls": [
        {"function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}}]}]),
    lambda: read_sharegpt([ASK, ANSWER], tools='[{"name": "f", "name": "g"}]')])
def test_a_doubled_key_of_json_in_a_string_is_refused(read):
    with pytest.raises(ValueError, match=r"is JSON in which the key '(content|a|name)' appears twice"):
        read()


def test_text_that_is_json_with_a_doubled_key_stays_text():
    row = {"prompt": '{"a": 1, "a": 2}', "completion": '[{"a": 1, "a": 2}]', "tools": TOOLS}
    assert with_messages(row) == row


@pytest.mark.parametrize("turns, fault", [
    (["x", 3], "turn 2: is 3, wanted text, as turn 1 is"),
    ([["x", "y"], ["z"]], "turn 2: is a list, wanted .asked, answered., or an object"),
    ([{"input": "x", "question": "z", "output": "y"}], "turn 1: has 'input', 'question', 'output', "
     "several of which may be"),
    ([{"role": "user", "body": "x"}], "neither 'content' .* .--message-key content=YOURS"),
    ([{"role": "user", "content": "x", "train_detail": [{}]}], "turn 1: has 'train_detail', which"),
    ([{"role": "user", "content": "x", "loss": True, "train": 0}], "turn 1: its keys ask for different "
     "weights: 'train' for 0 and 'loss' for 1"),
    ([{"input": "x", "output": "y"}, {"input": "x2"}, {"output": "z"}], "turn 3: lacks 'input'"),
    ({"role": ["user"], "content": ["a", "b"]}, "lists of different lengths: 'role' with 1, "),
    ({"role": "user", "content": "x"}, "'messages' is an object, wanted a list of messages"),
    ([{"from": "user", "speaker": "Bob", "text": "x"}], "has 'from' and 'speaker', each of which "
     "may be the role .--message-key role=YOURS"),
    ([{"role": "user", "text": "x", "value": "y"}], "has 'value' and 'text', each of which may be "
     "the content .--message-key content=YOURS")])
def test_shapes_that_say_nothing_or_too_much_are_refused(turns, fault):
    with pytest.raises(ValueError, match=fault):
        read_messages(turns)


def test_the_last_pair_may_lack_its_answer():
    chat = read_messages([{"input": "How many?", "output": "Three."},
                          {"input": "And now?", "output": None}])
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "user"]


def test_a_pair_keeps_what_else_it_says():
    turn = {"question": "How many?", "answer": "Three.", "reasoning": "Let me see.", "train": False}
    chat = read_messages([turn])
    assert chat.messages[1] == {**ANSWER, "reasoning_content": "Let me see."}
    assert chat.asked == [None, 0.0]


@pytest.mark.parametrize("key, weight", [("train", False), ("weight", 0), ("loss", False), ("loss", None)])
def test_all_names_of_a_message_s_weight_are_known(key, weight):
    assert read_messages([ASK, {**ANSWER, key: weight}]).asked == [None, weight if weight is None else 0.0]


@pytest.mark.parametrize("result", ["function-response", "tool response", "Tool_Response", "OBSERVATION"])
def test_roles_are_known_however_they_are_spelt(result):
    call = {"from": "function-call", "value": '{"name": "count", "arguments": {}}'}
    chat = read_sharegpt([{"from": "human", "value": "x"}, call, {"from": result, "value": "3"}])
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool"]


def test_roles_and_keys_have_the_names_that_the_command_says():
    names = make_names([("user", "kunde"), ("assistant", "user")], "who", "body")
    chat = read_messages([{"who": "kunde", "body": "How many?", "content": "template-7"},
                          {"who": "user", "body": "Three."}], None, names)
    assert chat.messages == PLAIN
    assert read_messages(PLAIN[:1], None, make_names([], None, "body")).messages == PLAIN[:1]


@pytest.mark.parametrize("role", ["function", "observation", "ipython", "tool"])
def test_results_of_tools_have_one_role_unless_the_command_says_otherwise(role):
    messages = [ASK, CALL, {"role": role, "name": "count", "content": "3"}]
    assert read_messages(messages).messages[2] == {"role": "tool", "name": "count", "content": "3"}
    kept = read_messages(messages, None, make_names([("function", role)])).messages[2]["role"]
    assert kept == "function"


def test_sharegpt_becomes_messages():
    chat = read_sharegpt([
        {"from": "human", "value": "How many?"},
        {"from": "function_call", "value": '{"name": "count", "arguments": "{\\"of\\": 1}"}'},
        {"from": "observation", "value": "3"}, {"from": "gpt", "value": "3", "weight": 0}],
        "Be brief.", json.dumps(TOOLS))
    assert chat.messages == [
        {"role": "system", "content": "Be brief."}, ASK,
        {"role": "assistant", "tool_calls": [
            {"type": "function", "function": {"name": "count", "arguments": '{"of": 1}'}}]},
        {"role": "tool", "content": "3"}, {"role": "assistant", "content": "3"}]
    assert chat.tools == TOOLS
    assert chat.asked == [None, None, None, None, 0.0]


@pytest.mark.parametrize("column", ["messages", "conversations"])
def test_a_system_column_stands_before_the_messages(column):
    chat = read_conversation(column, {column: PLAIN, "system": "Be brief."})
    assert chat.messages == [{"role": "system", "content": "Be brief."}, *PLAIN]
    assert chat.asked == [None, None, None]
    for nothing in ("", None):
        assert read_conversation(column, {column: PLAIN, "system": nothing}).messages == PLAIN


def test_a_system_column_that_differs_from_the_messages_is_refused():
    messages = [{"role": "system", "content": "Be brief."}, *PLAIN]
    assert read_conversation("messages", {"messages": messages, "system": "Be brief."}).messages \
        == messages
    with pytest.raises(ValueError, match="'system' is another system prompt than the messages"):
        read_conversation("messages", {"messages": messages, "system": "Be long."})
    with pytest.raises(ValueError, match="'system' is 3, wanted a string"):
        read_conversation("messages", {"messages": PLAIN, "system": 3})


@pytest.mark.parametrize("prompt, completion", [
    ([ASK], [ANSWER]), ([ASK], "Three."), ("How many?", [ANSWER]),
    ({"role": ["user"], "content": ["How many?"]}, "Three.")])
def test_prompt_or_completion_may_be_messages(prompt, completion):
    chat = read_prompt_completion({"prompt": prompt, "completion": completion})
    assert chat == Conversation(PLAIN, None, [0.0, 1.0])


def test_only_the_assistant_of_a_completion_is_learned_and_nothing_of_the_prompt():
    chat = read_prompt_completion({"prompt": [*PLAIN, ASK], "completion": [
        CALL, {"role": "tool", "content": "3"}, ANSWER | {"train": 0.5}], "system": "Be."})
    assert chat.asked == [0.0, 0.0, 0.0, 0.0, 1.0, None, 0.5]


def test_a_fault_names_the_column_where_turns_are_counted_apart():
    with pytest.raises(ValueError, match=r"turn 1: .*'boss'.* \(of 'completion'\)"):
        read_prompt_completion({"prompt": [ASK], "completion": [{"role": "boss", "content": "x"}]})
    with pytest.raises(ValueError, match="'prompt' is a list of strings"):
        read_prompt_completion({"prompt": ["a"], "completion": [ANSWER]})
    with pytest.raises(ValueError, match="'completion' is 3, wanted a list of messages"):
        read_prompt_completion({"prompt": [ASK], "completion": 3})


def test_a_default_system_prompt_stands_before_conversations_that_have_none():
    chat = with_default_system(read_messages(PLAIN), "Be brief.")
    assert chat.messages[0] == {"role": "system", "content": "Be brief."}
    assert chat.asked == [None, None, None]
    for role in ("system", "developer"):
        own = read_messages([{"role": role, "content": "Be long."}, *PLAIN])
        assert with_default_system(own, "Be brief.") == own


def test_system_prompts_are_merged_into_the_first_user_turn():
    system = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}]
    chat = with_system_merged(read_messages([*system, *PLAIN]))
    assert chat.messages == [{"role": "user", "content": "Be brief.\n\nBe kind.\n\nHow many?"}, ANSWER]
    assert chat.asked == [None, None]
    greeted = with_system_merged(read_messages([system[0], ANSWER, *PLAIN]))
    assert greeted.messages == [ANSWER, ASK | {"content": "Be brief.\n\nHow many?"}, ANSWER]
    parts = with_system_merged(read_messages([system[0], ASK | {"content": ["How", " many?"]}, ANSWER]))
    assert parts.messages[0]["content"] == [{"type": "text", "text": "Be brief.\n\nHow"},
                                            {"type": "text", "text": " many?"}]


def test_merging_leaves_conversations_without_a_system_prompt_alone():
    chat = read_messages(PLAIN)
    assert with_system_merged(chat) == chat
    middle = read_messages([ASK, {"role": "system", "content": "Be."}, ANSWER])
    assert with_system_merged(middle) == middle


@pytest.mark.parametrize("messages, fault", [
    ([{"role": "system", "content": "Be."}, ANSWER], "no turn of the user to merge it into"),
    ([{"role": "system", "content": "Be.", "train": True}, *PLAIN], "is to be learned cannot be")])
def test_system_prompts_that_cannot_be_merged_are_refused(messages, fault):
    with pytest.raises(ValueError, match=fault):
        with_system_merged(read_messages(messages))


@pytest.mark.parametrize("form", [lambda message: message, json.dumps, lambda message: f"\n {json.dumps(message)}"])
def test_one_message_is_a_list_of_it(form):
    found = with_messages({"prompt": form(ASK), "completion": form(ANSWER)})
    assert read_prompt_completion(found).messages == PLAIN
    said = {"from": "gpt", "value": "Three."}
    assert with_messages({"prompt": "How many?", "completion": form(said)})["completion"] == [said]


@pytest.mark.parametrize("text", ['{"role": "driver", "content": "x"}', '{"role": "user"}', '{"name": "user", "value": 3}',
                                  '{"role": 3, "content": "x"}', '{"role": "user", "content": "x"', "{}", "{role}"])
def test_an_object_that_is_no_message_stays_text(text):
    assert with_messages({"prompt": "Say", "completion": text})["completion"] == text
