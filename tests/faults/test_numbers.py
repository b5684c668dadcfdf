"""Steps whose numbers are wrong: never applied; the run stops, skips them or goes back."""

import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint

NAN = ["fault.kind=nan_gradient", "fault.step=6"]
SAVES = ["checkpoint.save_steps=4", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("unbroken", *SAVES, ranks=2)


@pytest.fixture(scope="session")
def skipped(lab):
    return lab.run("skipped", *SAVES, *NAN, "fault.rank=1", "guard.non_finite=skip", ranks=2)


def test_a_nan_of_one_rank_is_applied_by_none_and_stops_the_run(lab, unbroken):
    code, _, err = lab.finish(lab.start("stopped", *SAVES, *NAN, "fault.rank=1", ranks=2))
    assert code == 71
    assert "step 6" in err and "not applied" in err and "injected on rank 1 at step 6" in err
    resumed = lab.run("stopped", *SAVES, ranks=2)  # from step 4
    assert_bit_equal(resumed, unbroken)


def test_a_skipped_step_is_counted_and_training_continues(skipped, unbroken):
    lines = steps(skipped)
    assert sorted(lines) == list(range(1, 21))
    assert [number for number, line in lines.items() if line["num_skipped_steps"]] == [6]
    assert lines[6]["loss"] == steps(unbroken)[6]["loss"]
    assert lines[7]["loss"] != steps(unbroken)[7]["loss"]
    assert losses(skipped)[-1] < losses(skipped)[0]


def test_a_run_that_skipped_resumes_bit_equal(lab, skipped):
    take_checkpoint(skipped, 8, lab.folder / "runs" / "skipped-resumed")
    resumed = lab.run("skipped-resumed", "guard.non_finite=skip", ranks=2)
    for number, line in steps(resumed).items():
        assert line["loss"] == steps(skipped)[number]["loss"]


@pytest.mark.parametrize("saves", [SAVES, ["checkpoint.save_steps=0"]], ids=["to a checkpoint", "to the start"])
def test_a_rewound_run_ends_as_one_that_skipped(lab, skipped, saves):
    name = "rewound" + str(len(saves))
    code, _, err = lab.finish(lab.start(name, *saves, *NAN, "fault.rank=1", "guard.non_finite=rewind", ranks=2))
    assert code == 0, err
    assert "step 6 was refused: going back to " + ("the newest checkpoint" if len(saves) == 2 else "the start") in err
    run = lab.folder / "runs" / name
    numbers = [number for number, line in steps(run).items() if line["num_skipped_steps"]]
    assert numbers == [6]
    assert losses(run)[6:] == losses(skipped)[6:]


@pytest.mark.parametrize("policy", ["skip", "rewind"])
def test_a_run_that_never_recovers_stops(lab, policy):
    code, _, err = lab.finish(lab.start(f"lost-{policy}", "optimizer.learning_rate=1e30", "optimizer.max_grad_norm=0",
                                        "schedule.warmup_steps=0", f"guard.non_finite={policy}",
                                        "guard.max_skipped_steps=3"))
    assert code == 71
    assert "guard.max_skipped_steps" in err and "not applied" in err


def test_without_spikes_watching_for_them_changes_no_bit(lab, unbroken):
    run = lab.run("watched", *SAVES, "guard.spikes=skip", "guard.spike_window=8", "guard.spike_threshold=50", ranks=2)
    assert_bit_equal(run, unbroken)
