"""Thoughts that a message says twice, and answers that were cut off in their thought."""

import pytest
from encoded_rows import chunk_of, rows_of
from family_templates import FAMILIES, make_folder

from packtrain_tools.chat.mask import MaskOptions

ASK = {"role": "user", "content": "How many?"}
THOUGHT = "<think>\nI count.\n</think>\n\n"


def chat(content, **more):
    return {"messages": [ASK, {"role": "assistant", "content": content, **more}]}


@pytest.fixture
def folder(tmp_path):
    return make_folder(FAMILIES["qwen3_thinking"], "byte_level_nfc", tmp_path)


@pytest.mark.parametrize("content", [f"{THOUGHT}Three.", "<think>I count.</think>Three.", "<think>\n\n</think>\n\nThree.",
                                     [{"type": "text", "text": f"{THOUGHT}Three."}]])
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_a_thought_in_a_key_and_in_the_content_is_learned_once(folder, tmp_path, content, name):
    wanted = rows_of(chunk_of(folder, tmp_path, [chat("Three.", reasoning_content="I count.")]))
    assert rows_of(chunk_of(folder, tmp_path, [chat(content, **{name: "I count."})])) == wanted


def test_two_different_thoughts_are_refused(folder, tmp_path):
    chunk = chunk_of(folder, tmp_path, [chat(f"{THOUGHT}Three.", reasoning_content="I guess.")])
    assert "turn 2: has different reasoning in 'reasoning_content' and in the tags" in chunk.bad[0][1].fault


@pytest.mark.parametrize("content, more, name", [
    ("<think>\nI cou", {}, "open_thoughts"), ("\n<think>", {}, "open_thoughts"), (THOUGHT, {}, "thoughts_alone"),
    ("", {"reasoning_content": "I cou"}, "thoughts_alone")])
def test_answers_that_were_cut_off_are_counted(folder, tmp_path, content, more, name):
    assert chunk_of(folder, tmp_path, [chat(content, **more)]).counts[name] == 1
    unlearned = chunk_of(folder, tmp_path, [{"messages": [*chat(content, **more)["messages"], ASK, chat("x")["messages"][1]]}],
                         mask=MaskOptions("last"))
    assert name not in unlearned.counts
    for end in ("", "<|im_end|>") if not more else ():
        assert chunk_of(folder, tmp_path, [{"prompt": "How many?", "completion": content + end}]).counts[name] == 1


@pytest.mark.parametrize("content", ["Three.", f"{THOUGHT}Three.", "Write <think> first.", "I count.</think>Three."])
def test_whole_answers_are_not_counted(folder, tmp_path, content):
    for row in (chat(content), {"prompt": "How many?", "completion": content}):
        assert not {"open_thoughts", "thoughts_alone"} & set(chunk_of(folder, tmp_path, [row]).counts)


def test_a_call_after_a_thought_is_whole(folder, tmp_path):
    call = {"type": "function", "function": {"name": "count", "arguments": {}}}
    rows = [chat("", reasoning_content="I count.", tool_calls=[call]), chat(THOUGHT, tool_calls=[call])]
    assert not {"open_thoughts", "thoughts_alone"} & set(chunk_of(folder, tmp_path, rows).counts)


@pytest.mark.parametrize("key, value, number", [
    ("finish_reason", "length", 1), ("stop_reason", "max_tokens", 1), ("finish_reason", "stop", 0), ("stop_reason", "end_turn", 0)])
def test_answers_whose_record_says_that_they_were_cut_off_are_counted(folder, tmp_path, key, value, number):
    counts = chunk_of(folder, tmp_path, [chat("Three", **{key: value})]).counts
    assert counts.get("cut_answers", 0) == number and not any("unread" in name for name in counts)


def test_a_completion_of_only_its_end_is_empty(folder, tmp_path):
    chunk = chunk_of(folder, tmp_path, [{"prompt": "How many?", "completion": "<|im_end|>\n"}])
    assert chunk.counts["empty_answers"] == chunk.counts["ended_already"] == 1
