"""Which examples are kept, and which are held out for validation. Both follow from contents alone,
so that an example stays where it is when others are added, left out or read in another order."""

import numpy as np

from packtrain_tools.prepare.examples import Examples, concatenate

POOL_SLACK = 8192  # candidates more than asked for, before some are let go


class Seen:
    """Contents that were there before, about 100 bytes of memory each."""

    def __init__(self):
        self._digests: set[bytes] = set()
        self.num_duplicates = 0

    def add(self, digests: np.ndarray):
        self._digests.update(_rows(digests))

    def new_ones(self, examples: Examples) -> Examples:
        is_new = np.ones(examples.num_examples, bool)
        for i, digest in enumerate(_rows(examples.digests)):
            if digest in self._digests:
                is_new[i] = False
            self._digests.add(digest)
        self.num_duplicates += int(np.count_nonzero(~is_new))
        return examples.take(is_new)


def _rows(digests: np.ndarray) -> list[bytes]:
    data = np.ascontiguousarray(digests).tobytes()
    return [data[i:i + 16] for i in range(0, len(data), 16)]


def coins(examples: Examples, seed: int) -> np.ndarray:
    """uint64 [num_examples], evenly spread, of contents and seed. Mixing function: SplitMix64
    (Steele, Lea, Flood, OOPSLA 2014)."""
    z = examples.digests[:, 0] + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


class HoldFraction:
    """About this share of the contents is held out."""

    def __init__(self, fraction: float, seed: int):
        self._fraction = fraction
        self._seed = seed

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """For training, for validation."""
        held_out = coins(examples, self._seed) < self._fraction * 2.0**64
        return examples.take(~held_out), examples.take(held_out)


class HoldNumber:
    """The examples with the smallest coins are held out: known at the end only, until then in
    memory."""

    def __init__(self, number: int, seed: int):
        self._number = number
        self._seed = seed
        self.pool: list[Examples] = []

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """For training, and nothing yet for validation."""
        self.pool.append(examples)
        none = examples.first(0)
        if sum(part.num_examples for part in self.pool) < 2 * self._number + POOL_SLACK:
            return none, none
        return self._let_go(), none

    def _let_go(self) -> Examples:
        candidates = concatenate(self.pool)
        order = np.argsort(coins(candidates, self._seed), kind="stable")
        held_out = np.zeros(candidates.num_examples, bool)
        held_out[order[:self._number]] = True
        self.pool = [candidates.take(held_out)]
        return candidates.take(~held_out)

    def finish(self) -> tuple[Examples, Examples]:
        """The last for training, and all for validation; there must be some."""
        training = self._let_go()
        return training, self.pool[0]
