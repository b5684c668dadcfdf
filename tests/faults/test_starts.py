"""The program started and ended over and over, in every way: nothing of it stays behind."""

import os
import signal
import time

import pytest
from runs import steps
from watch import ranks_of, wait_for_step

NUM_STARTS = 50
SETTINGS = ["run.max_steps=2", "run.num_epochs=9", "checkpoint.save_final=false", "data.validation="]


def assert_no_process(name):
    deadline = time.monotonic() + 10
    while ranks_of(f"{name}.yaml"):
        assert time.monotonic() < deadline, ranks_of(f"{name}.yaml")
        time.sleep(0.05)


def test_fifty_runs_in_a_row_leave_nothing_behind(lab):
    first = lab.run("start-0", *SETTINGS, ranks=2)
    for number in range(1, NUM_STARTS):
        run = lab.run(f"start-{number}", *SETTINGS, ranks=1 + number % 2)
        assert sorted(steps(run)) == [1, 2] and not list((run / "progress").iterdir())
        assert_no_process(f"start-{number}")
        assert [line["loss"] for line in steps(run).values()] == pytest.approx(
            [line["loss"] for line in steps(first).values()], rel=2e-5)


def test_a_run_ended_by_force_leaves_no_process_behind(lab):
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGQUIT):
        name = f"forced-{number}"
        process = lab.start(name, "run.max_steps=5000", "run.num_epochs=5000", ranks=3)
        wait_for_step(lab.folder / "runs" / name, 2)
        os.kill(ranks_of(f"{name}.yaml")[2], number)
        lab.finish(process)
        assert_no_process(name)
