"""packtrain sweep --together: adapters of one run are the rows that runs of their own would be."""

import csv
import json
import os
import pathlib
import subprocess

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
TINY = {
    "model.config": {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                     "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 512,
                     "max_position_embeddings": 512, "rms_norm_eps": 1.0e-6, "tie_word_embeddings": True},
    "samples.steps": 0, "data.max_length": 256, "batch.max_tokens_per_micro_batch": 256,
    "batch.global_batch_size": 8, "run.max_steps": 6, "run.evaluate_steps": 0, "metrics.serve": False,
    "adapter.kind": "lora", "optimizer.epsilon": 1.0e-3, "precision.compute": "fp32", "precision.reduce": "fp32"}


def packtrain(*arguments, exit_code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=REPO, timeout=250,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == exit_code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    for name, seed in (("a", 1), ("b", 2)):
        packtrain("prepare", "--synthetic", "lognormal:3.5,0.8,4,200", "--examples", 60, "--vocab-size", 512,
                  "--seed", seed, "--out", folder / name)
    return folder


@pytest.fixture(scope="module")
def sweep(folder):
    """Writes a sweep file and runs it."""
    def run(name, varied, *arguments, exit_code=0, **settings):
        path = folder / f"{name}.yaml"
        settings = {**TINY, "data.train": str(folder / "a"), "data.validation": str(folder / "b"), **settings}
        settings = {key: value for key, value in settings.items() if f'"{key}"' not in json.dumps(varied)}
        path.write_text(json.dumps({
            "sweep": {"configs": "configs/quickstart.yaml", "output": str(folder / name)},
            "settings": settings, **varied}))
        return packtrain("sweep", path, *arguments, exit_code=exit_code)
    return run


def rows(folder):
    with open(folder / "results.csv", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def steps_of(run):
    lines = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "grad_norm" in line]


@pytest.fixture(scope="module")
def three(folder):
    """Adapters of other ranks, rates, data and batches."""
    keys = ("adapter.name", "adapter.rank", "optimizer.learning_rate", "data.train", "batch.global_batch_size")
    entries = [("small", 2, 3.0e-2, str(folder / "a"), 8), ("large", 8, 1.0e-2, str(folder / "a"), 8),
               ("other", 4, 2.0e-2, str(folder / "b"), 5)]
    return {"list": [dict(zip(keys, entry, strict=True)) for entry in entries]}


@pytest.fixture(scope="module")
def together(folder, sweep, three):
    output, _ = sweep("joined", three, "--together")
    return output, rows(folder / "joined")


def test_adapters_have_the_rows_of_runs_of_their_own(folder, sweep, three, together):
    sweep("apart", three)
    own = rows(folder / "apart")
    _, joined = together
    assert len(joined) == len(own) == 3
    assert joined[0].keys() == own[0].keys()
    for one, alone in zip(joined, own, strict=True):
        for key in ("adapter.name", "adapter.rank", "data.train", "status", "steps", "tokens", "tokens_per_step",
                    "peak_learning_rate"):
            assert one[key] == alone[key], key
        for key in ("loss", "validation_loss"):
            assert float(one[key]) == pytest.approx(float(alone[key]), rel=5e-6), key
    assert len({row["loss"] for row in joined}) == 3
    assert [row["steps"] for row in joined] == ["6"] * 3


def test_losses_of_all_steps_are_those_of_runs_of_their_own(folder, sweep, three, together):
    sweep("apart", three)
    _, joined = together
    for one, alone in zip(joined, rows(folder / "apart"), strict=True):
        losses = [step["adapters"][one["adapter.name"]]["loss"] for step in steps_of(one["folder"])]
        assert losses == pytest.approx([step["loss"] for step in steps_of(alone["folder"])], rel=5e-6)


def test_one_job_trains_them_and_the_table_counts_adapters(folder, together):
    output, joined = together
    assert len({row["folder"] for row in joined}) == 1
    assert len(list((folder / "joined" / "runs").iterdir())) == 1
    assert "3 of 3 adapters finished; lowest validation loss: " in output
    assert {row["name"].partition("/")[2] for row in joined} == {"small", "large", "other"}


def test_a_finished_sweep_does_not_train_again(sweep, three, together):
    _, errors = sweep("joined", three, "--together")
    assert "1 of 1 runs are finished" in errors
    assert "starts" not in errors


def test_the_best_adapters_configuration_trains_it_alone(folder, together):
    _, joined = together
    best = min(joined, key=lambda row: float(row["validation_loss"]))
    packtrain("train", folder / "joined" / "best.yaml", f"run.output={folder}/best")
    steps = steps_of(folder / "best")
    total = sum(step["num_loss_tokens"] for step in steps)
    loss = sum(step["loss"] * step["num_loss_tokens"] for step in steps) / total
    assert loss == pytest.approx(float(best["loss"]), rel=5e-6)


def test_a_dry_run_shows_which_adapters_train_together(folder, sweep):
    output, _ = sweep("dry", {"product": {"data.max_length": [128, 256], "adapter.rank": [4, 8]}}, "--together",
                      "--dry-run")
    lines = output.splitlines()
    assert lines[0].startswith("not begun     together-max_length=128-") and lines[0].endswith(": 2 adapters")
    assert lines[1].split() == ["rank-4", "data.max_length=128", "adapter.rank=4"]
    assert lines[2].split() == ["rank-8", "data.max_length=128", "adapter.rank=8"]
    assert lines[3].startswith("not begun     together-max_length=256-")
    assert lines[6] == ("Each value of data.max_length is in a run of its own: adapters of one run share it.")
    assert lines[7].startswith("2 runs, 2 to train, 1 ranks each")
    assert not (folder / "dry").exists()


def test_what_several_adapters_cannot_have_is_refused_before_a_run_starts(folder, sweep):
    _, errors = sweep("refused", {"product": {"adapter.rank": [4, 8]}}, "--together", exit_code=64,
                      **{"checkpoint.keep_best": 1})
    assert "2 adapters together: checkpoint.keep_best is not possible with several adapters" in errors
    assert "Their best steps differ: set it to 0. Or leave --together out" in errors
    assert not (folder / "refused").exists()
