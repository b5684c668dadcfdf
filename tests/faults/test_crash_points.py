"""Kills a process, or makes a call fail, at each of the calls of a save in turn. The disk then holds the old checkpoint
or the new one, complete. The run that resumes from it ends as an undisturbed run does."""

import os
import shutil
import subprocess

import pytest
from runs import MPIRUN, PROGRAM, steps, weights

SETTINGS = ["run.max_steps=4", "checkpoint.save_steps=2", "checkpoint.asynchronous=false", "data.validation=",
            "guard.step_timeout_s=60"]
STRACE = shutil.which("strace")


@pytest.fixture(scope="module")
def unbroken(lab):
    return {ranks: lab.run(f"whole-{ranks}", *SETTINGS, ranks=ranks) for ranks in (1, 2)}


def command(lab, name, ranks, traced, inject, file):
    """The run with one rank under strace, which injects; where `file` is given, into calls on that one of step 2."""
    program = [PROGRAM, "train", str(lab.config(name)), *SETTINGS]
    log = str(lab.folder / f"{name}.strace")
    call = inject.split(":")[0]
    strace = [STRACE, "-f", "-q", "-o", log, "-e", f"trace={call}", "-e", f"inject={inject}"]
    if file:
        strace += ["-P", str(lab.folder / "runs" / name / "checkpoints" / "step-2.tmp" / file)]
    if ranks == 1:
        return [*strace, *program]
    words = list(MPIRUN)
    for rank in range(ranks):
        words += [":"] * (rank > 0) + ["-np", "1", *(strace if rank == traced else []), *program]
    return words


def run_with(lab, name, ranks, traced, inject, file):
    """Returns True where the fault was injected."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command(lab, name, ranks, traced, inject, file), capture_output=True, text=True, timeout=120,
                          env=environment)
    trace = (lab.folder / f"{name}.strace").read_text()
    struck = "(INJECTED)" in trace or "+++ killed by SIGKILL" in trace
    assert struck or done.returncode == 0, done.stderr
    return struck


def assert_goes_on(lab, name, ranks, whole, where):
    run = lab.run(name, *SETTINGS, ranks=ranks)
    found, wanted = weights(run), weights(whole)
    assert all((found[key] == wanted[key]).all() for key in wanted), where
    for number, line in steps(run).items():
        assert line["loss"] == steps(whole)[number]["loss"], where
    left = {path.name for path in (run / "checkpoints").iterdir()}
    assert "step-4" in left and left <= {"step-2", "step-4"}, where  # a refused save may be survived


def strike_everywhere(lab, unbroken, call, effect, ranks=1, traced=0, stride=1, file=None):
    """Injects a fault at call 1, 1 + stride, ... until the run makes no such call. Returns the number of faults."""
    number = 1
    while True:
        name = f"{call.replace(',', '-')}-{effect.split('=')[1]}-{ranks}-{traced}-{number}"
        if not run_with(lab, name, ranks, traced, f"{call}:{effect}:when={number}", file):
            return (number - 1) // stride
        assert_goes_on(lab, name, ranks, unbroken[ranks], f"{call} {number}")
        shutil.rmtree(lab.folder / "runs" / name)
        number += stride


# call, how often at least a run of two saves makes it, each how manieth is struck
CALLS = [("fsync", 8, 1), ("rename,renameat,renameat2", 4, 1), ("mkdir,mkdirat", 4, 1), ("write", 8, 23)]


@pytest.mark.skipif(STRACE is None, reason="strace is not there: launch/setup --lint installs it")
@pytest.mark.parametrize("call, least, stride", CALLS, ids=[call.split(",")[0] for call, _, _ in CALLS])
def test_a_kill_at_any_call_loses_nothing(lab, unbroken, call, least, stride):
    assert strike_everywhere(lab, unbroken, call, "signal=KILL", stride=stride) >= least


@pytest.mark.skipif(STRACE is None, reason="strace is not there: launch/setup --lint installs it")
@pytest.mark.parametrize("call, error", [("fsync", "EIO"), ("rename,renameat,renameat2", "EIO"), ("write", "ENOSPC")],
                         ids=["fsync", "rename", "write"])
def test_an_error_of_any_call_loses_nothing(lab, unbroken, call, error):
    assert strike_everywhere(lab, unbroken, call, f"error={error}", stride=31 if call == "write" else 1) >= 4


@pytest.mark.skipif(STRACE is None, reason="strace is not there: launch/setup --lint installs it")
@pytest.mark.parametrize("traced", [0, 1])
@pytest.mark.parametrize("call, error", [("fsync", "EIO"), ("write,writev,pwrite64", "ENOSPC")], ids=["fsync", "write"])
def test_an_error_on_one_of_two_ranks_loses_nothing(lab, unbroken, call, error, traced):
    """In the writing of that rank's own file."""
    file = f"rank-0000{traced}-of-00002.safetensors"
    assert strike_everywhere(lab, unbroken, call, f"error={error}", ranks=2, traced=traced, file=file) >= 1


@pytest.mark.skipif(STRACE is None, reason="strace is not there: launch/setup --lint installs it")
@pytest.mark.parametrize("traced", [0, 1])
def test_a_kill_of_one_of_two_ranks_loses_nothing(lab, unbroken, traced):
    assert strike_everywhere(lab, unbroken, "fsync", "signal=KILL", ranks=2, traced=traced, stride=2) >= 2
