"""packtrain-run: flags, environment, exit codes and signals, with a stand-in for packtrain."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

HERE = pathlib.Path(__file__).parent
RUN = HERE.parent.parent / "launch" / "packtrain-run"
FAKE = HERE / "fake_packtrain"
LIMIT_S = 200  # for what takes seconds


def start(*arguments, **environment):
    # A pipeline of CI may ignore SIGINT, which a shell cannot undo.
    return subprocess.Popen(
        [RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


def run(*arguments, **environment):
    process = start(*arguments, **environment)
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


def wait_for_line(stream, wanted):
    while wanted not in (line := stream.readline()):
        assert line, f"ended without {wanted}"


def wait_until_signals_are_kept(process):
    """Blocked or handled, from when env has blocked them on."""
    kept = 0
    while not kept >> signal.SIGTERM - 1 & 1:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        assert process.poll() is None
        kept = sum(int(mask, 16) for mask in re.findall(r"^Sig(?:Blk|Cgt):\t(\w+)", status, re.MULTILINE))


def test_every_rank_gets_the_arguments_and_train_is_the_default_subcommand():
    code, output, _ = run("-n", "2", "--program", FAKE, "some/config.yaml", "run.seed=3")
    assert code == 0
    for rank in (0, 1):
        assert f"rank {rank} " in output
    assert output.count("arguments ['train', 'some/config.yaml', 'run.seed=3']") == 2


def test_another_subcommand_is_passed_on():
    code, output, _ = run("-n", "1", "--program", FAKE, "evaluate", "config.yaml", "--json")
    assert code == 0
    assert "arguments ['evaluate', 'config.yaml', '--json']" in output


def test_more_ranks_than_cores_are_allowed():
    num_ranks = len(os.sched_getaffinity(0)) + 2
    code, output, errors = run("-n", str(num_ranks), "--program", FAKE, "train", "ok")
    assert code == 0, errors
    assert output.count("rank ") == num_ranks
    assert "threads 1 " in output


def test_the_cores_are_shared_out_unless_the_user_says_otherwise():
    _, output, _ = run("-n", "1", "--program", FAKE, "train", "ok", OMP_NUM_THREADS="3")
    assert "threads 3 " in output


def test_our_environment_variables_reach_the_ranks():
    _, output, _ = run("-n", "1", "--program", FAKE, "train", "ok", PACKTRAIN_TEST_TAG="here")
    assert "tag here " in output


def test_the_exit_code_is_the_failing_ranks_and_the_others_are_ended():
    code, _, _ = run("-n", "2", "--program", FAKE, "train", "fail")  # by far not as long as the others wait
    assert code == 65


def test_a_killed_rank_is_named_by_its_signal():
    code, _, errors = run("-n", "2", "--program", FAKE, "train", "die")
    assert code == 137
    assert "SIGKILL" in errors


def test_a_job_that_dies_is_started_again_as_long_as_it_saves():
    code, output, errors = run("-n", "2", "--restarts", "9", "--program", FAKE, "train", "save-and-die-until=4")
    assert code == 0, errors
    assert errors.count("restart ") == 4 and "restart 1 of at most 9 (saved step 4)" in errors
    assert output.count("rank 1 ") >= 1


def test_restarts_that_save_nothing_are_counted():
    code, _, errors = run("-n", "1", "--restarts", "2", "--program", FAKE, "train", "exit=72")
    assert code == 72
    assert errors.count("restart ") == 2 and "restart 2 of at most 2 (nothing saved yet)" in errors


def test_what_is_saved_refills_the_budget_of_restarts():
    code, _, errors = run("-n", "1", "--restarts", "1", "--program", FAKE, "train", "save-and-die-until=3")
    assert code == 0, errors
    assert errors.count("restart 1 of at most 1 ") == 3


@pytest.mark.parametrize("code", [69, 72, 73])
def test_a_job_that_saves_nothing_is_given_up(code):
    status, _, errors = run("-n", "1", "--restarts", "9", "--program", FAKE, "train", f"exit={code}")
    assert status == 93
    assert "three restarts in a row saved nothing" in errors and f"exit code {code}" in errors
    assert errors.count(": restart ") == 3


@pytest.mark.parametrize("code", [64, 65, 66, 70, 71, 74, 75])
def test_what_would_only_fail_again_is_not_started_again(code):
    status, _, errors = run("-n", "1", "--restarts", "9", "--program", FAKE, "train", f"exit={code}")
    assert status == code
    assert "restart " not in errors


def test_a_stop_between_restarts_ends_the_job():
    process = start("-n", "1", "--restarts", "9999", "--program", FAKE, "train", "save-and-die-until=9999")
    wait_for_line(process.stderr, "restart 1 of at most 9999 (saved step 2)")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode in (75, 137)  # where the next one has begun, and dies


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_lets_the_ranks_save(number):
    process = start("-n", "2", "--program", FAKE, "train", "save")
    for _ in range(2):
        wait_for_line(process.stdout, "ready\n")
    process.send_signal(number)
    process.send_signal(number)  # twice changes nothing
    output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, errors
    assert "saved" in output


@pytest.mark.parametrize("delay_s", [0, 0.05, 0.1, 0.3])
def test_a_stop_before_the_ranks_are_ready_is_not_lost(delay_s):
    process = start("-n", "2", "--program", FAKE, "train", "save")
    wait_until_signals_are_kept(process)
    time.sleep(delay_s)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, errors


def test_a_stop_reaches_ranks_whose_mpirun_does_not_forward_it(tmp_path):
    deaf = tmp_path / "mpirun"
    deaf.write_text(f"#!/bin/sh\ntrap : USR1\n'{shutil.which('mpirun')}' \"$@\" &\n"
                    "while :; do wait $!; status=$?; [ $status = 138 ] || exit $status; done\n")
    deaf.chmod(0o755)
    process = start("-n", "2", "--program", FAKE, "train", "save", PATH=f"{tmp_path}:{os.environ['PATH']}")
    for _ in range(2):
        wait_for_line(process.stdout, "ready\n")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75, errors
    assert "saved" in output


def test_a_subcommand_with_nothing_to_save_ends_immediately():
    process = start("-n", "2", "--program", FAKE, "evaluate", "wait")
    wait_for_line(process.stdout, "rank ")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "ended at once by SIGTERM" in errors


def test_sigquit_ends_training_immediately():
    process = start("-n", "2", "--program", FAKE, "train", "wait")
    wait_for_line(process.stdout, "rank ")
    process.send_signal(signal.SIGQUIT)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGQUIT
    assert "ended at once by SIGQUIT, this start had saved no checkpoint" in errors


def test_doctor_runs_before_each_start_with_the_arguments_of_training():
    code, output, errors = run("-n", "2", "--restarts", "1", "--doctor", "--program", FAKE,
                               "save-and-die-until=1", "run.seed=3", PACKTRAIN_TEST_DOCTOR="0")
    assert code == 0, errors
    # What doctor says goes to standard error: standard output is training's.
    assert errors.count("rank 0 ") == 2 and "arguments ['doctor', 'save-and-die-until=1', 'run.seed=3']" in errors
    assert "'doctor'" not in output


def test_doctor_gets_its_limit_as_an_option_and_twice_the_time():
    code, _, errors = run("-n", "1", "--doctor", "--doctor-limit", "7", "--program", FAKE, "train", "ok",
                          PACKTRAIN_TEST_DOCTOR="0")
    assert code == 0, errors
    assert "arguments ['doctor', '--limit', '7', 'ok']" in errors
    code, output, errors = run("-n", "1", "--doctor", "--doctor-limit", "1", "--program", FAKE, "train", "ok",
                               PACKTRAIN_TEST_DOCTOR="0", PACKTRAIN_TEST_DOCTOR_SECONDS="60")
    assert code == 72 and "arguments ['train'" not in output, errors


def test_what_doctor_finds_slow_does_not_keep_training_from_starting():
    code, output, errors = run("-n", "1", "--doctor", "--program", FAKE, "train", "ok", PACKTRAIN_TEST_DOCTOR="76")
    assert code == 0
    assert "doctor found something slow" in errors and "arguments ['train', 'ok']" in output


@pytest.mark.parametrize("doctors", [64, 69, 72])
def test_what_doctor_finds_broken_ends_the_job_with_its_code(doctors):
    code, output, errors = run("-n", "1", "--restarts", "5", "--doctor", "--program", FAKE, "train", "ok",
                               PACKTRAIN_TEST_DOCTOR=str(doctors))
    assert code == doctors
    assert f"doctor ended with exit code {doctors}: training does not start" in errors
    assert "arguments ['train'" not in output and "restart " not in errors


def test_doctor_is_for_training_alone_and_only_on_request():
    for arguments in (("--doctor", "--program", FAKE, "evaluate", "c.yaml"), ("--program", FAKE, "train", "ok")):
        code, _, errors = run("-n", "1", *arguments, PACKTRAIN_TEST_DOCTOR="69")
        assert code == 0 and "doctor" not in errors


def test_a_stop_while_doctor_runs_ends_the_job():
    process = start("-n", "1", "--doctor", "--program", FAKE, "train", "ok", PACKTRAIN_TEST_DOCTOR="0",
                    PACKTRAIN_TEST_DOCTOR_SECONDS="100")
    wait_for_line(process.stderr, "doctor")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 75
    assert "arguments ['train'" not in output


@pytest.mark.parametrize("arguments", [[], ["-n", "2"], ["-n", "0", "a.yaml"], ["-n", "x", "a.yaml"],
                                       ["--bogus", "-n", "1", "a.yaml"], ["-n", "1", "--restarts", "x", "a.yaml"], ["a.yaml"]])
def test_wrong_usage_is_a_configuration_error(arguments):
    code, _, errors = run(*arguments)
    assert code == 64
    assert "usage" in errors


def test_a_misspelt_option_and_one_that_stands_too_late_are_named():
    code, _, errors = run("-n", "1", "--restrts", "2", "a.yaml")
    assert code == 64 and "unknown option --restrts, did you mean --restarts?" in errors
    code, _, errors = run("-n", "1", "--program", FAKE, "a.yaml", "run.seed=1", "--restarts", "2")
    assert code == 64 and "--restarts is packtrain-run's own: write it before a.yaml" in errors
    code, output, _ = run("-n", "1", "--program", FAKE, "train", "--help")
    assert code == 0 and "arguments ['train', '--help']" in output


def test_a_program_that_is_not_there_is_named():
    code, _, errors = run("-n", "1", "--program", "/nowhere/packtrain", "a.yaml")
    assert code == 69
    assert "/nowhere/packtrain" in errors
