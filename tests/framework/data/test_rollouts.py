"""Records of rollouts: which columns are read, which answers they hold, and what is refused."""

import numpy as np
import pytest
from read_documents import documents, only, write_table
from prepare_program import write_lines

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.rollout_groups import CENTERED, STANDARDIZED, advantages_of
from packtrain_tools.sources.columns import format_of_columns
from packtrain_tools.sources.documents import Text, Tokens
from packtrain_tools.sources.formats import Reading

ASK = {"role": "user", "content": "How many?"}
THREE = {"role": "assistant", "content": "Three."}
TOOL = {"role": "tool", "content": "3"}
TEXTS = {"prompt": "How many?", "completion": " Three."}
IDS = {"prompt_ids": [1, 2], "completion_ids": [3, 4, 5]}


def answers(document):
    return [rollout.member for rollout in document.members]


@pytest.mark.parametrize("row, theirs", [
    (TEXTS | {"advantage": 0.5}, "prompt, completion, advantage"),
    ({"prompt": ["A"], "completions": ["B"], "advantages": [1.0]}, "prompt, completion=completions, advantage=advantages"),
    (TEXTS | {"old_log_probs": [-1.0], "reward": 1}, "prompt, completion, reward, old_log_prob=old_log_probs"),
    (TEXTS | {"advantage": 1.0, "reward": 2.0, "step": 7, "prompt_id": 3},
     "prompt, completion, advantage, group=prompt_id; ignored: reward, step"),
    (IDS | TEXTS | {"advantage": 1.0, "completion_mask": [1, 0, 1]},
     "prompt_ids, completion_ids, completion_mask, advantage; ignored: prompt, completion")])
def test_rollouts_are_recognised_by_their_advantages_or_log_probabilities(row, theirs):
    assert str(format_of_columns(list(row), None, [])) == f"rollouts ({theirs})"


def test_files_of_verl_and_of_trl_have_names_that_are_known():
    verl = format_of_columns(["input", "output", "gts", "score", "step"], "rollouts", [])
    assert str(verl) == "rollouts (prompt=input, completion=output, reward=score; ignored: gts, step)"
    trl = format_of_columns(["step", "prompt", "completion", "accuracy_reward", "advantage"], None, [])
    assert str(trl) == "rollouts (prompt, completion, advantage; ignored: step, accuracy_reward)"


def test_rewards_alone_are_of_supervised_data_unless_the_format_says_rollouts():
    names = ["prompt", "completion", "reward"]
    assert format_of_columns(names, None, []).name == "prompt-completion"
    assert format_of_columns(names, "rollouts", []).columns == ("prompt", "completion", "reward")
    assert format_of_columns(["chosen", "rejected", "prompt", "advantage"], None, []).name == "pairs"


def test_texts_are_read_where_only_one_side_has_token_ids():
    names = ["prompt", "completion", "completion_ids", "advantage"]
    assert format_of_columns(names, None, []).columns == ("prompt", "completion", "advantage")


def test_rewards_take_the_place_of_advantages_on_request():
    names = ["prompt", "completion", "reward", "advantage"]
    assert "reward" not in format_of_columns(names, None, []).columns
    asked = format_of_columns(names, None, [], Reading(advantage_from=CENTERED))
    assert "advantage" not in asked.columns and "reward" in asked.columns


@pytest.mark.parametrize("names, fault", [
    (["prompt", "completion"], "has no 'advantage' or 'reward', which rollouts need"),
    (["completion", "reward"], "has no 'prompt', which rollouts need"),
    (["prompt", "reward"], "has no 'completion', which rollouts need"),
    (["prompt", "completion_ids", "reward"], "has 'completion_ids' without 'prompt_ids'")])
def test_missing_columns_are_named(names, fault):
    with pytest.raises(ValueError, match=fault):
        format_of_columns(names, "rollouts", [])


def test_a_text_has_one_answer_or_a_list_of_them(tmp_path):
    one = only(tmp_path, TEXTS | {"advantage": 0.5})
    assert answers(one) == [Text("How many?", " Three.")]
    assert one.members[0].values == {"advantage": 0.5} and one.members[0].reward is None
    two = only(tmp_path, {"prompt": "How many?", "completion": [" Three.", " Many."], "advantage": [1, [0, 2]]})
    assert answers(two) == [Text("How many?", " Three."), Text("How many?", " Many.")]
    assert [rollout.values["advantage"] for rollout in two.members] == [1.0, [0.0, 2.0]]
    assert one.prompt == two.prompt


@pytest.mark.parametrize("row", [
    {"prompt": [ASK], "completion": [THREE]}, {"prompt": [ASK], "completion": THREE},
    {"prompt": [ASK], "completion": "Three."}, {"prompt": '[{"role": "user", "content": "How many?"}]', "completion": [THREE]}])
def test_every_form_of_messages_is_a_conversation_of_which_the_answer_is_learned(tmp_path, row):
    document = only(tmp_path, row | {"advantage": 1})
    assert answers(document) == [Conversation([ASK, THREE], None, [0.0, 1.0])]
    several = only(tmp_path, {"prompt": [ASK], "completion": [[THREE], [THREE, TOOL, THREE]], "advantage": [1, 2]})
    assert answers(several)[1] == Conversation([ASK, THREE, TOOL, THREE], None, [0.0, 1.0, None, 1.0])
    assert several.prompt == document.prompt


def test_token_ids_are_read_with_the_mask_of_what_the_policy_wrote(tmp_path):
    row = IDS | {"advantage": [1, 2], "completion_mask": [1, 0, 1], "old_log_prob": [-1, 0]}
    document = only(tmp_path, row)
    assert answers(document) == [Tokens([1, 2], [3, 4, 5], [True, False, True])]
    assert document.members[0].values == {"advantage": [1, 2], "old_log_prob": [-1, 0]}
    several = only(tmp_path, {"prompt_ids": [1, 2], "completion_ids": [[3], [4, 5]], "advantage": [1, 2]})
    assert answers(several) == [Tokens([1, 2], [3]), Tokens([1, 2], [4, 5])]
    assert several.prompt == document.prompt


def test_a_table_of_rollouts_is_read_as_json_is(tmp_path):
    rows = [IDS | {"advantage": 0.5, "old_log_prob": [-1.0, -2.0, -3.0]}] * 2
    table = documents(write_table(tmp_path / "a.parquet", rows))
    assert table == documents(write_lines(tmp_path / "a.jsonl", *rows))


def test_nulls_in_other_columns_of_a_table_are_no_fault(tmp_path):
    rows = [TEXTS | {"advantage": 0.5, "tools": None, "step": None}, TEXTS | {"advantage": 1.0, "tools": "[]", "step": 3}]
    found = documents(write_table(tmp_path / "a.parquet", rows))
    assert [answers(document) for document in found] == [[Text("How many?", " Three.")]] * 2


def test_a_reward_is_one_number_or_the_sum_of_those_of_tokens(tmp_path):
    document = only(tmp_path, {"prompt": "A", "completion": ["B", "C"], "reward": [1.5, [0.25, 0, 1]]},
                    wanted="rollouts")
    assert [rollout.reward for rollout in document.members] == [1.5, 1.25]


def test_a_group_is_its_column_else_the_prompt(tmp_path):
    assert only(tmp_path, TEXTS | {"advantage": 1, "group": 7}).group == "7"
    by_option = only(tmp_path, TEXTS | {"advantage": 1, "group": 7, "task": "x"}, reading=Reading(group_by="task"))
    assert by_option.group == '"x"'
    assert only(tmp_path, TEXTS | {"advantage": 1}).group == ""


@pytest.mark.parametrize("row, fault", [
    ({"advantage": "many"}, "'advantage' is \"many\", wanted a finite number"),
    ({"advantage": [1, None]}, "'advantage[1]' is null, wanted a finite number"),
    ({"advantage": None}, "'advantage' is null"),
    ({"completion": 3}, "'completion' is 3"),
    ({"completion": ["A", "B"]}, "'advantage' is no list"),
    ({"completion": ["A", "B"], "advantage": [1]}, "'advantage' has 1 entries for 2 completions"),
    ({"completion": []}, "'completion' is an empty list"),
    ({"old_log_prob": -1.0}, "'old_log_prob' is -1.0, wanted a list with a number for each token of the answer"),
    ({"old_log_prob": [-1, 0.5]}, "'old_log_prob' has 0.5 at 1, wanted the logarithm of a probability"),
    ({"token_weight": [1, -0.5]}, "'token_weight' has -0.5, wanted numbers of at least 0"),
    ({"tools": [{"name": "f"}]}, "has tools, which only messages can call")])
def test_what_is_no_rollout_is_refused_by_name(tmp_path, row, fault):
    good = TEXTS | {"advantage": 1.0} | {name: [-1.0] if name == "old_log_prob" else [] for name in row
                                         if name in ("old_log_prob", "tools")} | \
        ({"token_weight": 1} if "token_weight" in row else {})
    _, bad = documents(write_lines(tmp_path / "a.jsonl", good, good | row))
    assert isinstance(bad, str) and fault in bad, bad


@pytest.mark.parametrize("row, fault", [
    ({"completion_ids": []}, "'completion_ids' is no list, or an empty one"),
    ({"completion_ids": [3, "x"]}, "'completion_ids' holds \"x\", wanted token ids"),
    ({"prompt_ids": [True]}, "'prompt_ids' holds true, wanted token ids"),
    ({"completion_mask": [1, 1]}, "'completion_mask' has 2 entries, wanted 3 as 'completion_ids' has"),
    ({"completion_mask": [1, 2, 0]}, "'completion_mask' holds 2, wanted 0 and 1")])
def test_token_ids_that_are_none_are_refused_by_name(tmp_path, row, fault):
    good = IDS | {"advantage": 1.0, "completion_mask": [1, 1, 1]}
    _, bad = documents(write_lines(tmp_path / "a.jsonl", good, good | row))
    assert isinstance(bad, str) and fault in bad, bad


def test_an_unknown_format_says_what_rollouts_need(tmp_path):
    with pytest.raises(ToolError, match="has no 'advantage' or 'reward', which rollouts need"):
        documents(write_lines(tmp_path / "a.jsonl", TEXTS), wanted="rollouts")


def test_advantages_are_those_of_the_formulas():
    rewards = np.array([1, 0, 0, 0.5], np.float32)
    centered = rewards - rewards.mean()
    np.testing.assert_allclose(advantages_of(rewards, CENTERED), centered, rtol=1e-6)
    np.testing.assert_allclose(advantages_of(rewards, STANDARDIZED), centered / (rewards.std(ddof=1) + 1e-4), rtol=1e-6)
    assert advantages_of(np.array([3], np.float32), STANDARDIZED).tolist() == [0]
    assert advantages_of(np.array([2, 2], np.float32), STANDARDIZED).tolist() == [0, 0]
