"""The sampler of transformers that balances batches, as benchmarks/train uses it."""

from folders import ROOT  # noqa: F401  # sets the path

import rebalance


def test_transformers_rebalances_the_same_examples():
    lengths = [900, 30, 500, 20, 700, 60, 40, 10, 300, 80, 90, 100]
    pieces = [[index, 0, length] for index, length in enumerate(lengths)]
    plan = {"strategy": "padding_free", "steps": [{"ranks": [[pieces[:3], pieces[3:6]], [pieces[6:]]]}]}
    found = rebalance.rebalance(plan)
    ranks = found["steps"][0]["ranks"]
    assert found["strategy"] == "batch_rebalance" and [len(rank) for rank in ranks] == [2, 2]
    assert sorted(piece for rank in ranks for micro_batch in rank for piece in micro_batch) == sorted(pieces)
    most = [max(sum(length for _, _, length in micro_batch) for micro_batch in rank) for rank in ranks]
    assert max(most) < 1430, "the first rank had 1,430 tokens in a micro-batch"
