"""Stores of conversations whose turns are examples, with --group-turns: as C++ reads them."""

import json

import chat_templates
import pytest
import tokenizers
from prepare_program import changed_prepare, dump, files_of, run_tool, write_lines

SIZES = [1 + i * i % 4 for i in range(40)]  # turns of the assistant in each conversation


def conversation(number, size):
    """A thought before each answer, which the template leaves out of earlier turns."""
    messages = []
    for turn in range(size):
        messages += [{"role": "user", "content": f"The owl {number}?"},
                     {"role": "assistant", "content": f"saw {turn} birds", "reasoning_content": f"count {number}"}]
    return {"messages": messages}


ROWS = [conversation(number, size) for number, size in enumerate(SIZES)]
EACH_TURN = ["--train-on", "each-turn", "--group-turns"]


@pytest.fixture(scope="module")
def chat_folder(tokenizer_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("thoughts")
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.add_special_tokens(chat_templates.SPECIAL_TOKENS)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    (folder / "chat_template.jinja").write_text(chat_templates.FORGETS_REASONING)
    return folder


def prepare(tokenizer, out, source, *options, exit_code=0):
    return run_tool("prepare.py", source, "--tokenizer", tokenizer, "--out", out, *options, exit_code=exit_code)


def sizes_of(store):
    """The number of turns of each conversation, after a check of what C++ says of them."""
    sizes, number = [], 0
    for group in store["groups"]:
        assert {member["role"] for member in group["members"]} == {"turn"}
        assert [member["example"] for member in group["members"]] == \
            list(range(number, number + len(group["members"])))
        sizes.append(len(group["members"]))
        number += sizes[-1]
    assert number == len(store["examples"])
    return sizes


def test_the_turns_of_a_conversation_are_a_group_of_the_same_examples(chat_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS)
    result = prepare(chat_folder, tmp_path / "turns", source, *EACH_TURN)
    prepare(chat_folder, tmp_path / "plain", source, *EACH_TURN[:2])
    turns, plain = dump(tmp_path / "turns"), dump(tmp_path / "plain")
    assert turns["examples"] == plain["examples"] and not plain["groups"]
    assert sizes_of(turns) == SIZES
    assert "40 conversations" in result.stdout
    info = json.loads((tmp_path / "turns" / "store.json").read_text())
    assert info["groups"] == {"kind": "turns", "has_margins": False, "num_groups": 40}
    assert info["requires"] == ["groups"]


def test_only_the_last_turn_of_an_example_is_learned(chat_folder, tmp_path):
    prepare(chat_folder, tmp_path / "store", write_lines(tmp_path / "a.jsonl", conversation(7, 3)), *EACH_TURN)
    for example in dump(tmp_path / "store")["examples"]:
        mask = example["loss_mask"]
        first = mask.index(1)
        assert mask[:first] == [0] * first
        assert mask[first:].count(1) == example["num_loss_tokens"]


def test_a_text_next_to_conversations_is_a_group_of_one(chat_folder, tmp_path):
    chats = write_lines(tmp_path / "a.jsonl", *ROWS[:3])
    texts = write_lines(tmp_path / "b.jsonl", {"text": "The old owl saw 3 birds."}, {"text": "The fox ran."})
    run_tool("prepare.py", chats, texts, "--tokenizer", chat_folder, "--out", tmp_path / "store", *EACH_TURN)
    assert sizes_of(dump(tmp_path / "store")) == [*SIZES[:3], 1, 1]


def test_numbers_of_examples_count_conversations_and_none_is_divided(chat_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS)
    prepare(chat_folder, tmp_path / "first", source, *EACH_TURN, "--max-examples", 7)
    assert sizes_of(dump(tmp_path / "first")) == SIZES[:7]
    prepare(chat_folder, tmp_path / "train", source, *EACH_TURN, "--validation-examples", 9, "--validation-out",
            tmp_path / "held")
    training, held = (sizes_of(dump(tmp_path / name)) for name in ("train", "held"))
    assert len(held) == 9 and len(training) == 31
    assert sorted(training + held) == sorted(SIZES)


def test_duplicates_are_conversations(chat_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS, ROWS[3], ROWS[5])
    result = prepare(chat_folder, tmp_path / "store", source, *EACH_TURN, "--deduplicate")
    assert sizes_of(dump(tmp_path / "store")) == SIZES
    assert "left out 2 duplicates" in result.stdout


def test_an_ended_preparation_continues_to_the_same_store_and_no_shard_divides_a_conversation(chat_folder, tmp_path):
    sizes = SIZES * 3
    source = write_lines(tmp_path / "a.jsonl", *[conversation(number, size) for number, size in enumerate(sizes)])
    options = ["--tokenizer", chat_folder, *EACH_TURN, "--deduplicate"]
    result = changed_prepare("never", source, *options, "--out", tmp_path / "whole", shard_tokens=900)
    assert result.returncode == 0, result.stderr
    for attempt in range(30):
        how = ("kill:1", "term:2", "died:2")[attempt % 3]
        result = changed_prepare(how, source, *options, "--out", tmp_path / "broken", shard_tokens=900)
        if result.returncode == 0:
            break
    assert result.returncode == 0 and attempt >= 2, result.stderr
    whole, broken = files_of(tmp_path / "whole", tmp_path / "broken")
    assert whole == broken
    assert len([name for name in whole if name.startswith("part-")]) > 2
    assert sizes_of(dump(tmp_path / "whole")) == sizes


def test_inspect_shows_a_conversation_with_what_all_turns_follow_once(chat_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", conversation(7, 2))
    prepare(chat_folder, tmp_path / "store", source, *EACH_TURN)
    shown = run_tool("inspect_examples.py", tmp_path / "store").stdout
    assert "examples 0 and 1 of" in shown and "1 conversations" in shown
    assert shown.count("turn: ") == 2 and shown.count("⟦") >= 2
    assert shown.index("prompt: ") < shown.index("turn: ")


def test_groups_of_turns_need_an_example_of_each_turn(chat_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS[:3])
    result = prepare(chat_folder, tmp_path / "store", source, "--group-turns", exit_code=64)
    assert "--group-turns needs --train-on each-turn" in result.stderr
