"""Requests to stop, whoever gets them and whenever: the run is saved and continues as if it had not been asked."""

import fcntl
import os
import pty
import signal
import subprocess
import termios

import pytest
from runs import PATIENCE_S, PROGRAM, REPO, assert_bit_equal, slow_from, steps
from watch import ranks_of, saved_steps, wait_for_step, wait_until

SETTINGS = ["run.max_steps=30", "run.num_epochs=9", "checkpoint.save_steps=8", "checkpoint.keep=10", "data.validation="]
SLOW = slow_from(10, 21)  # to the end


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("unbroken", *SETTINGS, ranks=2)


def assert_continues(lab, name, unbroken):
    assert_bit_equal(lab.run(name, *SETTINGS, ranks=2), unbroken)


def begun(lab, name, *more):
    """The run with two steps done; its ranks' process ids."""
    process = lab.start(name, *SETTINGS, *SLOW, *more, ranks=2)
    wait_for_step(lab.folder / "runs" / name, 2)
    return process, ranks_of(lab.folder / f"{name}.yaml")


@pytest.mark.parametrize("number, asked", [(signal.SIGTERM, [0]), (signal.SIGTERM, [1]), (signal.SIGTERM, [0, 1]),
                                           (signal.SIGINT, [0, 1]), (signal.SIGUSR1, [1]), (signal.SIGHUP, [0])])
def test_ranks_that_are_asked_save_together(lab, unbroken, number, asked):
    name = f"asked-{number}-{len(asked)}{asked[0]}"
    process, pids = begun(lab, name)
    for rank in asked:
        os.kill(pids[rank], number)
    code, _, err = lab.finish(process)
    assert code == 75, err
    run = lab.folder / "runs" / name
    assert saved_steps(run)[-1] == max(steps(run)) < 30
    assert_continues(lab, name, unbroken)


def test_a_closed_terminal_has_the_run_saved_but_not_under_nohup(lab):
    def command(name):
        return [PROGRAM, "train", lab.config(name), *SETTINGS, *SLOW]

    runs = lab.folder / "runs"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ignoring = subprocess.Popen(["nohup", *command("nohup")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=environment)
    wait_for_step(runs / "nohup", 2)
    ignoring.send_signal(signal.SIGHUP)
    ours, terminal = pty.openpty()
    process = subprocess.Popen(command("closed"), stdin=terminal, stdout=terminal, stderr=terminal, env=environment,
                               start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(terminal)
    wait_for_step(runs / "closed", 2)
    os.close(ours)
    assert process.wait(PATIENCE_S) == 75
    assert saved_steps(runs / "closed")[-1] == max(steps(runs / "closed")) < 30
    assert ignoring.wait(PATIENCE_S) == 0
    assert_bit_equal(lab.run("closed", *SETTINGS), runs / "nohup")


@pytest.mark.parametrize("phase, step", [("load", 1), ("step", 1), ("step", 5), ("update", 5), ("save", 8)])
def test_a_request_in_any_phase_is_answered(lab, unbroken, phase, step):
    name = f"asked-in-{phase}-{step}"
    code, _, err = lab.finish(lab.start(name, *SETTINGS, "fault.kind=stop", f"fault.phase={phase}",
                                        f"fault.step={step}", "fault.rank=1", ranks=2))
    assert code == 75 and "injected on rank 1" in err, err
    assert saved_steps(lab.folder / "runs" / name)[-1] == {"load": 1, "save": 9}.get(phase, step)
    assert_continues(lab, name, unbroken)


def test_a_request_at_the_very_end_ends_a_run_that_is_done(lab, unbroken):
    code, _, err = lab.finish(lab.start("asked-at-end", *SETTINGS, "fault.kind=stop", "fault.phase=shutdown", ranks=2))
    assert code == 0 and "injected on rank 0" in err, err
    assert_bit_equal(lab.folder / "runs" / "asked-at-end", unbroken)


def test_a_second_signal_ends_a_rank_immediately_and_the_last_checkpoint_is_good(lab, unbroken):
    process, pids = begun(lab, "asked-twice")
    wait_for_step(lab.folder / "runs" / "asked-twice", 9)
    os.kill(pids[1], signal.SIGSTOP)  # so that the first request is not answered in between
    os.kill(pids[1], signal.SIGTERM)
    os.kill(pids[1], signal.SIGINT)
    os.kill(pids[1], signal.SIGCONT)
    code, _, err = lab.finish(process)
    assert code not in (0, 75), err
    assert_continues(lab, "asked-twice", unbroken)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_launcher_that_is_asked_has_the_ranks_save(lab, unbroken, number):
    name = f"launcher-{number}"
    process = subprocess.Popen([REPO / "launch" / "packtrain-run", "-n", "2", "--restarts", "3", "--program", PROGRAM,
                                "train", lab.config(name), *SETTINGS, *SLOW], stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    wait_for_step(lab.folder / "runs" / name, 2)
    process.send_signal(number)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 75 and "restart 1 of" not in err, err
    assert_continues(lab, name, unbroken)


def test_a_step_may_last_longer_than_the_launcher_waits_before_it_asks_again(lab, unbroken):
    process = subprocess.Popen([REPO / "launch" / "packtrain-run", "-n", "2", "--program", PROGRAM, "train",
                                lab.config("long-step"), *SETTINGS, *slow_from(3, 28, seconds=3)],
                               stderr=subprocess.PIPE, text=True)
    run = lab.folder / "runs" / "long-step"
    wait_for_step(run, 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 75 and "stopped on request after step" in err, err
    assert saved_steps(run)
    assert_continues(lab, "long-step", unbroken)


def test_a_grace_that_is_too_short_costs_the_steps_since_the_last_checkpoint(lab, unbroken):
    """The run is killed while it saves on request. Saves are synchronous, so that the folder of step 8 is complete
    after step 9."""
    process, pids = begun(lab, "short-grace", "checkpoint.asynchronous=false")
    run = lab.folder / "runs" / "short-grace"
    wait_for_step(run, 9)
    os.kill(pids[0], signal.SIGTERM)
    wait_until(lambda: saved_steps(run)[-1:] > [8] or list(run.glob("checkpoints/step-*.tmp")), "the save on request")
    for pid in pids.values():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    lab.finish(process)
    assert_continues(lab, "short-grace", unbroken)


def test_a_request_to_save_is_answered_without_stopping(lab, unbroken):
    """Slow steps: the run looks once a second. No other save is due before the end, so that one earlier was asked for."""
    process, _ = begun(lab, "save-now", "checkpoint.save_steps=1000", *slow_from(3, 15))
    run = lab.folder / "runs" / "save-now"
    (run / "checkpoint-now").touch()
    code, _, err = lab.finish(process)
    assert code == 0, err
    asked = [step for step in saved_steps(run) if step < 30]
    assert len(asked) == 1 and not (run / "checkpoint-now").exists()
    assert_bit_equal(run, unbroken)
