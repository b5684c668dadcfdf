"""Best-fit decreasing packing, as TRL's SFTTrainer with `packing_strategy="bfd"`.

Examples of a chunk are sorted by length, the longest first. Each goes into the fullest pack with space for it, or opens
one. Packs are shuffled. Each micro-batch of a rank is one pack. TRL packs chunks of 1,000 examples, because it runs in
`datasets.map`. TRL cuts an example longer than a pack; here it is an error. The epoch's last step may have fewer packs
than others."""

import bisect
import random
from collections.abc import Sequence

from packtrain.plans import Plan, Step, make_plan as plan_of
from packtrain.strategies.command import check_budget, main

DEFAULTS = {"ranks": 1, "packs_per_rank": 4, "max_tokens": 4096, "chunk": 1000, "seed": 0}


def pack(examples: Sequence[int], lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    packs: list[list[int]] = []
    spaces: list[tuple[int, int]] = []  # (tokens left, pack), ascending
    for example in sorted(examples, key=lambda e: -lengths[e]):
        place = bisect.bisect_left(spaces, (lengths[example], -1))
        if place == len(spaces):
            space, number = max_tokens, len(packs)
            packs.append([])
        else:
            space, number = spaces.pop(place)
        packs[number].append(example)
        bisect.insort(spaces, (space - lengths[example], number))
    return packs


def make_plan(lengths: Sequence[int], ranks: int, packs_per_rank: int, max_tokens: int, chunk: int, seed: int) -> Plan:
    """packs_per_rank: of an optimizer step, one after another as micro-batches."""
    check_budget(lengths, max_tokens)
    packs: list[list[int]] = []
    for begin in range(0, len(lengths), chunk):
        packs += pack(range(begin, min(begin + chunk, len(lengths))), lengths, max_tokens)
    random.Random(seed).shuffle(packs)
    steps: list[Step] = []
    for begin in range(0, len(packs), ranks * packs_per_rank):
        of_step = packs[begin:begin + ranks * packs_per_rank]
        of_step += [[] for _ in range(-len(of_step) % ranks)]
        steps.append([of_step[rank::ranks] for rank in range(ranks)])
    return plan_of([steps], lengths)


if __name__ == "__main__":
    main(make_plan, "Best-fit decreasing packing, as TRL's packing_strategy='bfd'.", DEFAULTS)
