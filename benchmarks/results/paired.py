"""Differences of validation losses between two recipes that share seeds and examples: means, intervals, and the
smallest difference that they find. Reads the files of `packtrain score --log-probs`."""

import array
import itertools
import json
import math
import os
import statistics
import struct
from dataclasses import dataclass

# Quantiles of Student's t with 1, 2, ... degrees of freedom.
TWO_SIDED_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
ONE_SIDED_80 = (1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883)
# The same of a normal distribution, for the many examples of a set.
NORMAL_95, NORMAL_80 = 1.960, 0.842


@dataclass(frozen=True)
class Difference:
    mean: float
    half_interval: float | None  # of 95 %; None for a single pair
    smallest_found: float | None  # with probability 0.8

    def __str__(self) -> str:
        if self.half_interval is None:
            return f"{self.mean:+.4f} | | "
        low, high = self.mean - self.half_interval, self.mean + self.half_interval
        return f"{self.mean:+.4f} | {low:+.4f} to {high:+.4f} | {self.smallest_found:.4f}"


def by_seed(differences: list[float]) -> Difference:
    """Of the losses of whole validation sets, one difference for each seed."""
    degrees = len(differences) - 1
    mean = statistics.mean(differences)
    if degrees < 1:
        return Difference(mean, None, None)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = TWO_SIDED_95[degrees - 1] * error
    return Difference(mean, half, half + ONE_SIDED_80[degrees - 1] * error)


def by_example(first: list["ExampleLosses"], second: list["ExampleLosses"]) -> Difference:
    """The losses a token, second minus first, over the examples of the set. `first` and `second` have an element for
    each seed. The error is that of a ratio of two sums over examples (Cochran, Sampling Techniques, chapter 6). It
    says what other examples of the same kind would change for the runs at hand; by_seed() says what other seeds would.
    """
    counts = first[0].counts
    assert all(losses.counts == counts for losses in first + second), "different validation sets"
    sums = [math.fsum(b.sums[i] - a.sums[i] for a, b in zip(first, second, strict=True)) / len(first)
            for i in range(len(counts))]
    num_tokens, num_examples = sum(counts), len(counts)
    mean = math.fsum(sums) / num_tokens
    squares = math.fsum((total - mean * count) ** 2 for total, count in zip(sums, counts, strict=True))
    error = math.sqrt(num_examples / (num_examples - 1) * squares) / num_tokens
    return Difference(mean, NORMAL_95 * error, (NORMAL_95 + NORMAL_80) * error)


@dataclass(frozen=True)
class ExampleLosses:
    sums: list[float]  # of each example's learned tokens
    counts: list[int]

    @property
    def mean(self) -> float:
        return math.fsum(self.sums) / sum(self.counts)


def read_tensors(path: str, names: tuple[str, ...]) -> list[array.array]:
    """Tensors of a safetensors file of type F32 or I64."""
    codes = {"F32": "f", "I64": "q"}
    with open(path, "rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(size))
        found = []
        for name in names:
            begin, end = header[name]["data_offsets"]
            stream.seek(8 + size + begin)
            found.append(array.array(codes[header[name]["dtype"]], stream.read(end - begin)))
    return found


def read_example_losses(path: str) -> ExampleLosses:
    """Examples without learned tokens are left out."""
    offsets, log_probs = read_tensors(path, ("offsets", "log_probs"))
    ranges = [(begin, end) for begin, end in itertools.pairwise(offsets) if end > begin]
    return ExampleLosses([-math.fsum(log_probs[begin:end]) for begin, end in ranges],
                         [end - begin for begin, end in ranges])


def find_scores(folder: str) -> ExampleLosses | None:
    path = os.path.join(folder, "log-probs.safetensors")
    return read_example_losses(path) if os.path.exists(path) else None
