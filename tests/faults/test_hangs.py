"""Runs that stand still end by themselves and say which rank is missing."""

import os
import signal
import time

import pytest
from runs import assert_bit_equal
from watch import assert_missed_in_time, ranks_of, silences_s, wait_for_step

LIMIT_S = 10  # a step that a busy machine holds up for some seconds is no hang
LIMITS = [f"guard.step_timeout_s={LIMIT_S}", "guard.start_timeout_s=120"]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_stops_making_progress_is_named(lab, rank):
    process = lab.start(f"hang-{rank}", *LIMITS, "fault.kind=hang", "fault.step=4", f"fault.rank={rank}", ranks=3)
    code, _, err = lab.finish(process)
    assert code == 72, err
    assert f"rank {rank} runs, but has begun" in err
    assert "latest collectives" in err and "under way" in err and "step 4" in err


def test_a_stopped_process_is_missed_within_the_limit(lab):
    process = lab.start("frozen", *LIMITS, "run.max_steps=100000", "run.num_epochs=100000", ranks=2)
    wait_for_step(lab.folder / "runs" / "frozen", 3)
    os.kill(ranks_of(lab.folder / "frozen.yaml")[1], signal.SIGSTOP)
    code, _, err = lab.finish(process)
    assert code == 72, err
    assert "rank 1 has not run for" in err
    assert_missed_in_time(err, LIMIT_S)


def test_a_slow_rank_is_left_alone(lab):
    settings = ["run.max_steps=8", "checkpoint.save_steps=4"]
    slow = lab.run("slow", *settings, *LIMITS, "fault.kind=slow", "fault.step=4", "fault.rank=1", ranks=2)
    assert_bit_equal(slow, lab.run("quick", *settings, ranks=2))
    assert not list((slow / "progress").iterdir())


def test_a_rank_that_dies_ends_the_run_immediately(lab):
    process = lab.start("dead", "fault.kind=abort", "fault.step=5", "fault.rank=1", "checkpoint.save_steps=2", ranks=3)
    code, _, err = lab.finish(process)  # which waits less than guard.step_timeout_s
    assert code not in (0, 72, 75) and not silences_s(err), err
    assert "injected on rank 1 at step 5" in err
    resumed = lab.run("dead", "checkpoint.save_steps=2", ranks=3)
    assert_bit_equal(resumed, lab.run("alive", "checkpoint.save_steps=2", ranks=3))


@pytest.mark.parametrize("command, words", [("evaluate", ["--json"]), ("score", ["--log-probs"])])
def test_an_evaluation_ends_by_the_time_without_progress_and_not_by_its_length(lab, command, words):
    store = lab.make_store(f"endless-{command}", 200_000, 12)
    process = lab.start(command, f"data.validation={store}", f"guard.checkpoint_timeout_s={LIMIT_S}", *words, ranks=2,
                        command=command)
    while "evaluating" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(LIMIT_S + 5)
    assert process.poll() is None
    os.kill(ranks_of(lab.folder / f"{command}.yaml")[1], signal.SIGSTOP)
    code, _, err = lab.finish(process)
    assert code == 72, err
    assert "guard.checkpoint_timeout_s is 10" in err
    assert_missed_in_time(err, LIMIT_S)
