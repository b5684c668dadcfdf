"""The peer's own balanced batches: transformers' `batch_rebalance` on the examples of a plan."""

import json


def assignments(lengths, num_ranks, num_micro_batches):
    """Indices of `lengths` for each rank and micro-batch, by transformers' sampler with one optimizer batch."""
    from transformers.trainer_pt_utils import BatchRebalanceSampler  # transformers 5.17 or later
    return [list(BatchRebalanceSampler(lengths, len(lengths), num_ranks, num_micro_batches, shuffle=False, rank=rank))
            for rank in range(num_ranks)]


def rebalance(plan):
    """Returns a `packtrain plan --json` whose steps have the same examples, given to ranks and micro-batches by
    transformers. Every rank has as many micro-batches in each step as it has at most in `plan`."""
    num_micro_batches = max(len(rank) for step in plan["steps"] for rank in step["ranks"])
    steps = []
    for step in plan["steps"]:
        pieces = [piece for rank in step["ranks"] for micro_batch in rank for piece in micro_batch]
        lengths = [length for _, _, length in pieces]
        chosen = assignments(lengths, len(step["ranks"]), num_micro_batches)
        steps.append(step | {"ranks": [[[pieces[index] for index in micro_batch] for micro_batch in rank]
                                       for rank in chosen]})
    return plan | {"strategy": "batch_rebalance", "steps": steps}


def write_rebalanced(source, path):
    """Writes rebalance() of the plan in file `source` to `path`."""
    with open(source, encoding="utf-8") as file:
        plan = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rebalance(plan), file)
