"""Weights, choices of messages and lengths do what their options say; every odd conversation is an example or
a named bad line."""

import itertools
import json
import random
import time

import pytest
from encoded_rows import chunk_of, rows_of
from family_templates import FAMILIES, make_folder
from prepare_program import dump, run_tool, write_lines

from packtrain_tools.chat.mask import MaskOptions
from packtrain_tools.prepare.counts import sentences
from packtrain_tools.prepare.encoding import EncodingOptions
from packtrain_tools.prepare.lengths import LengthLimits
from packtrain_tools.prepare.tokenizer import load_tokenizer


# ---- weights and choices

CHAT = [{"role": "system", "content": "Be"}, {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"role": "tool", "content": "three"}, {"role": "assistant", "content": "four"}]


def passages(folder, chunk) -> list[tuple[str, int]]:
    """Text and mask byte of each passage that is learned."""
    tokenizer = load_tokenizer(str(folder)).tokenizer
    [(ids, mask)] = rows_of(chunk)
    groups = itertools.groupby(zip(ids, mask), key=lambda pair: pair[1])
    return [(tokenizer.decode([token for token, _ in pairs], skip_special_tokens=False), byte)
            for byte, pairs in groups if byte]


@pytest.fixture
def folder(tmp_path):
    return make_folder(FAMILIES["chatml"], "byte_level", tmp_path)


def with_weight(turn: int, weight) -> list[dict]:
    return [message | {"weight": weight} if i == turn else message for i, message in enumerate(CHAT)]


@pytest.mark.parametrize("messages, options, wanted", [
    (CHAT, {}, [("two<|im_end|>", 1), ("four<|im_end|>", 1)]),
    (with_weight(2, 0.25), {}, [("two<|im_end|>", 26), ("four<|im_end|>", 1)]),
    (with_weight(2, 0), {}, [("four<|im_end|>", 1)]),
    (CHAT, {"also_train_on": ("tool",)}, [("two<|im_end|>", 1), ("three<|im_end|>", 1), ("four<|im_end|>", 1)]),
    (with_weight(3, 0.5), {}, [("two<|im_end|>", 1), ("three<|im_end|>", 51), ("four<|im_end|>", 1)]),
    (CHAT, {"train_on": "last"}, [("four<|im_end|>", 1)])])
def test_messages_are_learned_by_their_role_and_weight(folder, tmp_path, messages, options, wanted):
    chunk = chunk_of(folder, tmp_path, [{"messages": messages}], mask=MaskOptions(**options))
    assert passages(folder, chunk) == wanted


def test_all_is_learned_up_to_the_end_of_the_last_message(folder, tmp_path):
    chunk = chunk_of(folder, tmp_path, [{"messages": CHAT}], mask=MaskOptions("all"))
    [(text, byte)] = passages(folder, chunk)
    assert text.startswith("<|im_start|>system\nBe") and text.endswith("four<|im_end|>") and byte == 1
    chunk = chunk_of(folder, tmp_path, [{"messages": with_weight(1, 0)}], mask=MaskOptions("all"))
    told = passages(folder, chunk)
    assert [byte for _, byte in told] == [1, 1]
    assert told[0][0].endswith("<|im_start|>user\n") and told[1][0].startswith("\n<|im_start|>assistant")


def test_weights_of_examples_multiply_those_of_messages_and_are_rounded_to_hundredths(folder, tmp_path):
    rows = [{"messages": with_weight(2, 0.5), "weight": 0.5}]
    assert [byte for _, byte in passages(folder, chunk_of(folder, tmp_path, rows))] == [26, 51]
    rows = [{"messages": CHAT, "weight": 0.333}]
    chunk = chunk_of(folder, tmp_path, rows)
    assert {byte for _, byte in passages(folder, chunk)} == {34} and chunk.counts["rounded_weights"] == 1
    chunk = chunk_of(folder, tmp_path, [{"messages": CHAT, "weight": 0}])
    assert (len(rows_of(chunk)), chunk.num_skipped) == (0, 1)


def test_a_weighted_store_says_so_and_a_plain_one_does_not(folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", {"messages": with_weight(2, 0.25)}, {"messages": CHAT})
    run_tool("prepare.py", source, "--tokenizer", folder, "--out", tmp_path / "store")
    info = json.loads((tmp_path / "store" / "store.json").read_text())
    assert info["requires"] == ["loss_weights"] and info["loss_weights"][26] == 0.25
    assert 26 in dump(tmp_path / "store")["examples"][0]["loss_mask"]
    source = write_lines(tmp_path / "b.jsonl", {"messages": CHAT})
    run_tool("prepare.py", source, "--tokenizer", folder, "--out", tmp_path / "plain")
    assert not {"requires", "loss_weights"} & json.loads((tmp_path / "plain" / "store.json").read_text()).keys()


# ---- lengths

LONG = [{"role": "system", "content": "Be"}] + [
    {"role": role, "content": f"{role} {number}"} for number in range(8) for role in ("user", "assistant")]


def limited(folder, tmp_path, too_long: str, max_length: int, messages=LONG, train_on="assistant"):
    options = EncodingOptions(limits=LengthLimits(1, max_length, too_long))
    return chunk_of(folder, tmp_path, [{"messages": messages}], options, MaskOptions(train_on))


def text_of(folder, chunk) -> str:
    [(ids, _)] = rows_of(chunk)
    return load_tokenizer(str(folder)).tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("max_length", range(60, 420, 25))
def test_long_conversations_lose_whole_turns_and_keep_their_system_prompt(folder, tmp_path, max_length):
    oldest = limited(folder, tmp_path, "turns", max_length)
    last = limited(folder, tmp_path, "last-turns", max_length)
    if not rows_of(oldest):  # not even one exchange fits
        assert "no shorter conversation of whole turns" in oldest.bad[0][1].fault
        return
    for chunk, kept in ((oldest, range(7, -1, -1)), (last, range(8))):
        text = text_of(folder, chunk)
        assert len(rows_of(chunk)[0][0]) <= max_length and text.startswith("<|im_start|>system\nBe<|im_end|>")
        numbers = [number for number in range(8) if f"user {number}" in text]
        assert sorted(numbers) == sorted(list(kept)[:len(numbers)])
        assert all(f"assistant {number}<|im_end|>" in text for number in numbers)
        assert chunk.counts.get("cut_turns", 0) == 2 * (8 - len(numbers))
        whole = limited(folder, tmp_path, "refuse", 10**6, [LONG[0], *LONG[1:1 + 2 * (len(numbers) + 1)]])
        assert len(numbers) == 8 or len(rows_of(whole)[0][0]) > max_length  # one exchange more does not fit


@pytest.mark.parametrize("too_long, long, learned", [("turns", 0, {1}), ("last-turns", 3, {2, 3})])
def test_a_conversation_that_fits_around_its_learned_turn_is_kept(folder, tmp_path, too_long, long, learned):
    messages = [message for number in range(4) for message in (
        {"role": "user", "content": f"q{number}" + "x" * 200 * (number == long)},
        {"role": "assistant", "content": f"a{number}", "train": number in learned})]
    chunk = limited(folder, tmp_path, too_long, 190, messages)
    assert not chunk.bad and f"a{min(learned)}" in text_of(folder, chunk)


def test_each_turn_is_shortened_by_itself(folder, tmp_path):
    chunk = limited(folder, tmp_path, "turns", 120, train_on="each-turn")
    assert len(rows_of(chunk)) == 8
    assert all(len(ids) <= 120 for ids, _ in rows_of(chunk))


def test_what_is_too_long_is_refused_dropped_or_cut(folder, tmp_path):
    assert "wanted at most 100" in limited(folder, tmp_path, "refuse", 100).bad[0][1].fault
    assert limited(folder, tmp_path, "drop", 100).counts["dropped_too_long"] == 1
    chunk = limited(folder, tmp_path, "truncate", 100)
    assert (len(rows_of(chunk)[0][0]), chunk.counts["truncated"]) == (100, 1)
    assert limited(folder, tmp_path, "truncate", 20).counts["cut_to_nothing"] == 1
    options = EncodingOptions(limits=LengthLimits(min_length=10**5))
    assert chunk_of(folder, tmp_path, [{"messages": CHAT}], options).counts["too_short"] == 1


# ---- any input

def odd_text(generator: random.Random) -> str:
    pieces = ["\ud800", "\udfff", "\x00", "\x1b[31m", "<|im_end|>", "<think>", "</think>", "{{ 7 }}", "{% if", "\r\n", " ",
              "\u2028", "漢", "é", "a", "</s>", "\ufdd0", "🐦\u200d⬛", "\t", "[INST]", "'", '"', "\\u"]
    return "".join(generator.choices(pieces, k=generator.randrange(6)))


def odd_value(generator: random.Random, depth: int = 3):
    kind = generator.randrange(7 if depth else 5)
    if kind < 2:
        return odd_text(generator)
    if kind < 5:
        return generator.choice([None, True, 0, -1, 10**30, 1e400, float("nan"), 0.1])
    if kind == 5:
        return [odd_value(generator, depth - 1) for _ in range(generator.randrange(3))]
    return {odd_text(generator): odd_value(generator, depth - 1) for _ in range(generator.randrange(3))}


def odd_chat(generator: random.Random) -> dict:
    messages = []
    for _ in range(generator.randrange(1, 6)):
        message = {"role": generator.choice(["system", "user", "assistant", "assistant", "tool"]),
                   "content": generator.choice([odd_text(generator), None, [{"type": "text", "text": odd_text(generator)}]])}
        if generator.random() < 0.3:
            message["reasoning_content"] = odd_text(generator)
        if generator.random() < 0.3:
            message["tool_calls"] = [{"function": {"name": odd_text(generator), "arguments": odd_value(generator)}}]
        messages.append(message)
    tools = [{"type": "function", "function": {"name": odd_text(generator), "parameters": odd_value(generator)}}]
    return {"messages": messages} | ({"tools": tools} if generator.random() < 0.3 else {})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_odd_conversation_is_a_sound_example_or_a_named_bad_line(tmp_path, name):
    folder = make_folder(FAMILIES[name], FAMILIES[name].tokenizers[-1], tmp_path)
    generator = random.Random(name)
    rows = [odd_chat(generator) for _ in range(60)]
    for special, train_on in (("token", "assistant"), ("plain", "each-turn"), ("refuse", "all")):
        chunk = chunk_of(folder, tmp_path, rows, EncodingOptions(special_in_data=special), MaskOptions(train_on))
        assert all(bad.fault for _, bad in chunk.bad)
        for ids, mask in rows_of(chunk):
            assert len(ids) == len(mask) and any(mask[1:])


def test_the_time_of_a_conversation_grows_with_its_turns_and_not_with_their_square(tmp_path):
    folder = make_folder(FAMILIES["qwen2_5"], FAMILIES["qwen2_5"].tokenizers[0], tmp_path)

    def seconds(num_answers: int) -> float:
        messages = [{"role": role, "content": f"{role} says {number} and more"}
                    for number in range(num_answers) for role in ("user", "assistant")]
        chunk_of(folder, tmp_path, [{"messages": messages}])
        begin = time.process_time()
        for _ in range(3):
            [row] = rows_of(chunk_of(folder, tmp_path, [{"messages": messages}]))
        assert row[1].count(0) > num_answers
        return time.process_time() - begin

    few, many = seconds(50), seconds(800)
    assert many < 16 * 4 * max(few, 0.02)


# ---- keys of messages

@pytest.mark.parametrize("train_on", ["assistant", "each-turn"])
def test_keys_of_messages_that_are_not_read_are_counted(folder, tmp_path, train_on):
    asked = {"role": "user", "content": "one", "name": "Ann", "context": "red"}
    answered = {"role": "assistant", "content": "two", "mask": True, "context": None, "role_name": "x"}
    rows = [{"messages": [asked, answered] * 2}, {"conversations": [{"input": "one", "output": "two", "context": "b"}]}]
    counts = chunk_of(folder, tmp_path, rows[:1], mask=MaskOptions(train_on)).counts
    assert {name: number for name, number in counts.items() if "key" in name} == {
        "unread_key:context": 2, "unread_key:mask": 2, "unread_key:role_name": 2}
    assert chunk_of(folder, tmp_path, rows[1:]).counts["unread_key:context"] == 1
    assert "Messages with the key 'mask', which neither prepare nor the chat template reads: 2." in \
        " ".join(sentences(counts))


def test_a_key_that_the_template_names_is_read(tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.context or '' }}{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    row = {"messages": [{"role": "user", "content": "one", "context": "red"}, {"role": "assistant", "content": "two"}]}
    assert not any("key" in name for name in chunk_of(folder, tmp_path, [row]).counts)


@pytest.mark.parametrize("key", ["role_name", "tools_of", "said", "more"])
def test_a_word_of_the_template_that_is_no_member_does_not_read_a_key(tmp_path, key):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{# more: m.said #}{% set tools_of = 1 %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    row = {"messages": [{"role": "user", "content": "one", key: "red"}, {"role": "assistant", "content": "two"}]}
    assert chunk_of(folder, tmp_path, [row]).counts[f"unread_key:{key}"] == 1


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_keys_without_a_value_are_not_counted(folder, tmp_path, value):
    row = {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two", "annotations": value}]}
    assert not any("key" in name for name in chunk_of(folder, tmp_path, [row]).counts)


TOOLS = [{"type": "function", "function": {"name": "count", "parameters": {}}}]


@pytest.mark.parametrize("name", ["qwen2_5", "chatml"])
@pytest.mark.parametrize("key", ["tools", "functions"])
def test_tools_in_a_message_that_the_template_does_not_read_are_refused(tmp_path, name, key):
    folder = make_folder(FAMILIES[name], FAMILIES[name].tokenizers[0], tmp_path)
    told = [{"role": "system", "content": "Count.", key: json.dumps(TOOLS)}, *CHAT[1:3]]
    [(_, bad)] = chunk_of(folder, tmp_path, [{"messages": told}]).bad
    assert f"turn 1 (system): has '{key}', which the chat template does not read in a message" in bad.fault
    counted = chunk_of(folder, tmp_path, [{"messages": told}], mask=MaskOptions(count_left_out=True))
    assert not counted.bad and counted.counts[f"unread_key:{key}"] == 1
    if name == "qwen2_5":
        assert not chunk_of(folder, tmp_path, [{"messages": told, "tools": TOOLS}]).bad


def test_tools_in_a_message_that_the_template_reads_are_in_the_text(tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m['tools'] or '' }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    chunk = chunk_of(folder, tmp_path, [{"messages": [CHAT[0] | {"tools": "count"}, *CHAT[1:3]]}])
    assert not chunk.bad and not any("key" in name for name in chunk.counts)
