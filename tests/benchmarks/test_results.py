"""benchmarks/results: adapters and all weights from the same models, and their table."""

import json
import os
import subprocess
import sys

import pytest
from folders import ROOT

RESULTS = os.path.join(ROOT, "benchmarks", "results")

# Stands in for packtrain. The loss is the learning rate plus the seed.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
settings = dict(word.split("=", 1) for word in sys.argv[3:] if "=" in word)
if sys.argv[1] == "export":
    out = sys.argv[sys.argv.index("--out") + 1]
    os.makedirs(out)
    open(os.path.join(out, "config.json"), "w").close()
elif sys.argv[1] == "evaluate":
    print(json.dumps({"loss": 9.0}))
else:
    os.makedirs(settings["run.output"])
    loss = float(settings.get("optimizer.learning_rate", 0)) + float(settings["run.seed"])
    with open(os.path.join(settings["run.output"], "metrics.jsonl"), "w") as stream:
        stream.write(json.dumps({"step": 7, "validation_loss": loss}) + "\\n")
"""


@pytest.fixture
def lab(tmp_path):
    program = tmp_path / "packtrain"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(*words):
        line = [sys.executable, os.path.join(RESULTS, "adapters.py"), "--program", program, "--out", tmp_path, "--runs",
                tmp_path / "runs", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads((tmp_path / "adapters.json").read_text())

    return run


def test_adapters_train_at_ten_times_the_rates_of_all_weights_but_with_rslora_at_the_same(lab):
    _, results = lab("--seeds", "2")
    rates = {}
    for run in results["runs"]:
        rates.setdefault(run["method"], set()).add(run["rate"])
    assert len(rates) == 5 and len(results["runs"]) == 30
    whole = rates.pop("all weights")
    assert rates.pop("LoRA, rank 256, rsLoRA") == whole
    for found in rates.values():
        assert sorted(found) == pytest.approx([10 * rate for rate in sorted(whole)])
    assert results["before"] == {"llama": 9.0}


def test_finished_runs_are_kept(lab):
    first, results = lab("--seeds", "1")
    again, same = lab("--seeds", "1")
    assert same == results
    assert "LoRA-rank-16" in first and "LoRA-rank-16" not in again


def test_the_table_compares_the_best_rates_seed_by_seed(tmp_path):
    def run(method, rate, losses):
        return [{"model": "llama", "method": method, "rate": rate, "seed": seed, "num_steps": 1, "validation_loss": loss}
                for seed, loss in enumerate(losses)]

    runs = [*run("all weights", 0.1, [3.0, 4.0]), *run("all weights", 0.2, [2.0, 3.0]),
            *run("LoRA, rank 16", 1, [2.5, 3.5]), *run("LoRA, rank 16", 2, [7.0, 7.0])]
    (tmp_path / "adapters.json").write_text(json.dumps({"device": "CPU", "before": {"llama": 8.0}, "runs": runs}))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: adapters -->\nold\n<!-- end -->\nafter\n")
    subprocess.run([sys.executable, os.path.join(RESULTS, "report.py"), tmp_path, "--page", page], check=True)
    text = page.read_text()
    assert "| llama, all weights | 0.1, 0.2 | 3.5000 ± 0.7071 | 2.5000 ± 0.7071 | - | - |" in text
    assert "| llama, LoRA, rank 16 | 1, 2 | 3.0000 ± 0.7071 | 7.0000 ± 0.0000 | - | +0.5000 ± 0.0000 |" in text
    assert "Validation loss before: llama 8.0000." in text
    assert "old" not in text and text.startswith("before") and text.endswith("after\n")
