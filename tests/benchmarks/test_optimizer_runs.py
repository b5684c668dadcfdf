"""benchmarks/results/optimizers.py with packtrain itself, a small model on the CPU."""

import os
import subprocess
import sys

import pytest
from folders import ROOT

import programs

RESULTS = os.path.join(ROOT, "benchmarks", "results")
sys.path.insert(0, RESULTS)
import launching  # noqa: E402

MODEL = "{model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2, " \
        "num_key_value_heads: 1, vocab_size: 128, max_position_embeddings: 256, rms_norm_eps: 1.0e-5, " \
        "tie_word_embeddings: true}"
SETTINGS = ("data.max_length=64", "batch.global_batch_tokens=256", "batch.max_tokens_per_micro_batch=128",
            "precision.compute=fp32", "precision.reduce=fp32", "run.evaluate_steps=0.25")
RUN = """#!/usr/bin/env bash
exec "%s/launch/packtrain-run" "${@:1:2}" --program "%s" "${@:3}"
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    program = os.environ["PACKTRAIN_PROGRAM"]
    monkeypatch.setattr(programs, "PACKTRAIN", program)
    launcher = tmp_path / "packtrain-run"
    launcher.write_text(RUN % (ROOT, program))
    launcher.chmod(0o755)
    for side in ("train", "validation"):
        programs.prepare_store(str(tmp_path / "stores" / side), "lognormal:3,0.5,4,60", 60, 128)

    def run(out, *words, code=0):
        """optimizers.py with the options and settings `words`."""
        line = [sys.executable, os.path.join(RESULTS, "optimizers.py"), "--launcher", launcher, "--stores",
                tmp_path / "stores", "--out", tmp_path / out, "--seeds", "1", *words, *SETTINGS]
        done = subprocess.run(line, capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def losses(folder):
    return {line["step"]: line["validation_loss"] for line in launching.read_lines(folder)
            if line.get("validation_loss") is not None}


def test_a_stopped_run_continues_to_the_losses_of_a_whole_one(lab, tmp_path):
    small = (f"model.config={MODEL}", "run.max_steps=8")
    table = lab("whole", "--recipes", "muon@2e-3,sophia@1e-3", *small)
    assert table.count("| 1 | ") == 2 and "elements unclipped" in table
    parts = ("--recipes", "sophia@1e-3", *small)
    assert "stopped, to be resumed" in lab("parts", *parts, "fault.kind=stop", "fault.step=5", code=1)
    lab("parts", *parts)
    whole, parts = (losses(tmp_path / out / "30m" / "sophia@1e-3-1") for out in ("whole", "parts"))
    assert sorted(whole) == [2, 4, 6, 8] and whole == parts
    assert not (tmp_path / "parts" / "30m" / "sophia@1e-3-1" / "checkpoints").exists()


def test_sizes_have_the_parameters_that_the_table_says(lab, tmp_path):
    table = lab("sizes", "--study", "sizes", "--recipes", "8m", "run.max_steps=2")
    assert "| 8m | 7,883,520 | " in table
    log = (tmp_path / "sizes" / "sizes" / "8m-1.log").read_text()
    assert "llama: 7.9 million parameters in 5 layers" in log
