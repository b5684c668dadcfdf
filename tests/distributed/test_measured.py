"""cost: measured. A slower rank gets less work, the loss stays, and a resumed run plans by the same numbers."""

import json

import numpy
import pytest
from runs import losses, steps, take_checkpoint

MEASURED = ["batch.cost=measured", "batch.max_tokens_per_micro_batch=8192"]
SAVING = ["checkpoint.save_steps=7", "checkpoint.keep=10"]
SLOW = "debug.stream_delay_us=25000"  # of each block's forward and backward


def entries(run_folder):
    return json.loads((run_folder / "plan.json").read_text())["entries"]


@pytest.fixture(scope="session")
def slowed(lab):
    """Rank 1 of two is slow."""
    return lab.run("slowed", *MEASURED, *SAVING, ranks=2, rank_overrides={1: [SLOW]})


def test_a_slow_rank_gets_less_work(lab, slowed):
    (entry,) = entries(slowed)
    assert entry["cost_source"] == "measured" and entry["num_ranks"] == 2
    fast, slow = entry["speeds"]
    assert slow < 0.9 < 1.1 < fast
    share = [line["token_imbalance"] / 2 for line in steps(slowed).values()]  # of the busier rank
    assert numpy.mean(share) == pytest.approx(fast / (fast + slow), abs=0.05)


def test_who_does_the_work_does_not_change_the_loss(lab, slowed):
    reference = lab.run("not-measured", MEASURED[1], ranks=2)
    numpy.testing.assert_allclose(losses(slowed), losses(reference), rtol=2e-5)


def test_measuring_changes_neither_weights_nor_optimizer_state(lab):
    # On one rank, in one micro-batch, no plan can differ: any difference would be the measuring's.
    assert losses(lab.run("measured-1", *MEASURED)) == losses(lab.run("flops-1", MEASURED[1]))


def test_a_resumed_run_keeps_what_was_measured(lab, slowed):
    take_checkpoint(slowed, 7, lab.folder / "runs" / "slowed-resumed")
    resumed = lab.run("slowed-resumed", *MEASURED, *SAVING, ranks=2)  # no rank is slow now
    assert entries(resumed) == entries(slowed)
    assert losses(resumed) == losses(slowed)[7:]


def test_another_number_of_ranks_measures_again(lab, slowed):
    take_checkpoint(slowed, 7, lab.folder / "runs" / "remeasured")
    resumed = lab.run("remeasured", *MEASURED, *SAVING, ranks=4)
    first, second = entries(resumed)
    assert first == entries(slowed)[0]
    assert (second["from_step"], second["num_ranks"], second["cost_source"]) == (7, 4, "measured")
    assert len(second["speeds"]) == 4
    numpy.testing.assert_allclose(losses(resumed), losses(slowed)[7:], rtol=2e-5)


def test_measured_costs_are_dropped_when_no_longer_asked_for(lab, slowed):
    take_checkpoint(slowed, 14, lab.folder / "runs" / "unmeasured")
    first, second = entries(lab.run("unmeasured", MEASURED[1], ranks=2))
    assert (first["cost_source"], second["cost_source"]) == ("measured", "flops")
    assert second["speeds"] == []


def test_what_was_found_is_said_once_a_run(lab):
    code, _, err = lab.finish(lab.start("said", *MEASURED, "run.max_steps=1", ranks=2))
    assert code == 0, err
    assert err.count("measured cost:") == 1
