"""benchmarks/results/precision.py: recipes of precision from the same seeds, and their paired differences."""

import math
import os
import subprocess
import sys

import pytest
from folders import ROOT

RESULTS = os.path.join(ROOT, "benchmarks", "results")
sys.path.insert(0, RESULTS)
import paired  # noqa: E402

# Stands in for packtrain-run. A loss is the seed plus the recipe's harm. Example 0 has 1 token, example 1 none, example
# 2 has 3 tokens; the whole harm of a recipe is in example 2.
PROGRAM = """#!/usr/bin/env python3
import array, json, os, struct, sys
words = sys.argv[3:]
HARM = {"bf16": 0.0, "fp8_tensor": 0.25, "fp8_block": 0.5}
if words[0] == "train":
    settings = dict(word.split("=", 1) for word in words[2:])
    recipe = settings.get("precision.linear", "bf16")
    os.makedirs(os.path.join(settings["run.output"], "checkpoints", "step-2"))
    loss = float(settings["run.seed"]) + HARM[recipe]
    with open(os.path.join(settings["run.output"], "metrics.jsonl"), "w") as stream:
        for step in range(1, 61):
            stream.write(json.dumps({"step": step, "loss": 9.0 if step == 55 else 1 + step % 2, "step_time_s": 1}) + "\\n")
        stream.write(json.dumps({"step": 60, "validation_loss": loss}) + "\\n")
else:
    recipe, seed = os.path.basename(words[1]).rsplit("-", 1)
    third = -(float(seed) + HARM[recipe] * 4 / 3)
    tensors = {"log_probs": array.array("f", [-float(seed), third, third, third]),
               "offsets": array.array("q", [0, 1, 1, 4])}
    header, data = {}, b""
    for name, values in tensors.items():
        part = values.tobytes()
        header[name] = {"dtype": "F32" if values.typecode == "f" else "I64", "shape": [len(values)],
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(words[words.index("--out") + 1], "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + data)
"""


@pytest.fixture
def lab(tmp_path):
    program = tmp_path / "packtrain-run"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(*words):
        line = [sys.executable, os.path.join(RESULTS, "precision.py"), "--launcher", program, "--out", tmp_path / "runs",
                *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def row(output, recipe):
    line = next(line for line in output.splitlines() if line.startswith(f"| {recipe} |"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_differences_have_an_interval_by_seed_and_one_by_example(lab, tmp_path):
    output = lab("--study", "fortunes", "--seeds", "3", "--by-example", "--jobs", "2")
    assert row(output, "fp8_tensor")[:5] == ["fp8_tensor", "3", "2.2500", "+0.2500", "+0.2500 to +0.2500"]
    # Sums of differences 0 and 1 of examples with 1 and 3 tokens: sqrt(2 (0.25^2 + 0.25^2)) / 4 is the error.
    half = 1.960 * 0.5 / 4
    assert row(output, "fp8_tensor")[6] == f"{0.25 - half:+.4f} to {0.25 + half:+.4f}"
    assert not list((tmp_path / "runs").glob("*/*/checkpoints"))


def test_finished_runs_are_kept_and_missing_losses_of_examples_are_computed(lab):
    assert "seed 1: exit code 0" in lab("--seeds", "1")
    assert "exit code" not in lab("--seeds", "1")
    assert "seed 1: exit code 0" in lab("--seeds", "1", "--by-example")


def test_a_step_far_above_those_before_is_a_spike(lab):
    assert row(lab("--seeds", "2", "--recipes", "bf16"), "bf16")[-1] == "2"


def test_an_interval_by_seed_follows_students_t():
    found = paired.by_seed([0.1, 0.2, 0.3])
    error = 0.1 / math.sqrt(3)
    assert found.mean == pytest.approx(0.2)
    assert found.half_interval == pytest.approx(4.303 * error)
    assert found.smallest_found == pytest.approx((4.303 + 1.061) * error)


def test_different_validation_sets_are_refused():
    first, second = paired.ExampleLosses([1.0], [1]), paired.ExampleLosses([1.0], [2])
    with pytest.raises(AssertionError, match="different validation sets"):
        paired.by_example([first], [second])


def test_the_mean_of_examples_is_that_of_their_tokens():
    assert paired.ExampleLosses([2.0, 3.0], [1, 4]).mean == pytest.approx(1.0)
