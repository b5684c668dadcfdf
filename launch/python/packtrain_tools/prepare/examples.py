"""Many encoded examples together, as the columns of a token store (framework/data/token_store.h)."""

import hashlib
import itertools
from dataclasses import dataclass

import numpy as np

NO_ROLE = 255  # of plain examples; other roles are those of sources/documents.py
REJECTED = 1


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
    margins: np.ndarray  # float32 [num_examples], of the pair; 0 without one

    @property
    def num_examples(self) -> int:
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        return len(self.input_ids)

    @property
    def begins(self) -> np.ndarray:
        """bool [num_examples]: true for the first example of a pair, and for any other example."""
        return self.roles != REJECTED

    def first(self, num: int) -> "Examples":
        return self.take(np.arange(self.num_examples) < num)

    def take(self, wanted: np.ndarray) -> "Examples":
        """The examples where `wanted`, bool [num_examples], is true."""
        if wanted.all():
            return self
        tokens = np.repeat(wanted, self.lengths)
        return Examples(self.input_ids[tokens], self.loss_mask[tokens], self.lengths[wanted],
                        self.num_loss_tokens[wanted], self.source[wanted],
                        self.digests[wanted], self.groups[wanted], self.roles[wanted],
                        self.margins[wanted])


def concatenate(parts: list[Examples]) -> Examples:
    return Examples(*(np.concatenate([getattr(part, name) for part in parts])
                      for name in Examples.__slots__))


def make_examples(ids: list[list[int]], masks: list[np.ndarray], sources: list[int],
                  groups: list[int] | np.ndarray | None = None, roles: list[int] | None = None,
                  margins: list[float] | None = None) -> Examples:
    """`masks` hold the bytes of loss_weights.py. `groups`: a hash of each example's group; by default,
    examples with the same ids and mask form a group. `roles` and `margins`: None for plain examples."""
    lengths = np.array([len(row) for row in ids], np.int32)
    mask = np.concatenate(masks) if masks else np.zeros(0, np.uint8)
    counted = (mask != 0).astype(np.int32)
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    counted[begins] = 0  # the first token of an example has no predecessor and never counts
    sums = np.add.reduceat(counted, begins, dtype=np.int32) if masks else np.zeros(0, np.int32)
    flat = np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum()))
    role = np.full(len(lengths), NO_ROLE, np.uint8) if roles is None else np.array(roles, np.uint8)
    digests = digests_of(flat, mask, lengths, role)
    return Examples(flat, mask, lengths, sums, np.array(sources, np.int16), digests,
                    digests[:, 0].copy() if groups is None else np.array(groups, np.uint64), role,
                    np.zeros(len(lengths), np.float32) if margins is None else np.array(margins, np.float32))


def digests_of(input_ids: np.ndarray, loss_mask: np.ndarray, lengths: np.ndarray,
               roles: np.ndarray) -> np.ndarray:
    """uint64 [num_examples, 2]: equal for equal ids, mask and role, on every machine. Both examples of a pair
    have the digest of the pair."""
    ids, mask = memoryview(input_ids.astype("<i4").tobytes()), memoryview(loss_mask.tobytes())
    ends = np.cumsum(lengths, dtype=np.int64)
    digests = b"".join(
        hashlib.blake2b(bytes(ids[4 * begin:4 * end]) + bytes(mask[begin:end]),
                        digest_size=16).digest()
        for begin, end in zip((ends - lengths).tolist(), ends.tolist()))
    return _joined_by_pair(np.frombuffer(digests, "<u8").reshape(-1, 2), roles)


def _joined_by_pair(digests: np.ndarray, roles: np.ndarray) -> np.ndarray:
    if (roles == NO_ROLE).all():
        return digests
    joined = digests ^ mixed(roles.astype(np.uint64) + np.uint64(1))[:, None]
    rejected = np.flatnonzero(roles == REJECTED)
    joined[rejected - 1] = mixed(joined[rejected - 1]) ^ joined[rejected]
    joined[rejected] = joined[rejected - 1]
    return joined


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
