"""Starts and ends the program many times, in every way. No process or file of it remains."""

import os
import signal

import pytest
import rotation
from runs import steps
from watch import ranks_of, wait_for_step, wait_until

NUM_STARTS = 50 if rotation.turn_of_run() is None else 12
SETTINGS = ["run.max_steps=2", "run.num_epochs=9", "checkpoint.save_final=false", "data.validation="]
ENDLESS = ["run.max_steps=100000", "run.num_epochs=100000"]


def assert_no_process(lab, name):
    wait_until(lambda: not ranks_of(lab.folder / f"{name}.yaml"), f"the end of all processes of {name}")


def test_runs_in_a_row_leave_no_resources_in_use(lab):
    first = lab.run("start-0", *SETTINGS, ranks=2)
    for number in range(1, NUM_STARTS):
        run = lab.run(f"start-{number}", *SETTINGS, ranks=1 + number % 2)
        assert sorted(steps(run)) == [1, 2] and not list((run / "progress").iterdir())
        assert_no_process(lab, f"start-{number}")
        assert [line["loss"] for line in steps(run).values()] == pytest.approx(
            [line["loss"] for line in steps(first).values()], rel=2e-5)


def test_a_run_ended_by_force_leaves_no_process(lab):
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGQUIT):
        name = f"forced-{number}"
        process = lab.start(name, *ENDLESS, ranks=3)
        wait_for_step(lab.folder / "runs" / name, 2)
        os.kill(ranks_of(lab.folder / f"{name}.yaml")[2], number)
        lab.finish(process)
        assert_no_process(lab, name)


def test_a_job_is_refused_in_the_folder_of_one_that_trains(lab):
    first = lab.start("shared", *ENDLESS, ranks=2)
    wait_for_step(lab.folder / "runs" / "shared", 2)
    pids = ranks_of(lab.folder / "shared.yaml")
    code, _, err = lab.finish(lab.start("shared", *ENDLESS))
    assert code == 64, err
    assert f"another job is at work in {lab.folder / 'runs' / 'shared'} (process {pids[0]} on host " in err \
        or f"(process {pids[1]} on host " in err, err
    os.kill(pids[0], signal.SIGTERM)
    assert lab.finish(first)[0] == 75
    assert not list((lab.folder / "runs" / "shared" / "progress").iterdir())


def test_of_two_jobs_started_at_the_same_moment_exactly_one_trains(lab):
    names = [f"pair-{number}" for number in range(6)]
    pairs = [[lab.start(name, *ENDLESS), lab.start(name, *ENDLESS)] for name in names]
    for name, pair in zip(names, pairs):
        wait_until(lambda pair=pair: any(process.poll() is not None for process in pair), "one of a pair ends")
        loser = next(process for process in pair if process.poll() is not None)
        (winner,) = [process for process in pair if process is not loser]
        code, _, err = lab.finish(loser)
        assert code == 64, err
        assert f"(process {winner.pid} on host " in err
        wait_for_step(lab.folder / "runs" / name, 2)
        winner.send_signal(signal.SIGTERM)
        code, _, err = lab.finish(winner)
        assert code == 75, err
        run = lab.folder / "runs" / name
        assert sorted(steps(run)) == list(range(1, max(steps(run)) + 1))
        assert not list((run / "progress").iterdir())


def has_sign_of(pid, progress):
    try:
        return any(f'"pid":{pid},' in path.read_text() for path in progress.glob("*.json"))
    except FileNotFoundError:  # a sign of the job before, removed meanwhile
        return False


def wait_for_line(process, text):
    """Reads the process's standard error as far as the line that holds the text."""
    read = []
    for line in process.stderr:
        read.append(line)
        if text in line:
            return
    raise AssertionError("".join(read))


def test_a_job_follows_on_one_that_was_killed_and_waits_for_one_that_ends(lab):
    progress = lab.folder / "runs" / "followed" / "progress"
    first = lab.start("followed", *ENDLESS, ranks=2)
    wait_for_step(lab.folder / "runs" / "followed", 2)
    os.kill(ranks_of(lab.folder / "followed.yaml")[1], signal.SIGKILL)
    lab.finish(first)
    assert list(progress.iterdir())
    second = lab.start("followed", *ENDLESS)
    wait_until(lambda: has_sign_of(second.pid, progress), "the second job's sign of life")
    third = lab.start("followed", "run.max_steps=5")
    wait_for_line(third, "waiting for its end")
    second.kill()
    _, _, err = lab.finish(second)
    assert "another job" not in err, err
    code, _, err = lab.finish(third)
    assert code == 0, err
