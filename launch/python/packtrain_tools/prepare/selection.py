"""Selects the examples and the store of each. The steps are: --deduplicate removes copies; --sample
chooses groups of the rest; --max-examples takes the first of these; then groups are held out for
validation."""

import sys

import numpy as np

from packtrain_tools.prepare.examples import Examples
from packtrain_tools.prepare.seen import Seen
from packtrain_tools.prepare.splitting import HELD_OUT, SAMPLED, NumberOfGroups, make_choice
from packtrain_tools.prepare.store import restore_examples, save_examples


class Distinct:
    """Leaves out groups whose contents occurred before."""

    def __init__(self):
        self._seen = Seen("seen")
        self.num_duplicates = 0

    def new_ones(self, examples: Examples) -> Examples:
        begins = examples.begins  # all examples of a group have its digest
        is_new = self._seen.add(examples.digests[begins])
        self.num_duplicates += int(np.count_nonzero(~is_new))
        return examples.take(is_new[np.cumsum(begins) - 1])

    def save(self, folder: str, number: int) -> dict:
        return {"files": self._seen.save(folder, number), "num_duplicates": self.num_duplicates}

    def restore(self, folder: str, state: dict):
        self.num_duplicates = state["num_duplicates"]
        self._seen.restore(folder, state["files"])


class Selection:
    """All numbers count groups: pairs, prompts with their rollouts, or plain examples."""

    def __init__(self, arguments):
        self._max_examples = arguments.max_examples or sys.maxsize
        self._num_taken = 0
        self._distinct = Distinct() if arguments.deduplicate else None
        sample = arguments.sample
        self._sample = make_choice(sample if isinstance(sample, float) else None,
                                   sample if isinstance(sample, int) else None,
                                   arguments.seed, SAMPLED)
        self._held_out = make_choice(arguments.validation_fraction, arguments.validation_examples,
                                     arguments.seed, HELD_OUT)
        self.num_by_source = np.zeros(len(arguments.sources), np.int64)  # taken examples

    @property
    def num_duplicates(self) -> int:
        return self._distinct.num_duplicates if self._distinct else 0

    @property
    def is_complete(self) -> bool:
        """True when no more examples are needed."""
        return self._num_left() == 0

    def _num_left(self) -> int:
        return self._max_examples - self._num_taken

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """Examples for training and for validation that are certain now."""
        if self._distinct:
            examples = self._distinct.new_ones(examples)
        if self._sample:
            _, examples = self._sample.split(examples)
        return self._hold_out(examples)

    def _hold_out(self, examples: Examples) -> tuple[Examples, Examples]:
        examples = examples.first(self._num_left())
        self._num_taken += examples.num_groups
        self.num_by_source += np.bincount(examples.source, minlength=len(self.num_by_source))
        return self._held_out.split(examples) if self._held_out else (examples, examples.first(0))

    def finish(self) -> list[tuple[Examples, Examples]]:
        """The remaining examples for training and for validation."""
        sampled = self._sample.finish() if self._sample else []
        parts = [self._hold_out(examples) for _, examples in sampled]
        return parts + (self._held_out.finish() if self._held_out else [])

    def _pools(self) -> list[NumberOfGroups]:
        return [choice for choice in (self._sample, self._held_out)
                if isinstance(choice, NumberOfGroups)]

    def save(self, folder: str, number: int) -> dict:
        """Writes its state to disk and returns the input of `restore`. `number`: of the save."""
        return {"num_by_source": self.num_by_source.tolist(), "num_taken": self._num_taken,
                "seen": self._distinct.save(folder, number) if self._distinct else None,
                "pools": [{"file": save_examples(folder, f"pool{i}x{number}", choice.pool),
                           "num_chosen": choice.num_chosen}
                          for i, choice in enumerate(self._pools())]}

    def restore(self, folder: str, state: dict):
        self.num_by_source = np.array(state["num_by_source"], np.int64)
        self._num_taken = state.get("num_taken", int(self.num_by_source.sum()))
        if self._distinct:
            self._distinct.restore(folder, state["seen"])
        for choice, saved in zip(self._pools(), state["pools"]):
            choice.pool = restore_examples(folder, saved["file"])
            choice.num_chosen = saved["num_chosen"]


def files_of(state: dict) -> list[str]:
    """The files that a saved state needs."""
    seen = state["seen"]["files"] if state["seen"] else []
    return seen + [pool["file"] for pool in state["pools"]]
