"""metrics.report_to: a follower that starts and ends with the run."""

import json
import os
import pathlib
import signal
import sys
import time

import pytest
from checkpoint_programs import wait_for_end
from runs import PATIENCE_S, slow_from, steps

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))

from event_reader import scalars  # the path is set above
from mlflow_stand_in import MLFLOW

SETTINGS = ["run.max_steps=12", "run.evaluate_steps=6", "metrics.report_to=tensorboard"]


def events(run):
    (path,) = (run / "tensorboard" / run.name).iterdir()
    return [(step, values["train/loss"]) for step, _, values in scalars(path) if "train/loss" in values]


def lines(run):
    return [(step, pytest.approx(line["loss"])) for step, line in sorted(steps(run).items())]


@pytest.mark.parametrize("ranks", [1, 2])
def test_tensorboard_has_every_step_when_the_run_ends(lab, ranks):
    run = lab.run(f"board-{ranks}", *SETTINGS, ranks=ranks)
    assert events(run) == lines(run)


def test_a_resumed_run_continues_its_events(lab):
    settings = [*SETTINGS, "checkpoint.save_steps=4"]
    code, _, _ = lab.finish(lab.start("continued", *settings, "fault.kind=abort", "fault.step=7"))
    assert code not in (0, 75)
    run = lab.run("continued", *settings)
    assert [step for step, _ in events(run)] == list(range(1, 13))
    assert events(run) == lines(run)


def test_a_stopped_run_sends_its_last_step(lab):
    process = lab.start("board-stopped", *SETTINGS, *slow_from(3, 9))
    run = lab.folder / "runs" / "board-stopped"
    deadline = time.monotonic() + PATIENCE_S
    while not (run / "metrics.jsonl").exists() or not steps(run):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    code, _, err = lab.finish(process)
    assert code == 75, err
    assert events(run) == lines(run)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of Python packages that the follower finds first."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_missing_package_is_an_error_before_the_first_step(lab, packages, package):
    (packages / f"{package}.py").write_text("raise ImportError('not here')\n")
    name = f"no-{package}"
    code, _, err = lab.finish(lab.start(name, *SETTINGS, f"metrics.report_to=[tensorboard,{package}]"))
    assert code == 64 and f"there is no Python package {package}" in err and f"-m pip install {package}" in err, err
    assert not (lab.folder / "runs" / name / "metrics.jsonl").exists()


def test_mlflow_gets_each_step_once_over_two_starts(lab, packages, monkeypatch, tmp_path):
    (packages / "mlflow.py").write_text(MLFLOW)
    log = tmp_path / "mlflow.log"
    monkeypatch.setenv("MLFLOW_LOG", str(log))
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    settings = [*SETTINGS, "metrics.report_to=[mlflow]", "checkpoint.save_steps=4"]
    code, _, err = lab.finish(lab.start("mlflow", *settings, "fault.kind=stop", "fault.step=7"))
    assert code == 75, err
    run = lab.run("mlflow", *settings)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert entries[:2] == [{"experiment": "mine"}, {"run_id": None, "run_name": "mlflow"}]
    assert entries[2]["name"] == "config.yaml"
    assert {"run_id": "made-up", "run_name": None} in entries and entries[-1] == {"ended": True}
    sent = [(entry["step"], entry["train/loss"]) for entry in entries if "train/loss" in entry]
    assert sent == lines(run)
    assert [entry["step"] for entry in entries if "validation/loss" in entry] == [6, 12]


def test_a_follower_that_dies_is_a_warning_and_the_run_continues(lab, packages, monkeypatch):
    (packages / "wandb.py").write_text("def init(**_): raise RuntimeError('not logged in')\n")
    code, _, err = lab.finish(lab.start("dies", *SETTINGS, "metrics.report_to=[wandb]", *slow_from(2, 3)))
    assert code == 0, err
    assert err.count("metrics.report_to: `packtrain follow` ended with exit code") == 1, err
    run = lab.folder / "runs" / "dies"
    assert sorted(steps(run)) == list(range(1, 13))
    assert "not logged in" in (run / "log" / "follow.log").read_text()


def test_the_follower_ends_when_the_run_is_killed(lab):
    process = lab.start("killed", *SETTINGS, *slow_from(2, 10, 5))
    run = lab.folder / "runs" / "killed"
    deadline = time.monotonic() + PATIENCE_S
    while not (run / "tensorboard").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    followers = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and is_follower(entry, run)]
    assert len(followers) == 1
    process.kill()
    process.wait()
    wait_for_end(followers[0])


def is_follower(process, run):
    try:
        words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(run).encode() in words and any(word.endswith(b"follow.py") for word in words)
