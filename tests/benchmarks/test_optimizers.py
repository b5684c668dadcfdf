"""benchmarks/results/optimizers.py: validation loss of optimizers at equal tokens and at equal time."""

import json
import os
import subprocess
import sys

import pytest
from folders import ROOT

RESULTS = os.path.join(ROOT, "benchmarks", "results")
sys.path.insert(0, RESULTS)
import curves  # noqa: E402
import launching  # noqa: E402
import optimizer_tables  # noqa: E402

# Stands in for packtrain-run: 40 steps of 1,000 tokens, an evaluation after each 10th. Muon's loss falls twice as fast
# as AdamW's, and its steps take twice the time; Sophia's loss stays high. The first step of each start takes 100 s.
# BROKEN_AT in the environment is the step after which the program saves and ends, as if it was asked to stop.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
settings = dict(word.split("=", 1) for word in sys.argv[5:])
name = settings.get("optimizer.name", "adamw")
rate = float(settings["optimizer.learning_rate"])
folder = settings["run.output"]
checkpoint = os.path.join(folder, "checkpoints", "step")
os.makedirs(os.path.dirname(checkpoint), exist_ok=True)
begin = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
with open(os.path.join(folder, "metrics.jsonl"), "a") as stream:
    for step in range(begin + 1, 41):
        record = {"step": step, "loss": 1.0, "num_tokens": 1000, "device": os.environ.get("CUDA_VISIBLE_DEVICES"),
                  "step_time_s": 100 if step == begin + 1 else 2 if name == "muon" else 1}
        stream.write(json.dumps(record) + "\\n")
        if step % 10 == 0:
            speed = {"adamw": 1, "muon": 2, "sophia": 0}[name]
            loss = 10 - 0.1 * speed * step + float(settings["run.seed"]) + 100 * (rate - 0.002)
            stream.write(json.dumps({"step": step, "validation_loss": loss}) + "\\n")
        if step == int(os.environ.get("BROKEN_AT", 0)):
            open(checkpoint, "w").write(str(step))
            sys.exit(75)
"""


@pytest.fixture
def lab(tmp_path):
    program = tmp_path / "packtrain-run"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(*words, code=0, **environment):
        line = [sys.executable, os.path.join(RESULTS, "optimizers.py"), "--launcher", program, "--out",
                tmp_path / "runs", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def row(output, recipe):
    line = next(line for line in output.splitlines() if line.startswith(f"| {recipe} |"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_equal_tokens_are_read_by_step_and_equal_time_by_seconds(lab):
    output = lab("--seeds", "2", "--recipes", "adamw@2e-3,muon@2e-3")
    adamw, muon = row(output, "adamw@2e-3"), row(output, "muon@2e-3")
    assert adamw[2:6] == ["10.5000 ± 0.7071", "9.5000 ± 0.7071", "8.5000 ± 0.7071", "7.5000 ± 0.7071"]
    assert muon[2:6] == ["9.5000 ± 0.7071", "7.5000 ± 0.7071", "5.5000 ± 0.7071", "3.5000 ± 0.7071"]
    # AdamW ends after 40 s. Muon has then trained 20 of its 40 steps.
    assert "40.0 s of training steps, when adamw@2e-3 ends" in output
    assert adamw[6] == "7.5000 ± 0.7071" and muon[6] == "7.5000 ± 0.7071"
    assert adamw[7:9] == ["1000.0", "1,000"] and muon[7:9] == ["2000.0", "500"]


def test_steps_to_the_loss_of_the_best_adamw(lab):
    output = lab("--seeds", "1", "--recipes", "adamw@2e-3,adamw@4e-3,muon@2e-3,sophia@2e-3")
    assert "steps to the last loss of adamw@2e-3" in output
    assert [row(output, recipe)[-1] for recipe in ("adamw@2e-3", "adamw@4e-3", "muon@2e-3", "sophia@2e-3")] == \
        ["40", "not reached", "20", "not reached"]


def test_finished_runs_are_kept(lab):
    assert "seed 1: exit code 0" in lab("--seeds", "1", "--recipes", "adamw@2e-3")
    assert "exit code" not in lab("--seeds", "1", "--recipes", "adamw@2e-3")


def test_a_stopped_run_is_resumed_and_its_table_is_that_of_a_whole_one(lab):
    whole = lab("--seeds", "1", "--recipes", "muon@2e-3", "--study", "125m")
    words = ("--seeds", "2", "--recipes", "muon@2e-3", "--study", "125m")
    assert "seed 2: stopped, to be resumed" in lab(*words, code=1, BROKEN_AT="15")
    assert row(lab(*words), "muon@2e-3")[4:6] == ["5.5000 ± 0.7071", "3.5000 ± 0.7071"]
    assert row(whole, "muon@2e-3")[7] == "2000.0"


def test_a_run_that_failed_begins_again(lab, tmp_path):
    folder = tmp_path / "runs" / "30m" / "adamw@2e-3-1"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 41, "step_time_s": 1, "num_tokens": 1}) + "\n")
    assert row(lab("--seeds", "1", "--recipes", "adamw@2e-3"), "adamw@2e-3")[5] == "7.0000"
    assert len(launching.read_lines(folder)) == 44


def test_a_run_of_another_process_is_left_to_it(lab, tmp_path):
    with launching.claim(str(tmp_path / "runs" / "30m" / "adamw@2e-3-1")) as mine:
        assert mine
        output = lab("--seeds", "2", "--recipes", "adamw@2e-3", "--gpu", "1", code=1)
    assert "seed 2: exit code 0" in output and "seed 1" not in output
    assert {line.get("device", "1") for line in launching.read_lines(tmp_path / "runs" / "30m" / "adamw@2e-3-2")} == {"1"}


def test_nothing_starts_after_the_given_seconds(lab):
    assert "exit code" not in lab("--recipes", "adamw@2e-3", "--seconds", "0", code=1)


def test_a_run_is_asked_to_stop_in_time(tmp_path):
    program = ["bash", "-c", "trap 'exit 75' TERM; while true; do sleep 0.05; done"]
    assert launching.start(program, str(tmp_path / "log"), seconds=0.2) == 75


def test_a_recipe_needs_a_rate(tmp_path):
    done = subprocess.run([sys.executable, os.path.join(RESULTS, "optimizers.py"), "--recipes", "muon", "--out", tmp_path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "such as muon@2e-3" in done.stderr


def test_a_position_outside_of_evaluations_has_no_loss():
    points = [(10, 4.0), (20, 2.0)]
    assert [curves.interpolate(points, at) for at in (5, 10, 15, 20, 21)] == [None, 4.0, 3.0, 2.0, None]
    assert [curves.first_reach(points, loss) for loss in (5.0, 3.0, 2.0, 1.0)] == [10, 15, 20, None]


def test_sizes_have_the_same_computation():
    for size in optimizer_tables.SIZES.values():
        num_steps = int(size.settings[-1].partition("=")[2])
        computation = 6 * size.num_parameters * num_steps * optimizer_tables.STEP_TOKENS
        assert computation == pytest.approx(optimizer_tables.COMPUTATION, rel=0.002)
