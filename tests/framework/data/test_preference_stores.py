"""Stores of preferences: as C++ reads them. A pair is one unit of selection, of lengths and of shards."""

import json

import chat_templates
import numpy as np
import pytest
from preference_stores import PAIRS, chats, make_chat_folder, prepare, store_of
from prepare_program import changed_prepare, dump, files_of, run_tool, write_lines
from safetensors.numpy import load_file

from packtrain_tools.showing_groups import num_shared_tokens
from packtrain_tools.store_reader import StoreReader

def pairs_of(store):
    """Ids of chosen and rejected of each group, after a check of what C++ says of them."""
    pairs = []
    for number, group in enumerate(store["groups"]):
        assert [member["role"] for member in group["members"]] == ["chosen", "rejected"]
        assert [member["group"] for member in group["members"]] == [number] * 2
        assert [member["example"] for member in group["members"]] == [2 * number, 2 * number + 1]
        pairs.append(tuple(tuple(store["examples"][member["example"]]["input_ids"]) for member in group["members"]))
    assert len(store["examples"]) == 2 * len(pairs)
    return pairs


@pytest.fixture(scope="module")
def chat_folder(tokenizer_folder, tmp_path_factory):
    return make_chat_folder(tokenizer_folder, tmp_path_factory.mktemp("chat"))


@pytest.mark.parametrize("template, stop", [("CHATML", "<|im_end|>"), ("HEADERS", "<|eot|>")])
def test_pairs_have_the_ids_of_apply_chat_template_and_learn_only_the_answers(chat_folder, tmp_path, template, stop):
    from transformers import AutoTokenizer
    (chat_folder / "chat_template.jinja").write_text(getattr(chat_templates, template))
    oracle = AutoTokenizer.from_pretrained(chat_folder)
    wanted = [(chats("saw none"), chats(f"ran {i} miles")) for i in range(5)]
    rows = [{"chosen": chosen, "rejected": rejected} if i % 2 else
            {"prompt": chosen[:-1], "chosen": chosen[-1:], "rejected": rejected[-1:]}
            for i, (chosen, rejected) in enumerate(wanted)]
    for number, row in enumerate(rows):  # one file a form
        write_lines(tmp_path / f"{number}.jsonl", row)
    run_tool("prepare.py", *[tmp_path / f"{number}.jsonl" for number in range(5)], "--tokenizer", chat_folder,
             "--out", tmp_path / "store")
    store = dump(tmp_path / "store")
    assert len(store["groups"]) == 5
    for number, messages in enumerate(each for pair in wanted for each in pair):
        example = store["examples"][number]
        whole = oracle.apply_chat_template(messages, return_dict=False)
        prompt = oracle.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False)
        ids = example["input_ids"]
        assert ids == whole[:len(ids)]
        assert oracle.decode(whole[len(ids):]).strip() == ""  # what follows the turn's end
        assert ids[:len(prompt)] == prompt
        end = len(prompt) + sum(example["loss_mask"])
        assert example["loss_mask"] == [0] * len(prompt) + [1] * (end - len(prompt)) + [0] * (len(ids) - end)
        assert oracle.decode(ids[len(prompt):end]) == messages[-1]["content"] + stop
        assert store["groups"][number // 2]["num_shared"] == len(prompt)


def test_pairs_of_texts_are_encoded_as_their_prompt_and_each_answer(tokenizer_folder, oracle, tmp_path):
    store, _ = store_of(tokenizer_folder, tmp_path, PAIRS)
    encode = lambda text: oracle(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    end = [oracle.eos_token_id]
    assert pairs_of(store) == [tuple(tuple(encode(row["prompt"]) + encode(row[name]) + end)
                                     for name in ("chosen", "rejected")) for row in PAIRS]
    for row, group in zip(PAIRS, store["groups"]):
        assert group["num_shared"] == len(encode(row["prompt"]))
        assert group["margin"] is None


def test_margins_are_those_of_the_records(tokenizer_folder, tmp_path):
    rows = [row | {"score_chosen": 2 + i / 4, "score_rejected": 1} for i, row in enumerate(PAIRS)]
    store, result = store_of(tokenizer_folder, tmp_path, rows)
    assert [group["margin"] for group in store["groups"]] == [1 + i / 4 for i in range(len(PAIRS))]
    assert "the margin of a pair is score_chosen - score_rejected" in result.stderr
    assert "120 pairs, with margins" in result.stdout


def test_judged_answers_are_groups_of_one(tokenizer_folder, tmp_path):
    rows = [{"prompt": row["prompt"], "completion": row["chosen"], "label": i % 3 > 0} for i, row in enumerate(PAIRS)]
    store, _ = store_of(tokenizer_folder, tmp_path, rows)
    roles = [[member["role"] for member in group["members"]] for group in store["groups"]]
    assert roles == [["desirable" if row["label"] else "undesirable"] for row in rows]


def test_only_the_chosen_answers_make_the_plain_store_of_the_same_completions(tokenizer_folder, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    completions = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in PAIRS]
    wanted, _ = store_of(tokenizer_folder, plain, completions)
    store, _ = store_of(tokenizer_folder, tmp_path, PAIRS, "--only-chosen")
    assert store["groups"] == []
    assert "requires" not in json.loads((tmp_path / "store/store.json").read_text())
    assert store["examples"] == wanted["examples"]
    assert store["fingerprint"] == wanted["fingerprint"]


def test_only_desirable_answers_are_taken_where_answers_are_judged(tokenizer_folder, tmp_path):
    rows = [{"prompt": row["prompt"], "completion": row["chosen"], "label": i < 7} for i, row in enumerate(PAIRS)]
    store, result = store_of(tokenizer_folder, tmp_path, rows, "--only-chosen")
    assert len(store["examples"]) == 7
    assert "Undesirable answers that --only-chosen left out: 113" in result.stdout


def test_equal_answers_are_left_out_and_counted(tokenizer_folder, tmp_path):
    rows = [*PAIRS[:5], PAIRS[5] | {"rejected": PAIRS[5]["chosen"]}]
    store, result = store_of(tokenizer_folder, tmp_path, rows)
    assert len(pairs_of(store)) == 5
    assert "Pairs of equal answers that were left out: 1" in result.stdout


LONG = {"prompt": "The owl", "chosen": " saw", "rejected": " ran" * 40}


@pytest.mark.parametrize("too_long, said", [("drop", "longer than --max-length that were left out: 1"),
                                            ("truncate", "cut at --max-length: 1")])
def test_a_pair_with_one_long_answer_is_one_unit(tokenizer_folder, tmp_path, too_long, said):
    store, result = store_of(tokenizer_folder, tmp_path, [PAIRS[0], LONG, PAIRS[1]], "--max-length", 20,
                             "--too-long", too_long)
    pairs = pairs_of(store)
    assert len(pairs) == (2 if too_long == "drop" else 3)
    assert max(len(ids) for pair in pairs for ids in pair) <= 20
    assert said in result.stdout


def test_a_pair_with_one_long_answer_is_a_bad_line_by_default(tokenizer_folder, tmp_path):
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "a.jsonl", PAIRS[0], LONG),
                     "--max-length", 20, exit_code=65)
    assert "a.jsonl:2: has " in result.stderr and "tokens, wanted at most 20" in result.stderr


def test_a_pair_whose_prompt_fills_the_length_is_left_out_whole(tokenizer_folder, tmp_path):
    store, result = store_of(tokenizer_folder, tmp_path, [PAIRS[0], LONG | {"prompt": "owl " * 40}],
                             "--max-length", 20, "--too-long", "truncate")
    assert len(pairs_of(store)) == 1
    assert "Examples with nothing to learn once they were cut to --max-length: 1" in result.stdout


def test_duplicates_are_counted_by_pair(tokenizer_folder, tmp_path):
    rows = [*PAIRS[:10], *PAIRS[:4], PAIRS[5] | {"rejected": " flew"}]  # the last one is another pair
    store, result = store_of(tokenizer_folder, tmp_path, rows, "--deduplicate")
    pairs = pairs_of(store)
    assert len(pairs) == len(set(pairs)) == 11
    assert "left out 4 duplicates" in result.stdout


@pytest.mark.parametrize("options, num_pairs", [(["--sample", 30], 30), (["--max-examples", 17], 17),
                                                (["--sample", 50, "--max-examples", 20], 20)])
def test_numbers_of_examples_count_pairs(tokenizer_folder, tmp_path, options, num_pairs):
    store, _ = store_of(tokenizer_folder, tmp_path, PAIRS, *options)
    pairs = pairs_of(store)
    whole, _ = store_of(tokenizer_folder, tmp_path, PAIRS, "--overwrite")
    assert len(pairs) == num_pairs
    assert set(pairs) <= set(pairs_of(whole))


@pytest.mark.parametrize("held", [["--validation-fraction", 0.3], ["--validation-examples", 25]])
def test_no_pair_is_divided_by_a_validation_store_nor_are_pairs_of_one_prompt(tokenizer_folder, tmp_path, held):
    rows = [row | {"prompt": f"The owl {i // 2}"} for i, row in enumerate(PAIRS)]
    training, _ = store_of(tokenizer_folder, tmp_path, rows, *held, "--validation-out", tmp_path / "held")
    sides = [pairs_of(training), pairs_of(dump(tmp_path / "held"))]
    assert sum(map(len, sides)) == len(rows)
    if held[0] == "--validation-examples":
        assert len(sides[1]) in (25, 26)
    prompts = [{pair[0][:training["groups"][0]["num_shared"]] for pair in side} for side in sides]
    assert all(prompts)
    texts = [StoreReader(tmp_path / name) for name in ("store", "held")]
    said = [{tuple(reader.example(2 * i)[0][:num_shared_tokens([reader.example(2 * i + j)[:2] for j in (0, 1)])])
             for i in range(len(side))} for reader, side in zip(texts, sides)]
    assert not said[0] & said[1]


def test_no_shard_divides_a_pair_and_an_ended_preparation_continues_to_the_same_store(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[row | {"margin": i} for i, row in enumerate(PAIRS)])
    options = ["--tokenizer", tokenizer_folder, "--validation-examples", 20, "--deduplicate", "--sample", 90]

    def folders(name):
        return ["--out", tmp_path / name / "train", "--validation-out", tmp_path / name / "held"]

    result = changed_prepare("never", source, *options, *folders("whole"), shard_tokens=60)
    assert result.returncode == 0, result.stderr
    for attempt in range(30):
        how = ("kill:1", "term:2", "died:2")[attempt % 3]
        result = changed_prepare(how, source, *options, *folders("broken"), shard_tokens=60)
        if result.returncode == 0:
            break
    assert result.returncode == 0 and attempt >= 2, result.stderr
    for name in ("train", "held"):
        whole, broken = files_of(tmp_path / "whole" / name, tmp_path / "broken" / name)
        assert whole == broken
        shards = sorted((tmp_path / "whole" / name).glob("part-*"))
        assert len(shards) > 2
        for shard in shards:
            columns = load_file(shard)
            assert columns["group_role"].tolist() == [0, 1] * (len(columns["margin"]))
            assert columns["group_offsets"].tolist() == list(range(0, len(columns["group_role"]) + 1, 2))
        pairs_of(dump(tmp_path / "whole" / name))


def test_the_store_does_not_depend_on_the_number_of_processes(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *PAIRS)
    for number in (1, 3):
        run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / str(number), "--processes",
                 number)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "3")


@pytest.mark.parametrize("options, said", [
    (["--train-on", "last"], "--train-on last does not fit preferences"),
    (["--also-train-on", "user"], "--also-train-on does not fit preferences"),
    (["--max-length", 9, "--too-long", "turns"], "--too-long turns does not fit preferences")])
def test_options_that_would_change_one_side_of_a_pair_are_refused(tokenizer_folder, tmp_path, options, said):
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "a.jsonl", *PAIRS[:3]), *options, exit_code=64)
    assert said in result.stderr


def test_sources_of_different_kinds_are_refused(tokenizer_folder, tmp_path):
    pairs = write_lines(tmp_path / "a.jsonl", *PAIRS[:3])
    for other, said in [({"text": "A"}, "kinds 'pairs' and 'plain'"), (PAIRS[3] | {"margin": 1}, "some sources have margins"),
                        ({"prompt": "A", "completion": "B", "label": True}, "kinds 'judged' and 'pairs'")]:
        other = write_lines(tmp_path / "b.jsonl", other)
        result = run_tool("prepare.py", pairs, other, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                          exit_code=64)
        assert said in result.stderr
        assert not (tmp_path / "store").exists()


def test_inspect_shows_a_pair_with_its_prompt_once(tokenizer_folder, tmp_path):
    store, _ = store_of(tokenizer_folder, tmp_path, [row | {"margin": 2.5} for row in PAIRS[:4]])
    shown = run_tool("inspect_examples.py", tmp_path / "store", 3, 2).stdout
    first, group = shown.split("\n", 1)
    lengths = " and ".join(str(len(example["input_ids"])) for example in store["examples"][2:4])
    assert "8 examples" in first and "4 pairs, with margins" in first
    assert group == (f"--- examples 2 and 3 of {tmp_path / 'rows.jsonl'}, {lengths} tokens, "
                     f"{store['groups'][1]['num_shared']} shared, margin 2.5\n"
                     "prompt: The owl 1\nchosen: ⟦ saw 1 birds<|endoftext|>⟧\nrejected: ⟦ ran ran<|endoftext|>⟧\n")


def test_shared_tokens_end_before_the_first_learned_one_and_leave_each_example_a_token():
    def shared(*examples):
        return num_shared_tokens([(np.array(ids), np.array(mask, np.uint8)) for ids, mask in examples])

    assert shared(([1, 2, 3, 4], [0, 0, 0, 1]), ([1, 2, 3, 5, 6], [0, 0, 0, 1, 1])) == 3
    assert shared(([1, 2, 3, 4], [0, 0, 1, 1]), ([1, 2, 3, 5, 6], [0, 0, 0, 1, 1])) == 2
    assert shared(([1, 2], [1, 1]), ([1, 3], [1, 1])) == 1  # the first token is never learned
    assert shared(([1, 2], [0, 0]), ([1, 2, 3], [0, 0, 0])) == 1
    assert shared(([1, 2], [0, 1]), ([3, 2], [0, 1])) == 0
    assert shared(([1, 2], [0, 1])) == 0
