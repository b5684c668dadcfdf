"""Balancing of padded micro-batches, as transformers' `train_sampling_strategy="batch_rebalance"`.

The examples of a step are sorted by length and cut into ranks x micro-batches groups of neighbours. A group
of n examples, padded to the longest of L tokens, costs intercept + n L + alpha n L^2. These costs are about equal
(huggingface/transformers#47340). The ranks run groups of nearly equal cost at the same time. Packtrain does not pad, so
that its micro-batches take fewer tokens than the cost counts. The number of micro-batches grows until each padded group
fits `max_tokens`."""

from collections.abc import Sequence

from packtrain.plans import Plan, Step, make_plan as plan_of
from packtrain.strategies.command import check_budget, main, shuffled_steps

DEFAULTS = {"ranks": 1, "global_batch_size": 64, "micro_batches": 1, "max_tokens": 16384, "seed": 0}
INTERCEPT = 0.0
ALPHA = 1 / (6 * 4096)  # the attention of a hidden size of 4096


def group_cost(num_examples: int, longest: int) -> float:
    return INTERCEPT + num_examples * longest + ALPHA * num_examples * longest * longest


def cut(lengths: Sequence[int], most: float) -> list[int]:
    """Sizes of the fewest groups of neighbours that cost at most `most`. `lengths` descend."""
    sizes = [0]
    longest = lengths[0]
    for length in lengths:
        if sizes[-1] > 0 and group_cost(sizes[-1] + 1, longest) > most:
            sizes.append(0)
            longest = length
        sizes[-1] += 1
    return sizes


def equal_groups(lengths: Sequence[int], num_groups: int) -> list[int]:
    """Sizes of `num_groups` groups whose largest cost is least, within 0.1 %."""
    low, high = group_cost(1, lengths[0]), group_cost(len(lengths), lengths[0])
    while high - low > 0.001 * low:
        middle = (low + high) / 2
        low, high = (low, middle) if len(cut(lengths, middle)) <= num_groups else (middle, high)
    sizes = cut(lengths, high)
    while len(sizes) < min(num_groups, len(lengths)):
        place = sizes.index(max(sizes))
        sizes[place:place + 1] = [sizes[place] // 2, sizes[place] - sizes[place] // 2]
    return sizes


def plan_step(examples: Sequence[int], lengths: Sequence[int], ranks: int, micro_batches: int,
              max_tokens: int) -> Step:
    order = sorted(examples, key=lambda example: -lengths[example])
    micro_batches = min(micro_batches, -(-len(order) // ranks))
    while True:
        groups: list[list[int]] = []
        begin = 0
        for size in equal_groups([lengths[example] for example in order], ranks * micro_batches):
            groups.append(order[begin:begin + size])
            begin += size
        if all(len(group) * lengths[group[0]] <= max_tokens for group in groups):
            break
        micro_batches += 1
    groups += [[] for _ in range(-len(groups) % ranks)]
    return [groups[rank::ranks] for rank in range(ranks)]


def make_plan(lengths: Sequence[int], ranks: int, global_batch_size: int, micro_batches: int, max_tokens: int,
              seed: int) -> Plan:
    check_budget(lengths, max_tokens)
    steps = [plan_step(examples, lengths, ranks, micro_batches, max_tokens)
             for examples in shuffled_steps(len(lengths), global_batch_size, seed)]
    return plan_of([steps], lengths)


if __name__ == "__main__":
    main(make_plan, "Balancing of padded micro-batches, as transformers' batch_rebalance.", DEFAULTS)
