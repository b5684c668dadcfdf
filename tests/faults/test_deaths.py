"""Ranks that die, whichever and whenever: the launcher starts the run again, and nothing is lost."""

import os
import signal
import subprocess

import pytest
from runs import PATIENCE_S, PROGRAM, REPO, assert_bit_equal, slow_from, steps
from watch import parent_of, ranks_of, saved_steps, wait_for_step, wait_until

SETTINGS = ["run.max_steps=10", "checkpoint.save_steps=3", "checkpoint.keep=10", "data.validation="]


def launch(lab, name, *overrides, ranks=2, restarts=5, timeout=PATIENCE_S):
    """(exit code, standard error) of the run under packtrain-run."""
    done = subprocess.run([REPO / "launch" / "packtrain-run", "-n", str(ranks), "--restarts", str(restarts), "--program",
                           PROGRAM, "train", lab.config(name), *overrides], capture_output=True, text=True,
                          timeout=timeout)
    return done.returncode, done.stderr


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("unbroken", *SETTINGS, ranks=2)


PHASES = [("load", 1, 0), ("step", 1, 1), ("step", 7, 0), ("update", 8, 1), ("save", 6, 0), ("save", 6, 1),
          ("shutdown", 1, 1)]


@pytest.mark.parametrize("phase, step, rank", PHASES)
def test_a_death_in_any_phase_loses_nothing(lab, unbroken, phase, step, rank):
    name = f"dies-in-{phase}-{step}-{rank}"
    code, err = launch(lab, name, *SETTINGS, "fault.kind=abort", f"fault.phase={phase}", f"fault.step={step}",
                       f"fault.rank={rank}")
    assert code == 0, err
    assert f"injected on rank {rank}" in err and err.count("restart 1 of") == 1 and "restart 2 of" not in err
    assert_bit_equal(lab.folder / "runs" / name, unbroken)


@pytest.mark.parametrize("number, rank", [(signal.SIGKILL, 0), (signal.SIGSEGV, 2)])
def test_a_killed_rank_ends_all_and_the_run_resumes(lab, number, rank):
    name = f"killed-{number}-{rank}"
    settings = ["checkpoint.save_steps=3", "data.validation=", "run.max_steps=40", "run.num_epochs=9"]
    process = subprocess.Popen([REPO / "launch" / "packtrain-run", "-n", "3", "--restarts", "3", "--program", PROGRAM,
                                "train", lab.config(name), *settings, *slow_from(6, 35)],
                               stderr=subprocess.PIPE, text=True)
    run = lab.folder / "runs" / name
    wait_for_step(run, 4)
    pids = ranks_of(lab.folder / f"{name}.yaml")
    assert sorted(pids) == [0, 1, 2]
    os.kill(pids[rank], number)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()), "the end of all ranks")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert f"ended by SIG{signal.Signals(number).name[3:]}" in err and "restart 1 of at most 3" in err
    assert_bit_equal(run, lab.run(f"whole-{number}-{rank}", *settings, ranks=3))


def test_ranks_that_outlive_mpirun_never_meet_those_of_the_next_job(lab, unbroken):
    """A rank that is stopped outlives everything but SIGKILL."""
    process = subprocess.Popen([REPO / "launch" / "packtrain-run", "-n", "2", "--restarts", "3", "--program", PROGRAM,
                                "train", lab.config("orphans"), *SETTINGS, *slow_from(5, 6, seconds=5)],
                               stderr=subprocess.PIPE, text=True)
    run = lab.folder / "runs" / "orphans"
    wait_for_step(run, 4)
    pids = ranks_of(lab.folder / "orphans.yaml")
    os.kill(pids[1], signal.SIGSTOP)
    os.kill(parent_of(pids[0]), signal.SIGKILL)
    wait_until(lambda: set(ranks_of(lab.folder / "orphans.yaml").values()) - set(pids.values()), "the next job's ranks")
    assert not set(ranks_of(lab.folder / "orphans.yaml").values()) & set(pids.values())
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and "restart 1 of at most 3" in err, err
    assert_bit_equal(run, unbroken)


def test_a_job_without_progress_is_given_up(lab):
    """No step is ever done in time."""
    code, err = launch(lab, "hopeless", "guard.start_timeout_s=2", "debug.stream_delay_us=900000", restarts=9)
    assert code == 93, err
    assert "three restarts in a row saved nothing (last exit code 72)" in err


def test_what_was_saved_counts_as_progress(lab):
    at_once = "checkpoint.asynchronous=false"  # else the save of step 6 may still be in flight at step 8
    code, err = launch(lab, "progress", *SETTINGS, at_once, "fault.kind=abort", "fault.step=8")
    assert code == 0 and "restart 1 of at most 5 (saved step 6)" in err, err
    assert saved_steps(lab.folder / "runs" / "progress") == [3, 6, 9, 10]
    assert sorted(steps(lab.folder / "runs" / "progress")) == list(range(1, 11))
