"""benchmarks/train: how ours is run and read, and what its tables and the soak test conclude."""

import importlib.machinery
import importlib.util
import os
import random
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
for folder in ("train", "peers"):
    sys.path.insert(0, os.path.join(ROOT, "benchmarks", folder))

import cases
import programs
import report
import shapes

# Stands in for packtrain-run: writes a record for each step of the run.
TRAINING = """#!/usr/bin/env python3
import json, sys, time
settings = dict(a.split("=", 1) for a in sys.argv if "=" in a)
assert settings["checkpoint.save_final"] == "false"
for step in range(1, int(settings["run.max_steps"]) + 1):
    with open(settings["run.output"] + "/metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "step_time_s": 0.01}) + "\\n")
"""
FAILING = """#!/usr/bin/env python3
import sys
sys.exit("no such config" if "train" in sys.argv else 0)
"""


def launcher(tmp_path, monkeypatch, text):
    path = tmp_path / "packtrain-run"
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setattr(programs, "LAUNCHER", str(path))


def train_steps(tmp_path, timeout):
    return programs.train_steps(cases.CASES["1b-4096"], str(tmp_path / "run"), "store", 20, timeout,
                                [])


def test_a_run_gives_the_steps_that_were_asked_for_and_not_its_last(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, TRAINING)
    steps = train_steps(tmp_path, timeout=60)
    assert [step["step"] for step in steps] == list(range(1, 21))


def test_a_run_that_fails_tells_its_last_lines(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, FAILING)
    with pytest.raises(programs.Failure, match="exit code 1: no such config"):
        train_steps(tmp_path, timeout=60)


def test_a_run_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, TRAINING + "time.sleep(60)\n")
    with pytest.raises(programs.Failure, match="longer than 1 s"):
        train_steps(tmp_path, timeout=1)


def test_every_case_has_a_config_and_a_shape():
    for case in cases.CASES.values():
        assert os.path.exists(os.path.join(ROOT, "configs", case.config))
        assert case.shape_arguments()[1] in shapes.SHAPES
        assert shapes.SHAPES[case.shape_arguments()[1]].vocab == case.vocab_size


def test_documents_fill_a_batch_exactly():
    lengths = shapes.draw_lengths(random.Random(0), 16384)
    assert sum(lengths) == 16384
    assert min(lengths[:-1]) >= 8 and max(lengths) <= 4096


def test_the_table_has_ratios_and_names_what_failed():
    case = cases.CASES["1b-4096"]
    results = {"ours": {"tok_s": 60000.0, "tokens": 4096}, "peer": {"error": "out of memory"},
               "chain": {"tok_s": 90000.0}}
    text = report.markdown([case], {case.name: results})
    assert "| 60,000 |  | 90,000 | 0.667 |  |" in text
    assert "1b-4096, peer: out of memory" in text


def load_soak():
    path = os.path.join(ROOT, "benchmarks", "train", "soak")
    loader = importlib.machinery.SourceFileLoader("soak", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("growth, flat", [(0, True), (2**20, False)])
def test_the_soak_test_notices_memory_that_grows(growth, flat):
    steps = [{"step": i, "allocated_memory_bytes": 2**27 + growth * i,
              "reserved_memory_bytes": 2**30} for i in range(1, 101)]
    assert load_soak().check_growth(steps) == flat
