"""Stores of rollouts: as C++ reads them. The rollouts of a prompt are one group."""

import json

import numpy as np
import pytest
from prepare_program import changed_prepare, dump, files_of, run_tool, write_lines

SIZES = [1 + i * i % 4 for i in range(40)]  # rollouts of each prompt
ROWS = [{"prompt": f"The owl {i}", "completion": " saw" * (1 + j) + f" {i} birds", "reward": (i + j) % 3 / 2}
        for i, size in enumerate(SIZES) for j in range(size)]


def prepare(tokenizer, folder, source, *options, exit_code=0):
    return run_tool("prepare.py", source, "--tokenizer", tokenizer, "--out", folder / "store", "--format", "rollouts",
                    *options, exit_code=exit_code)


def store_of(tokenizer, folder, rows, *options):
    result = prepare(tokenizer, folder, write_lines(folder / "rows.jsonl", *rows), *options)
    return dump(folder / "store"), result


def groups_of(store):
    """The examples of each group, after a check of what C++ says of them."""
    groups, number = [], 0
    for group in store["groups"]:
        assert all(member["role"] == "rollout" for member in group["members"])
        assert [member["example"] for member in group["members"]] == \
            list(range(number, number + len(group["members"])))
        groups.append([store["examples"][member["example"]] for member in group["members"]])
        number += len(group["members"])
    assert number == len(store["examples"])
    return groups


def column(example, name):
    """The values of learned tokens, after a check that others have 0."""
    values, mask = np.array(example["token_columns"][name]), np.array(example["loss_mask"])
    assert not values[mask == 0].any()
    return values[mask != 0].tolist()


def test_consecutive_rollouts_of_one_prompt_are_a_group_with_the_advantages_of_its_rewards(
        tokenizer_folder, oracle, tmp_path):
    store, result = store_of(tokenizer_folder, tmp_path, ROWS)
    groups = groups_of(store)
    assert [len(group) for group in groups] == SIZES
    rows = iter(ROWS)
    encode = lambda text: oracle(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    for group in groups:
        records = [next(rows) for _ in group]
        rewards = np.array([row["reward"] for row in records])
        spread = rewards.std(ddof=1) + 1e-4 if len(rewards) > 1 else 1
        for example, row, wanted in zip(group, records, (rewards - rewards.mean()) / spread):
            prompt, answer = encode(row["prompt"]), encode(row["completion"]) + [oracle.eos_token_id]
            assert example["input_ids"] == prompt + answer
            assert example["loss_mask"] == [0] * len(prompt) + [1] * len(answer)
            assert column(example, "advantage") == pytest.approx([wanted] * len(answer), abs=1e-6)
    assert "an advantage is (reward - mean) / (standard deviation + 1e-4)" in result.stderr
    assert "40 prompts with their rollouts" in result.stdout
    assert f"Prompts with one rollout: {SIZES.count(1)}." in result.stdout


def test_the_mean_alone_is_subtracted_on_request(tokenizer_folder, tmp_path):
    store, result = store_of(tokenizer_folder, tmp_path, ROWS[:6], "--advantage-from", "centered")
    for group in groups_of(store):
        assert sum(column(example, "advantage")[0] for example in group) == pytest.approx(0, abs=1e-6)
    assert "an advantage is reward - mean" in result.stderr


def test_answers_in_one_record_and_in_several_make_the_same_store(tokenizer_folder, tmp_path):
    (tmp_path / "one").mkdir()
    several, _ = store_of(tokenizer_folder, tmp_path, ROWS)
    rows = []
    for i, size in enumerate(SIZES):
        own = [row for row in ROWS if row["prompt"] == f"The owl {i}"]
        assert len(own) == size
        rows.append({"prompt": own[0]["prompt"], "completions": [row["completion"] for row in own],
                     "rewards": [row["reward"] for row in own]})
    one, _ = store_of(tokenizer_folder, tmp_path / "one", rows)
    assert one["examples"] == several["examples"] and one["groups"] == several["groups"]
    assert one["fingerprint"] == several["fingerprint"]


def test_token_ids_are_taken_as_they_are(tokenizer_folder, tmp_path):
    rows = [{"prompt_ids": [5, 6, 7], "completion_ids": [[8, 9, 10], [11]], "completion_mask": [[1, 0, 1], [1]],
             "advantage": [[0.5, -1], 2], "old_log_probs": [[-1, -2], [-0.25]]}]
    store, _ = store_of(tokenizer_folder, tmp_path, rows)
    [[first, second]] = groups_of(store)
    assert first["input_ids"] == [5, 6, 7, 8, 9, 10] and first["loss_mask"] == [0, 0, 0, 1, 0, 1]
    assert first["token_columns"] == {"advantage": [0, 0, 0, 0.5, 0, -1], "old_log_prob": [0, 0, 0, -1, 0, -2]}
    assert second["token_columns"] == {"advantage": [0, 0, 0, 2], "old_log_prob": [0, 0, 0, -0.25]}
    info = json.loads((tmp_path / "store/store.json").read_text())
    assert info["token_columns"] == ["advantage", "old_log_prob"]
    assert info["requires"] == ["groups", "token_columns"]


def test_weights_of_tokens_are_the_column_weight_and_a_weight_of_the_record_is_in_the_mask(tokenizer_folder, tmp_path):
    rows = [{"prompt_ids": [5], "completion_ids": [[8, 9], [11]], "advantages": [1, -1], "weight": 0.5,
             "rollout_is_weights": [[0.25, 2], [1.5]]}]
    store, _ = store_of(tokenizer_folder, tmp_path, rows)
    [[first, second]] = groups_of(store)
    assert first["token_columns"] == {"advantage": [0, 1, 1], "weight": [0, 0.25, 2]}
    assert second["token_columns"] == {"advantage": [0, -1], "weight": [0, 1.5]}
    info = json.loads((tmp_path / "store/store.json").read_text())
    assert info["token_columns"] == ["advantage", "weight"] and 0.5 in info["loss_weights"]


@pytest.mark.parametrize("row, fault", [
    ({"prompt": "The owl", "completion": " saw", "advantage": 1, "old_log_prob": [-1.0] * 99},
     "'old_log_prob' has 99 entries, and the answer has"),
    ({"prompt_ids": [5], "completion_ids": [1 << 30], "advantage": 1}, "holds the token id 1073741824"),
    ({"prompt": "", "completion": " saw", "advantage": 1}, "has an empty prompt")])
def test_numbers_and_ids_that_do_not_fit_the_tokens_are_bad_lines(tokenizer_folder, tmp_path, row, fault):
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "a.jsonl", row), exit_code=65)
    assert "a.jsonl:1: " in result.stderr and fault in result.stderr


def test_rollouts_of_one_group_with_different_prompts_are_refused(tokenizer_folder, tmp_path):
    rows = [row | {"group": 1} for row in ROWS[SIZES[0]:SIZES[0] + SIZES[1] + 1]]
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "a.jsonl", *rows), exit_code=65)
    assert f"rollouts 0 and {SIZES[1]} (from 0) of those kept are of one group, and their prompts have different tokens" in \
        result.stderr
    assert not (tmp_path / "store/store.json").exists()


def test_a_prompt_that_comes_again_is_counted_and_is_another_group(tokenizer_folder, tmp_path):
    rows = [ROWS[SIZES[0]], ROWS[SIZES[0] + SIZES[1]], ROWS[SIZES[0] + 1]]
    store, result = store_of(tokenizer_folder, tmp_path, rows)
    assert [len(group) for group in groups_of(store)] == [1, 1, 1]
    assert "Prompts that occurred before, with others between them: 1." in result.stdout


def test_prompts_with_equal_rewards_are_counted(tokenizer_folder, tmp_path):
    rows = [{"prompt": "The owl", "completion": [" saw", " ran"], "reward": [1, 1]}]
    _, result = store_of(tokenizer_folder, tmp_path, rows)
    assert "Prompts whose rollouts all have the same reward: 1. Their advantages are 0." in result.stdout


@pytest.mark.parametrize("too_long, sizes", [("drop", [1]), ("truncate", [2])])
def test_a_long_rollout_is_left_out_or_cut_alone(tokenizer_folder, tmp_path, too_long, sizes):
    rows = [{"prompt": "The owl", "completion": [" saw", " ran" * 40], "advantage": [1, -1]}]
    store, _ = store_of(tokenizer_folder, tmp_path, rows, "--max-length", 20, "--too-long", too_long)
    groups = groups_of(store)
    assert [len(group) for group in groups] == sizes
    assert max(len(example["input_ids"]) for example in groups[0]) <= 20
    assert {value for example in groups[0] for value in column(example, "advantage")} <= {1, -1}


def prompts_of(store):
    return [tuple(group[0]["input_ids"][:group[0]["loss_mask"].index(1)]) for group in groups_of(store)]


def test_numbers_of_examples_count_prompts_and_no_prompt_is_divided(tokenizer_folder, tmp_path):
    training, _ = store_of(tokenizer_folder, tmp_path, ROWS, "--sample", 30, "--validation-examples", 9,
                           "--validation-out", tmp_path / "held")
    sides = [prompts_of(training), prompts_of(dump(tmp_path / "held"))]
    assert [len(side) for side in sides] == [21, 9]
    assert len({*sides[0], *sides[1]}) == 30
    first, _ = store_of(tokenizer_folder, tmp_path, ROWS, "--max-examples", 7, "--overwrite")
    assert [len(group) for group in groups_of(first)] == SIZES[:7]


def test_duplicates_are_counted_by_prompt_with_all_its_rollouts(tokenizer_folder, tmp_path):
    again = [{"prompt": "The owl 0", "completion": " flew", "reward": 0}, *ROWS, *ROWS[-SIZES[-1]:]]
    rows = [row | {"group": i} for i, size in enumerate([1, *SIZES, SIZES[-1]])
            for row in [again.pop(0) for _ in range(size)]]
    store, result = store_of(tokenizer_folder, tmp_path, rows, "--deduplicate")
    assert len(groups_of(store)) == 41
    assert "left out 1 duplicates" in result.stdout


def test_an_ended_preparation_continues_to_the_same_store_and_no_shard_divides_a_prompt(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS)
    options = ["--tokenizer", tokenizer_folder, "--format", "rollouts", "--deduplicate"]
    result = changed_prepare("never", source, *options, "--out", tmp_path / "whole", shard_tokens=200)
    assert result.returncode == 0, result.stderr
    for attempt in range(30):
        how = ("kill:1", "term:2", "died:2")[attempt % 3]
        result = changed_prepare(how, source, *options, "--out", tmp_path / "broken", shard_tokens=200)
        if result.returncode == 0:
            break
    assert result.returncode == 0 and attempt >= 2, result.stderr
    whole, broken = files_of(tmp_path / "whole", tmp_path / "broken")
    assert whole == broken
    assert len([name for name in whole if name.startswith("part-")]) > 2
    assert [len(group) for group in groups_of(dump(tmp_path / "whole"))] == SIZES


def test_the_store_does_not_depend_on_the_number_of_processes(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *ROWS)
    for number in (1, 3):
        run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / str(number), "--processes",
                 number, "--format", "rollouts")
    assert files_of(tmp_path / "1") == files_of(tmp_path / "3")


def test_inspect_shows_the_prompt_once_and_the_advantage_of_each_answer(tokenizer_folder, tmp_path):
    rows = [{"prompt": "The owl", "completion": [" saw", " ran", " flew"], "advantage": [1, -0.5, [0.25] * 99]}]
    rows[0]["advantage"][2] = -0.5
    store, _ = store_of(tokenizer_folder, tmp_path, rows)
    shown = run_tool("inspect_examples.py", tmp_path / "store").stdout
    lengths = [str(len(example["input_ids"])) for example in store["examples"]]
    shared = store["groups"][0]["num_shared"]
    assert shown.split("\n", 1)[1] == (
        f"--- examples 0 to 2 of {tmp_path / 'rows.jsonl'}, {lengths[0]}, {lengths[1]} and {lengths[2]} tokens, "
        f"{shared} shared\nprompt: The owl\nrollout (advantage 1): ⟦ saw<|endoftext|>⟧\n"
        "rollout (advantage -0.5): ⟦ ran<|endoftext|>⟧\nrollout (advantage -0.5): ⟦ flew<|endoftext|>⟧\n")


def test_options_that_do_not_fit_rollouts_are_refused(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", ROWS[0])
    other = write_lines(tmp_path / "b.jsonl", ROWS[0] | {"old_log_prob": [-1]})
    for options, said in [(["--only-chosen"], "--only-chosen does not fit rollouts"),
                          (["--train-on", "last"], "--train-on last does not fit"),
                          (["--too-long", "turns", "--max-length", 9], "--too-long turns does not fit")]:
        result = prepare(tokenizer_folder, tmp_path, source, *options, exit_code=64)
        assert said in result.stderr
    result = run_tool("prepare.py", source, other, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                      "--format", "rollouts", exit_code=64)
    assert "the sources have rollouts" in result.stderr
