"""Balancing by the largest differencing method of Karmarkar and Karp, as verl's get_seqlen_balanced_partitions.

The examples of a step are partitioned over ranks by their cost 24576 L + L^2, with equal numbers of examples where they
divide. Each rank's part is partitioned again into micro-batches, as many on all ranks. The number of micro-batches of
verl holds all tokens, and one of them may exceed the budget. Here the number grows until all fit.

The method is from N. Karmarkar and R. Karp, "The differencing method of set partitioning", UCB/CSD 82/113 (1982)."""

import heapq
from collections.abc import Sequence
from itertools import count

from packtrain.plans import Plan, Ranks, Step, make_plan as plan_of
from packtrain.strategies.command import check_budget, main, shuffled_steps

DEFAULTS = {"ranks": 1, "global_batch_size": 64, "max_tokens": 16384, "seed": 0}

Sets = list[tuple[int, list[int]]]  # (cost, items), by descending cost


def partition(costs: Sequence[int], num_sets: int, equal_sizes: bool) -> list[list[int]]:
    """Sets of item numbers. With `equal_sizes` the number of items is a multiple of `num_sets`."""
    order = sorted(range(len(costs)), key=lambda item: -costs[item])
    group_size = num_sets if equal_sizes else 1
    numbers = count()  # ties: the earlier one
    heap: list[tuple[int, int, Sets]] = []

    def push(sets: Sets) -> None:
        heapq.heappush(heap, (sets[-1][0] - sets[0][0], next(numbers), sets))

    for begin in range(0, len(order), group_size):
        sets: Sets = [(costs[item], [item]) for item in order[begin:begin + group_size]]
        push(sets + [(0, [])] * (num_sets - len(sets)))
    while len(heap) > 1:
        first, second = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        joined = [(a + b, items + others) for (a, items), (b, others) in zip(first, reversed(second))]
        push(sorted(joined, key=lambda one: -one[0]))
    return [items for _, items in heap[0][2]]


def cost_of(length: int) -> int:
    return 24576 * length + length * length


def split(examples: Sequence[int], lengths: Sequence[int], num_sets: int, equal_sizes: bool) -> list[list[int]]:
    costs = [cost_of(lengths[example]) for example in examples]
    return [[examples[item] for item in items] for items in partition(costs, num_sets, equal_sizes)]


def plan_step(examples: Sequence[int], lengths: Sequence[int], ranks: int, max_tokens: int) -> Step:
    def num_tokens(some: Sequence[int]) -> int:
        return sum(lengths[example] for example in some)

    of_ranks = split(examples, lengths, ranks, len(examples) % ranks == 0)
    num_micro_batches = max(-(-num_tokens(part) // max_tokens) for part in of_ranks)
    while True:
        step: Ranks = [split(part, lengths, num_micro_batches, False) if part else [[]] * num_micro_batches
                for part in of_ranks]
        if all(num_tokens(some) <= max_tokens for rank in step for some in rank):
            return step
        num_micro_batches += 1


def make_plan(lengths: Sequence[int], ranks: int, global_batch_size: int, max_tokens: int, seed: int) -> Plan:
    check_budget(lengths, max_tokens)
    steps = [plan_step(examples, lengths, ranks, max_tokens)
             for examples in shuffled_steps(len(lengths), global_batch_size, seed)]
    return plan_of([steps], lengths)


if __name__ == "__main__":
    main(make_plan, "Karmarkar-Karp balancing of each step, as verl's balance_batch.", DEFAULTS)
