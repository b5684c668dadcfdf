"""packtrain doctor as a program: sound ranks are OK, what is made bad on one of them is named."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
RUN = pathlib.Path(__file__).resolve().parents[3] / "launch" / "packtrain-run"
# In memory where there is such a folder: other tests keep the disk busy.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def doctor(*arguments, ranks=2, cwd=None):
    """(exit code, {check: verdict}, stdout, stderr)"""
    done = subprocess.run([RUN, "-n", str(ranks), "--program", PROGRAM, "doctor", *map(str, arguments)],
                          capture_output=True, text=True, timeout=200, cwd=cwd, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = re.findall(r"^(OK|SLOW|BROKEN) +(\S+)", done.stdout, re.MULTILINE)
    return done.returncode, {check: verdict for verdict, check in found}, done.stdout, done.stderr


@pytest.fixture
def run_folder():
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        yield pathlib.Path(folder)


@pytest.fixture
def config(tmp_path, run_folder):
    """A run's configuration, with a store that is there."""
    store = tmp_path / "store"
    subprocess.run([PROGRAM, "prepare", "--synthetic", "constant:9", "--examples", "9", "--vocab-size",
                    "32", "--out", store], check=True, capture_output=True)
    path = tmp_path / "config.yaml"
    path.write_text(f"data: {{train: {store}}}\nrun: {{output: {run_folder}}}\n")
    return path


def test_a_port_beyond_the_last_is_no_free_port_as_in_a_run(config):
    _, verdicts, out, err = doctor(config, "metrics.port=65535")
    assert verdicts["ports"] != "BROKEN", out + err


@pytest.mark.parametrize("words", [["doctor"], ["train", "c.yaml"]])
def test_messages_of_mpi_are_shown_where_it_cannot_start(words):
    done = subprocess.run([RUN, "-n", "2", "--mca", "btl", "tcpp", "--program", PROGRAM, *words], capture_output=True,
                          text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "mpirun started no rank" in done.stderr and "Component: tcpp" in done.stderr


def test_sound_ranks_are_ok_in_every_line(tmp_path):
    code, verdicts, out, err = doctor(cwd=FAST or tmp_path)
    assert code == 0, out + err
    assert verdicts == dict.fromkeys(["versions", "products", "collectives", "disk", "shared", "clocks",
                                      "ports", "limits"], "OK")
    assert re.search(r"libtorch_cpu.so: /.*/libtorch_cpu.so", out)
    assert re.search(r"products +[\d.e-]+ TFLOP/s in fp32 products \(median of 2, ", out)


def test_one_process_needs_no_mpirun_and_no_gpu(tmp_path):
    done = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=100,
                          cwd=FAST or tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert {check["verdict"] for check in report["checks"]} == {"OK"}
    [rank] = report["ranks"]
    assert rank["gemm_tflops"] > 0 and rank["disk_mb_s"] > 0
    assert "collectives" not in {check["check"] for check in report["checks"]}, "there is nobody to talk to"


@pytest.mark.parametrize("kind, check, verdict, expected_code", [
    ("disk", "disk", "SLOW", 76), ("products", "products", "SLOW", 76), ("clock", "clocks", "SLOW", 76),
    ("folder", "shared", "BROKEN", 69)])
def test_what_is_bad_on_one_rank_is_named(config, run_folder, kind, check, verdict, expected_code):
    code, verdicts, out, _ = doctor(config, "--inject", f"{kind}:1")
    assert code == expected_code, out
    assert verdicts[check] == verdict and verdicts["stores"] == "OK"
    [line] = [line for line in out.splitlines() if line.split()[1:2] == [check]]
    assert "rank 1 on " in line and "rank 0 on " not in line.split("; ", 1)[1]
    advice = out.splitlines()[out.splitlines().index(line) + 1]
    assert advice.startswith(" " * 20) and advice.strip()
    assert list(run_folder.iterdir()) == []  # doctor leaves no file


def test_what_cannot_be_used_is_broken(config, tmp_path):
    code, verdicts, out, _ = doctor(config, f"data.validation={tmp_path}/nowhere",
                                    "run.output=/proc/nothing", "metrics.address=192.0.2.1")
    assert code == 69
    assert {check for check, verdict in verdicts.items() if verdict == "BROKEN"} == {
        "disk", "shared", "stores", "ports"}
    assert f"{tmp_path}/nowhere is missing" in out
    assert "/proc/nothing" in out and "Set run.output" in out
    assert "192.0.2.1" in out and "Set metrics.address" in out


def test_what_hangs_is_ended_and_named(config):
    code, _, _, err = doctor(config, "--inject", "disk:1", "--limit", "3")
    assert code == 72
    assert re.search(r"BROKEN: after 3 s rank \d on \S+ is still at: ", err)


def test_wrong_arguments_are_configuration_errors(config):
    assert doctor(config, "--inject", "disc:1")[0] == 64
    assert doctor("nowhere.yaml", ranks=1)[0] == 64
    assert doctor(config, "run.sed=1", ranks=1)[0] == 64
