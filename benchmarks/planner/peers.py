#!/usr/bin/env python3
"""Other packers on the lengths that planner_benchmark was timed on, in one Markdown table with it.

    peers.py LENGTHS OURS

LENGTHS: int32 file of planner_benchmark --write-lengths. OURS: its --json output. There are
two problems. Packs: all lengths into as few bins of OURS' token budget as possible (fill). Balance: steps
of 64 examples over 8 ranks (utilisation / bound). A slow packer gets fewer lengths: its column `rows`
says how many. Times are CPU seconds of this process; converting to a packer's own input type is
not counted. A package that is not installed has a row that says so.
"""

import argparse
import importlib
import json
import time

import numpy

STEP = 64
RANKS = 8
HIDDEN = 4096


class Outcome:
    """The result of a packer: CPU seconds, rows, and the table's last two columns."""

    def __init__(self, rows: int, seconds: float, fill=None, utilization=None):
        self.rows, self.seconds, self.fill, self.utilization = rows, seconds, fill, utilization


def timed(function, *arguments):
    begin = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - begin


def pack(lengths: numpy.ndarray, most: int, capacity: int, convert, packer) -> Outcome:
    """`packer` takes the output of `convert` for the lengths and returns the number of bins."""
    lengths = lengths[:most]
    num_bins, seconds = timed(packer, convert(lengths), capacity)
    return Outcome(len(lengths), seconds, fill=lengths.sum(dtype=int) / (num_bins * capacity))


def balance(lengths: numpy.ndarray, most: int, partition) -> Outcome:
    """`partition` takes the costs of a step and returns the cost of each rank."""
    lengths = lengths[:most // STEP * STEP].astype(float)
    seconds, share = 0.0, 0.0
    steps = (lengths + lengths**2 / (6 * HIDDEN)).reshape(-1, STEP)
    for costs in steps:
        items = dict(enumerate(costs.tolist()))
        ranks, elapsed = timed(partition, items)
        seconds += elapsed
        share += max(costs.sum() / RANKS, costs.max()) / max(ranks) / len(steps)
    return Outcome(len(lengths), seconds, utilization=share)


def as_dict(lengths: numpy.ndarray) -> dict:
    return dict(enumerate(lengths.tolist()))


def lightbinpack(algorithm: str, most: int):
    def run(module, lengths, capacity):
        packer = getattr(module, algorithm)
        return pack(lengths, most, capacity, numpy.ndarray.tolist,
                    lambda items, size: len(packer(items, size)))
    return run


def binpacking_volume(module, lengths, capacity):
    return pack(lengths, 20_000, capacity, as_dict,
                lambda items, size: len(module.to_constant_volume(items, size)))


def binpacking_number(module, lengths, _):
    return balance(lengths, 64_000, lambda items: [
        sum(rank.values()) for rank in module.to_constant_bin_number(items, RANKS)])


def prtpy_pack(module, lengths, capacity):
    def packer(items, size):
        return len(module.pack(algorithm=module.packing.first_fit_decreasing, binsize=size,
                               items=items, outputtype=module.out.Partition))
    return pack(lengths, 10_000, capacity, as_dict, packer)


def prtpy_balance(algorithm: str):
    def run(module, lengths, _):
        return balance(lengths, 12_800, lambda items: module.partition(
            algorithm=getattr(module.partitioning, algorithm), numbins=RANKS, items=items,
            outputtype=module.out.Sums))
    return run


def seqpacker(module, lengths, capacity):
    def packer(items, size):
        return len(module.pack_sequences(items, capacity=size).bins)
    return pack(lengths, 10_000_000, capacity, numpy.ndarray.tolist, packer)


def trl(module, lengths, capacity):
    import datasets
    datasets.disable_progress_bars()

    def convert(part):
        return datasets.Dataset.from_dict({"input_ids": [[0] * n for n in part.tolist()]})
    return pack(lengths, 20_000, capacity, convert,
                lambda items, size: len(module.pack_dataset(items, size, "bfd")))


# Package to import, name in the table, problem, function(module, lengths, capacity).
PEERS = [
    ("lightbinpack", "lightbinpack obfd", "packs", lightbinpack("obfd", 10_000_000)),
    ("lightbinpack", "lightbinpack ffd", "packs", lightbinpack("ffd", 10_000_000)),
    ("lightbinpack", "lightbinpack nf", "packs", lightbinpack("nf", 10_000_000)),
    ("seqpacker", "seqpacker", "packs", seqpacker),
    ("binpacking", "binpacking", "packs", binpacking_volume),
    ("prtpy", "prtpy first-fit decreasing", "packs", prtpy_pack),
    ("trl.data_utils", "TRL bfd (moves the tokens too)", "packs", trl),
    ("prtpy", "prtpy Karmarkar-Karp", "balance", prtpy_balance("kk")),
    ("prtpy", "prtpy multifit", "balance", prtpy_balance("multifit")),
    ("prtpy", "prtpy longest first", "balance", prtpy_balance("greedy")),
    ("binpacking", "binpacking, 8 bins", "balance", binpacking_number),
]


def print_row(name: str, problem: str, outcome: Outcome) -> None:
    fill = "" if outcome.fill is None else f"{outcome.fill:.4f}"
    share = "" if outcome.utilization is None else f"{outcome.utilization:.4f}"
    rate = outcome.rows / outcome.seconds
    print(f"| {name} | {problem} | {outcome.rows:,} | {outcome.seconds:.2f} | {rate:,.0f} | {fill} "
          f"| {share} |", flush=True)


def print_ours(rows: list) -> None:
    for row in rows:
        packs = row["strategy"] in ("multipack", "fixed_length")
        share = row["cost_utilization"] / row["cost_bound"]
        print_row(f"packtrain {row['strategy']}, with shuffle and plan",
                  "packs" if packs else "balance",
                  Outcome(row["num_examples"], row["cpu_s"], fill=row["fill"] if packs else None,
                          utilization=None if packs else share))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths")
    parser.add_argument("ours")
    arguments = parser.parse_args()
    lengths = numpy.fromfile(arguments.lengths, dtype=numpy.int32)
    print("| packer | problem | rows | CPU s | rows/s | fill | utilisation / bound |")
    print("|---|---|---|---|---|---|---|")
    with open(arguments.ours, encoding="utf-8") as file:
        ours = [json.loads(line) for line in file]
    print_ours(ours)
    max_tokens = ours[0]["max_tokens_per_micro_batch"]
    for package, name, problem, run in PEERS:
        try:
            module = importlib.import_module(package)
        except ImportError:
            print(f"| {name} | {problem} | not installed | | | | |", flush=True)
            continue
        print_row(name, problem, run(module, lengths, max_tokens))


if __name__ == "__main__":
    main()
