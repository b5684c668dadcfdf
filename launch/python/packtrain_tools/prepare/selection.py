"""Selects the examples and the store of each. The steps are: --deduplicate removes copies; --sample
chooses groups of the rest; --max-examples takes the first of these; then groups are held out for
validation."""

import sys

import numpy as np

from packtrain_tools.prepare.examples import Examples
from packtrain_tools.prepare.shard_file import read_digests, write_digests
from packtrain_tools.prepare.splitting import HELD_OUT, SAMPLED, NumberOfGroups, make_choice
from packtrain_tools.prepare.store import restore_examples, save_examples


class Seen:
    """Contents that occurred before, about 100 bytes of memory each."""

    def __init__(self):
        self._digests: set[bytes] = set()
        self._files: list[str] = []  # of earlier saves
        self._unsaved: list[np.ndarray] = []
        self.num_duplicates = 0

    def new_ones(self, examples: Examples) -> Examples:
        begins = examples.begins  # all examples of a group have its digest
        digests = examples.digests[begins]
        is_new = np.ones(len(digests), bool)
        for i, digest in enumerate(_rows(digests)):
            if digest in self._digests:
                is_new[i] = False
            self._digests.add(digest)
        self.num_duplicates += int(np.count_nonzero(~is_new))
        self._unsaved.append(digests[is_new])
        return examples.take(is_new[np.cumsum(begins) - 1])

    def save(self, folder: str, number: int) -> dict:
        """Each save writes only what is new since the previous one."""
        if any(map(len, self._unsaved)):
            self._files.append(write_digests(folder, f"seen{number}", self._unsaved))
        self._unsaved = []
        return {"files": self._files, "num_duplicates": self.num_duplicates}

    def restore(self, folder: str, state: dict):
        self._files, self.num_duplicates = state["files"], state["num_duplicates"]
        for file in self._files:
            self._digests.update(_rows(read_digests(folder, file)))


def _rows(digests: np.ndarray) -> list[bytes]:
    data = np.ascontiguousarray(digests).tobytes()
    return [data[i:i + 16] for i in range(0, len(data), 16)]


class Selection:
    """All numbers count groups: pairs, prompts with their rollouts, or plain examples."""

    def __init__(self, arguments):
        self._max_examples = arguments.max_examples or sys.maxsize
        self._num_taken = 0
        self._seen = Seen() if arguments.deduplicate else None
        sample = arguments.sample
        self._sample = make_choice(sample if isinstance(sample, float) else None,
                                   sample if isinstance(sample, int) else None,
                                   arguments.seed, SAMPLED)
        self._held_out = make_choice(arguments.validation_fraction, arguments.validation_examples,
                                     arguments.seed, HELD_OUT)
        self.num_by_source = np.zeros(len(arguments.sources), np.int64)  # taken examples

    @property
    def num_duplicates(self) -> int:
        return self._seen.num_duplicates if self._seen else 0

    @property
    def is_complete(self) -> bool:
        """True when no more examples are needed."""
        return self._num_left() == 0

    def _num_left(self) -> int:
        return self._max_examples - self._num_taken

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """Examples for training and for validation that are certain now."""
        if self._seen:
            examples = self._seen.new_ones(examples)
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
                "seen": self._seen.save(folder, number) if self._seen else None,
                "pools": [{"file": save_examples(folder, f"pool{i}x{number}", choice.pool),
                           "num_chosen": choice.num_chosen}
                          for i, choice in enumerate(self._pools())]}

    def restore(self, folder: str, state: dict):
        self.num_by_source = np.array(state["num_by_source"], np.int64)
        self._num_taken = state.get("num_taken", int(self.num_by_source.sum()))
        if self._seen:
            self._seen.restore(folder, state["seen"])
        for choice, saved in zip(self._pools(), state["pools"]):
            choice.pool = restore_examples(folder, saved["file"])
            choice.num_chosen = saved["num_chosen"]


def files_of(state: dict) -> list[str]:
    """The files that a saved state needs."""
    seen = state["seen"]["files"] if state["seen"] else []
    return seen + [pool["file"] for pool in state["pools"]]
