"""Joins consecutive rollouts of one prompt to groups, and computes advantages from their rewards."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.examples import Examples, as_groups, concatenate
from packtrain_tools.prepare.seen import Seen
from packtrain_tools.prepare.store import restore_examples, save_examples
from packtrain_tools.sources.rollout_columns import ADVANTAGE

STANDARDIZED, CENTERED = "standardized", "centered"  # of --advantage-from
MEANINGS = {STANDARDIZED: "an advantage is (reward - mean) / (standard deviation + 1e-4)",
            CENTERED: "an advantage is reward - mean"}
_EPSILON = 1e-4


def advantages_of(rewards: np.ndarray, from_rewards: str) -> np.ndarray:
    """float32 [n], of the rewards of a group, float32 [n]. The standard deviation is that of a sample, n - 1, as
    in GRPO (arXiv 2402.03300); without it the formula is that of Dr. GRPO (arXiv 2503.20783)."""
    centered = rewards.astype(np.float64) - rewards.mean(dtype=np.float64)
    if from_rewards == CENTERED or len(rewards) == 1:
        return centered.astype(np.float32)
    return (centered / (np.std(rewards, ddof=1, dtype=np.float64) + _EPSILON)).astype(np.float32)


class RolloutGroups:
    """Rollouts of one group follow one another, in any number of records. The last group of a chunk waits for
    the next chunk."""

    def __init__(self, from_rewards: str):
        """`from_rewards`: STANDARDIZED or CENTERED; "" where advantages are given."""
        self._from_rewards = from_rewards
        self._waiting: list[Examples] = []
        self._finished = Seen("groups")  # hashes of earlier groups
        self._num_joined = 0
        self.counts: Counter = Counter()

    def add(self, examples: Examples) -> Examples:
        """The groups that are complete."""
        if not examples.num_examples:
            return examples
        if self._waiting and self._waiting[0].groups[0] == examples.groups[-1] and \
                (examples.groups == examples.groups[0]).all():
            self._waiting.append(examples)
            return examples.first(0)
        found = concatenate([*self._waiting, examples])
        last = found.groups[-1]
        others = np.flatnonzero(found.groups != last)
        num_complete = int(others[-1]) + 1 if len(others) else 0
        is_complete = np.arange(found.num_examples) < num_complete
        self._waiting = [found.take(~is_complete)]
        return self._joined(found.take(is_complete))

    def finish(self) -> list[Examples]:
        """The last group."""
        rest, self._waiting = self._waiting, []
        return [self._joined(concatenate(rest))] if rest else []

    def save(self, folder: str, number: int) -> dict:
        """Writes its state to disk and returns the input of `restore`. `number`: of the save."""
        return {"file": save_examples(folder, f"rollouts{number}", self._waiting), "counts": dict(self.counts),
                "finished_files": self._finished.save(folder, number), "num_joined": self._num_joined}

    def restore(self, folder: str, state: dict):
        self._waiting = restore_examples(folder, state["file"])
        self._num_joined = state["num_joined"]
        self._finished.restore(folder, state.get("finished_files", []))
        earlier = state.get("finished", [])  # what earlier versions saved
        self._finished.add(np.array(earlier, np.uint64).reshape(-1, 1))
        self.counts = Counter(state["counts"])

    def _joined(self, examples: Examples) -> Examples:
        if not examples.num_examples:
            return examples
        begins = np.append(True, examples.groups[1:] != examples.groups[:-1])
        firsts = np.append(np.flatnonzero(begins), len(begins))
        advantages = np.zeros(examples.num_examples, np.float32)
        prompts = _prompts(examples)
        is_new = self._finished.add(examples.groups[firsts[:-1], None])
        self.counts["repeated_prompts"] += int(np.count_nonzero(~is_new))
        for begin, end in itertools.pairwise(firsts.tolist()):
            self._check_prompts(prompts[begin:end], self._num_joined + begin)
            self._note(examples.rewards[begin:end])
            if self._from_rewards:
                advantages[begin:end] = advantages_of(examples.rewards[begin:end], self._from_rewards)
        if self._from_rewards:
            column = np.repeat(advantages, examples.lengths) * (examples.loss_mask != 0)
            examples = replace(examples, token_columns=examples.token_columns | {ADVANTAGE: column})
        self._num_joined += examples.num_examples
        return as_groups(examples, begins)

    def _note(self, rewards: np.ndarray):
        if self._from_rewards and len(rewards) == 1:
            self.counts["single_rollouts"] += 1
        elif self._from_rewards:
            self.counts["equal_rewards"] += bool((rewards == rewards[0]).all())

    @staticmethod
    def _check_prompts(prompts: list[np.ndarray], first: int):
        """`first`: number of the group's first rollout among those that are kept."""
        wrong = next((i for i, prompt in enumerate(prompts) if not np.array_equal(prompt, prompts[0])), None)
        if wrong is not None:
            raise ToolError(f"rollouts {first:,} and {first + wrong:,} (from 0) of those kept are of one group, and "
                            f"their prompts have different tokens ({len(prompts[0]):,} and {len(prompts[wrong]):,})",
                            "The column 'group' (or --group-by) must have another value for each prompt. --column "
                            "group= groups by the prompts themselves.")


def _prompts(examples: Examples) -> list[np.ndarray]:
    """The ids of each example before the first that is learned."""
    ends = np.cumsum(examples.lengths, dtype=np.int64)
    found = []
    for begin, end in zip((ends - examples.lengths).tolist(), ends.tolist()):
        length = int(np.flatnonzero(examples.loss_mask[begin:end])[0])
        found.append(examples.input_ids[begin:begin + length])
    return found


def files_of_rollouts(state: dict | None) -> list[str]:
    """The files that a saved state needs. None: there are no rollouts."""
    return [] if state is None else [state["file"], *state["finished_files"]]
