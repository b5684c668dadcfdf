"""Many encoded examples together, as the columns of a token store (framework/data/token_store.h)."""

import hashlib
import itertools
from dataclasses import dataclass, fields, replace

import numpy as np

NO_ROLE = 255  # of plain examples; other roles are those of sources/documents.py
REJECTED = 1
TURN = 5


@dataclass(frozen=True, slots=True)
class Examples:
    input_ids: np.ndarray  # int32 [num_tokens]
    loss_mask: np.ndarray  # uint8 [num_tokens]
    lengths: np.ndarray  # int32 [num_examples]
    num_loss_tokens: np.ndarray  # int32 [num_examples]
    source: np.ndarray  # int16 [num_examples]
    digests: np.ndarray  # uint64 [num_examples, 2], of ids and mask
    groups: np.ndarray  # uint64 [num_examples]: hash of what belongs together, which is never divided
    # uint8 [num_examples], NO_ROLE for a plain example. A chosen example is followed by its rejected one.
    roles: np.ndarray
    begins: np.ndarray  # bool [num_examples]: the first example of a group, and any plain example
    margins: np.ndarray  # float32 [num_examples], of the pair; 0 without one
    rewards: np.ndarray  # float32 [num_examples], of the rollout; 0 without one
    token_columns: dict[str, np.ndarray]  # float32 [num_tokens] by name; all parts have the same names

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        return len(self.input_ids)

    @property
    def num_groups(self) -> int:
        """A plain example counts as a group."""
        return int(np.count_nonzero(self.begins))

    def first(self, num_groups: int) -> "Examples":
        return self.take(np.cumsum(self.begins) <= num_groups)

    def take(self, wanted: np.ndarray) -> "Examples":
        """The examples where `wanted`, bool [num_examples], is true."""
        if wanted.all():
            return self
        tokens = np.repeat(wanted, self.lengths)
        columns = {name: column[tokens] for name, column in self.token_columns.items()}
        of_examples = {each.name: getattr(self, each.name)[wanted] for each in fields(self)
                       if each.name not in _OF_TOKENS}
        return Examples(input_ids=self.input_ids[tokens], loss_mask=self.loss_mask[tokens],
                        token_columns=columns, **of_examples)


_OF_TOKENS = ("input_ids", "loss_mask", "token_columns")


def concatenate(parts: list[Examples]) -> Examples:
    columns = {name: np.concatenate([part.token_columns[name] for part in parts])
               for name in parts[0].token_columns}
    return Examples(token_columns=columns, **{
        each.name: np.concatenate([getattr(part, each.name) for part in parts])
        for each in fields(Examples) if each.name != "token_columns"})


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """The roles and numbers of examples of groups, in their order."""

    roles: list[int]
    margins: list[float]  # of both examples of a pair; 0 without one
    rewards: list[float]  # of rollouts; 0 without one
    token_columns: dict[str, list[np.ndarray]]  # float32 [length] of each example


def make_examples(ids: list[list[int]], masks: list[np.ndarray], sources: list[int],
                  groups: list[int] | np.ndarray | None = None,
                  members: GroupColumns | None = None) -> Examples:
    """`masks` hold the bytes of loss_weights.py. `groups`: a hash of each example's group; by default,
    examples with the same ids and mask form a group. `members`: None for plain examples. Each rollout is a
    group of its own until rollout_groups.py joins them."""
    lengths = np.array([len(row) for row in ids], np.int32)
    mask = np.concatenate(masks) if masks else np.zeros(0, np.uint8)
    counted = (mask != 0).astype(np.int32)
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    counted[begins] = 0  # the first token of an example has no predecessor and never counts
    sums = np.add.reduceat(counted, begins, dtype=np.int32) if masks else np.zeros(0, np.int32)
    flat = np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum()))
    role = np.full(len(lengths), NO_ROLE, np.uint8) if members is None else np.array(members.roles, np.uint8)
    is_first = role != REJECTED
    digests = digests_of(flat, mask, lengths, role, is_first)
    none = np.zeros(len(lengths), np.float32)
    columns = members.token_columns if members else {}
    return Examples(flat, mask, lengths, sums, np.array(sources, np.int16), digests,
                    digests[:, 0].copy() if groups is None else np.array(groups, np.uint64), role, is_first,
                    none if members is None else np.array(members.margins, np.float32),
                    none if members is None else np.array(members.rewards, np.float32),
                    {name: np.concatenate([*parts, np.zeros(0, np.float32)], dtype=np.float32)
                     for name, parts in columns.items()})


def digests_of(input_ids: np.ndarray, loss_mask: np.ndarray, lengths: np.ndarray,
               roles: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """uint64 [num_examples, 2]: equal for equal ids, mask and role, on every machine. All examples of a group
    have the digest of the group."""
    ids, mask = memoryview(input_ids.astype("<i4").tobytes()), memoryview(loss_mask.tobytes())
    ends = np.cumsum(lengths, dtype=np.int64)
    digests = b"".join(
        hashlib.blake2b(bytes(ids[4 * begin:4 * end]) + bytes(mask[begin:end]),
                        digest_size=16).digest()
        for begin, end in zip((ends - lengths).tolist(), ends.tolist()))
    found = np.frombuffer(digests, "<u8").reshape(-1, 2)
    if (roles == NO_ROLE).all():
        return found
    return _joined(found ^ mixed(roles.astype(np.uint64) + np.uint64(1))[:, None], begins)


def _joined(digests: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The digest of each group, which depends on the order of its examples."""
    firsts = np.flatnonzero(begins)
    sizes = np.diff(np.append(firsts, len(begins)))
    joined = digests[firsts]
    for place in range(1, int(sizes.max(initial=1))):
        has_more = sizes > place
        joined[has_more] = mixed(joined[has_more]) ^ digests[firsts[has_more] + place]
    return np.repeat(joined, sizes, axis=0)


def as_groups(examples: Examples, begins: np.ndarray) -> Examples:
    """The same examples as the groups that `begins`, bool [num_examples], divides them into. Each was a group
    of its own."""
    return replace(examples, begins=begins, digests=_joined(examples.digests, begins))


def columns_of_turns(number: int) -> GroupColumns:
    """Of `number` turns of conversations."""
    return GroupColumns([TURN] * number, [0.0] * number, [0.0] * number, {})


def begins_of(numbers: list[int]) -> np.ndarray:
    """bool [len(numbers)]: where a number differs from the one before it."""
    found = np.array(numbers, np.int64)
    return np.append(np.ones(min(1, len(found)), bool), found[1:] != found[:-1])


def group_hash(contents: bytes) -> int:
    """A hash of the bytes that identify a group, for `make_examples`: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(contents, digest_size=8).digest(), "little")


def mixed(z: np.ndarray) -> np.ndarray:
    """uint64 to uint64, one to one. Mixing function: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def hashes_of_ids(input_ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """uint64 [num_examples], equal for equal ids with any mask: the sum of a hash of each id and its
    position."""
    if not len(lengths):
        return np.zeros(0, np.uint64)
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    places = np.arange(len(input_ids), dtype=np.int64) - np.repeat(begins, lengths)
    keys = places.astype(np.uint64) << np.uint64(32) | input_ids.astype(np.uint64)
    sums = np.add.reduceat(mixed(keys + np.uint64(0x9E3779B97F4A7C15)), begins)
    return mixed(sums + lengths.astype(np.uint64))
