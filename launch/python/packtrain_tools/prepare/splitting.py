"""Chooses groups of examples by a coin, which depends only on the group's hash and the seed. So the choice
does not change when other groups are added, left out or read in another order. A group is never divided."""

import numpy as np

from packtrain_tools.prepare.examples import Examples, concatenate, mixed

HELD_OUT = 0  # salts: choices with different salts are independent
SAMPLED = 1
POOL_SLACK = 8192  # extra candidates, before some are dropped


def coins(groups: np.ndarray, seed: int, salt: int = HELD_OUT) -> np.ndarray:
    """uint64 [num_examples], evenly distributed, one value for each group."""
    z = mixed(groups ^ np.uint64(salt)) if salt else groups
    return mixed(z + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64))


class ShareOfGroups:
    """Chooses about this share of the groups."""

    def __init__(self, share: float, seed: int, salt: int):
        self._share = share
        self._seed = seed
        self._salt = salt

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """The other examples, and the chosen ones."""
        chosen = coins(examples.groups, self._seed, self._salt) < self._share * 2.0**64
        return examples.take(~chosen), examples.take(chosen)

    def finish(self) -> list[tuple[Examples, Examples]]:
        return []


class NumberOfGroups:
    """Chooses what belongs together with the smallest coins until it has at least `number` groups of the
    store (of a plain store, examples). They are certain only at the end; before, the candidates are in memory.
    What is not among the first `number` of the candidates is not among those of all, so what is dropped stays
    dropped."""

    def __init__(self, number: int, seed: int, salt: int):
        self._number = number
        self._seed = seed
        self._salt = salt
        self.pool: list[Examples] = []
        self.num_chosen = 0  # groups of the pool, when some were last dropped

    def split(self, examples: Examples) -> tuple[Examples, Examples]:
        """The other examples that are certain now, and no chosen ones yet."""
        self.pool.append(examples)
        none = examples.first(0)
        wanted = max(self._number, self.num_chosen)  # what belongs together may be more than `number`
        if sum(part.num_groups for part in self.pool) < 2 * wanted + POOL_SLACK:
            return none, none
        return self._let_go(), none

    def _let_go(self) -> Examples:
        candidates = concatenate(self.pool)
        coin = coins(candidates.groups, self._seed, self._salt)
        chosen = np.ones(candidates.num_examples, bool)
        if candidates.num_groups > self._number:
            chosen = coin <= np.partition(coin[candidates.begins], self._number - 1)[self._number - 1]
        self.pool = [candidates.take(chosen)]
        self.num_chosen = self.pool[0].num_groups
        return candidates.take(~chosen)

    def finish(self) -> list[tuple[Examples, Examples]]:
        """The remaining other examples, and all chosen ones."""
        if not self.pool:
            return []
        others = self._let_go()
        return [(others, self.pool[0])]


Choice = ShareOfGroups | NumberOfGroups


def make_choice(share: float | None, number: int | None, seed: int, salt: int) -> Choice | None:
    if share is not None:
        return ShareOfGroups(share, seed, salt)
    return NumberOfGroups(number, seed, salt) if number is not None else None
