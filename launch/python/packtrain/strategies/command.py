"""The command line and the steps that the strategies share."""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from packtrain.plans import Plan, read_lengths


def shuffled_steps(num_examples: int, global_batch_size: int, seed: int) -> Iterator[list[int]]:
    """The next `global_batch_size` examples of a shuffle. The last step has the rest."""
    order = list(range(num_examples))
    random.Random(seed).shuffle(order)
    for begin in range(0, num_examples, global_batch_size):
        yield order[begin:begin + global_batch_size]


def check_budget(lengths: Sequence[int], max_tokens: int) -> None:
    if max(lengths, default=0) > max_tokens:
        raise ValueError(f"an example has {max(lengths)} tokens, more than max_tokens = {max_tokens}: raise max_tokens")


def main(make_plan: Callable[..., Plan], description: str, defaults: dict[str, int]) -> None:
    """`defaults`: the further arguments of make_plan, with their defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--store", required=True, help="token store of `packtrain prepare`")
    parser.add_argument("--out", required=True, help="the plan file to write")
    for name, value in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value, help=f"default {value}")
    arguments: dict[str, Any] = vars(parser.parse_args())
    plan = make_plan(read_lengths(arguments["store"]), **{name: arguments[name] for name in defaults})
    plan.write(arguments["out"])
    print(f"{len(plan.steps)} steps of {plan.num_examples} examples: {arguments['out']}")
