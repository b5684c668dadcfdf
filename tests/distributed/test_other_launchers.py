"""Ranks that torchrun, or nothing but variables, started train as under mpirun: same bits, same words, same ends."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from by_variables import start
from runs import PATIENCE_S, PROGRAM, assert_bit_equal, slow_from, steps

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--no-python"]
SETTINGS = ["run.max_steps=6", "checkpoint.save_steps=2", "checkpoint.keep=10", "data.validation="]


def torchrun(lab, name, *overrides, ranks=2, options=()):
    command = [*TORCHRUN, *options, "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
               "--nproc-per-node", str(ranks), PROGRAM, "train", str(lab.config(name)), *overrides]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lab.started.append(process)
    return process


def wait_for_step(folder, step):
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "metrics.jsonl").exists() or max(steps(folder), default=0) < step:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def rank_with(config, rank):
    """The process id of that rank of a run that torchrun started."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"packtrain") and str(config).encode() in words and \
                    f"RANK={rank}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:  # no process, or one that has ended
            continue
    raise AssertionError(f"no rank {rank} of {config}")


class ByVariables:
    """Ranks without a launcher that watches them: one that ends does not end the others."""

    def __init__(self, lab, name, *overrides, ranks=2):
        self.folder = lab.folder / "runs" / name
        command = [PROGRAM, "train", str(lab.config(name)), *overrides]
        self.ranks = start(ranks, command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lab.started += self.ranks

    def finish(self):
        """(exit codes, standard errors), by rank"""
        errors = [rank.communicate(timeout=PATIENCE_S)[1] for rank in self.ranks]
        return [rank.returncode for rank in self.ranks], errors


@pytest.fixture(scope="module")
def by_mpi(lab):
    return lab.run("by-mpi", *SETTINGS, ranks=2)


def test_variables_alone_give_the_bits_of_mpirun(lab, by_mpi):
    run = ByVariables(lab, "by-variables", *SETTINGS)
    codes, errors = run.finish()
    assert codes == [0, 0], errors
    assert "2 ranks on" in errors[0]
    assert "over tcp" in errors[0]
    assert_bit_equal(run.folder, by_mpi)


def test_a_run_resumes_with_equal_bits_under_another_launcher(lab, by_mpi):
    name = "mpirun-torchrun-mpirun"
    code, _, err = lab.finish(lab.start(name, *SETTINGS, "fault.kind=stop", "fault.step=2", ranks=2))
    assert code == 75, err
    process = torchrun(lab, name, *SETTINGS, "fault.kind=stop", "fault.step=4")
    code, _, err = lab.finish(process)
    assert code == 1, err  # torchrun has one code for all that is not 0
    assert "exitcode  : 75" in err
    assert max(steps(lab.folder / "runs" / name)) < 6
    assert_bit_equal(lab.run(name, *SETTINGS, ranks=2), by_mpi)


def test_torchrun_restarts_a_run_that_lost_a_rank(lab, by_mpi):
    name = "elastic"
    process = torchrun(lab, name, *SETTINGS, *slow_from(3, 2), options=["--max-restarts", "1"])
    wait_for_step(lab.folder / "runs" / name, 3)
    os.kill(rank_with(lab.config(name), 1), signal.SIGKILL)
    code, _, err = lab.finish(process)
    assert code == 0, err
    assert_bit_equal(lab.folder / "runs" / name, by_mpi)


@pytest.mark.parametrize("killed", [0, 2])
def test_a_killed_rank_ends_the_others_within_seconds(lab, killed):
    run = ByVariables(lab, f"killed-{killed}", *SETTINGS, *slow_from(2, 100), "run.max_steps=100", ranks=3)
    wait_for_step(run.folder, 2)
    run.ranks[killed].kill()
    begun = time.monotonic()
    codes, errors = run.finish()
    assert time.monotonic() - begun < 8
    assert codes == [-signal.SIGKILL if rank == killed else 69 for rank in range(3)], errors
    said = "".join(errors)
    assert f"rank {killed} on" in said
    assert "ended without a word: it was killed, or its host is gone" in said
    assert "resumes from its newest checkpoint" in said


def test_an_error_of_all_ranks_is_printed_once_and_keeps_its_code(lab):
    run = ByVariables(lab, "typo-by-variables", "optimiser.learning_rate=1")
    codes, errors = run.finish()
    assert codes == [64, 64]
    assert "".join(errors).count("Did you mean optimizer?") == 1


def test_a_request_to_stop_saves_on_all_ranks(lab):
    run = ByVariables(lab, "stopped-by-variables", *SETTINGS, *slow_from(2, 100, 0.3), "run.max_steps=100")
    wait_for_step(run.folder, 2)
    run.ranks[1].send_signal(signal.SIGTERM)
    codes, errors = run.finish()
    assert codes == [75, 75], errors
    assert (run.folder / "checkpoints" / f"step-{max(steps(run.folder))}").exists()
