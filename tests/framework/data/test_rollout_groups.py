"""Rollouts that are joined to groups: what a save writes."""

import json

import numpy as np
from prepare_program import TOOLS  # noqa: F401  the path of packtrain_tools

from packtrain_tools.prepare.examples import GroupColumns, make_examples
from packtrain_tools.prepare.rollout_groups import RolloutGroups
from packtrain_tools.prepare.shard_file import read_digests
from packtrain_tools.sources.documents import Role


def rollouts(groups):
    """A rollout of each group."""
    number = len(groups)
    column = [np.array([0, 0, 1], np.float32)] * number
    members = GroupColumns([Role.ROLLOUT] * number, [0.0] * number, [1.0] * number, {"advantage": column})
    masks = [np.array([0, 0, 1], np.uint8)] * number
    return make_examples([[1, 2, 3 + group] for group in groups], masks, [0] * number, groups, members)


def saved(groups, folder, number):
    """The state after a save, as JSON keeps it."""
    return json.loads(json.dumps(groups.save(str(folder), number)))


def test_a_save_writes_only_the_groups_that_are_new(tmp_path):
    groups = RolloutGroups("")
    groups.add(rollouts(range(1000)))
    first = saved(groups, tmp_path, 1)
    groups.add(rollouts([1000, 1001]))
    second = saved(groups, tmp_path, 2)
    assert len(json.dumps(second)) < 300, second
    sizes = [len(read_digests(str(tmp_path), file)) for file in second["finished_files"]]
    assert sizes == [999, 2] and second["finished_files"][:1] == first["finished_files"]


def test_a_continued_preparation_counts_prompts_that_came_before_it_was_stopped(tmp_path):
    groups = RolloutGroups("")
    groups.add(rollouts(range(10)))
    state = saved(groups, tmp_path, 1)
    going_on = RolloutGroups("")
    going_on.restore(str(tmp_path), state)
    going_on.add(rollouts([3, 20, 8, 21]))
    assert going_on.counts["repeated_prompts"] == 2


def test_the_state_of_an_earlier_version_has_its_groups_in_a_list(tmp_path):
    groups = RolloutGroups("")
    groups.add(rollouts(range(10)))
    state = saved(groups, tmp_path, 1)
    del state["finished_files"]
    going_on = RolloutGroups("")
    going_on.restore(str(tmp_path), state | {"finished": list(range(9))})
    again = saved(going_on, tmp_path, 2)
    going_on.add(rollouts([3, 20, 8, 21]))
    assert going_on.counts["repeated_prompts"] == 2
    assert [len(read_digests(str(tmp_path), file)) for file in again["finished_files"]] == [9]
