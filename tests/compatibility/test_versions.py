"""Stores, checkpoints and losses that earlier versions wrote. Every later version reads them, resumes from them and
gives the same numbers. Each version has a folder, whose README.md says how it was made."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
STORE_DUMP = os.environ["PACKTRAIN_STORE_DUMP"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "--mca", "btl_vader_single_copy_mechanism", "none"]
sys.path.insert(0, str(HERE.parents[1] / "launch" / "python"))

# As golden_losses.json: a processor with other vector units rounds otherwise.
SAME_RANKS = 1e-6
OTHER_RANKS = 2e-5


@pytest.fixture(params=sorted(HERE.glob("v*")), ids=lambda folder: folder.name)
def version(request):
    return request.param


@pytest.fixture
def golden(version):
    return json.loads((version / "golden.json").read_text())


def call(version, *words, ranks=1):
    """In the folder of the version, whose paths are relative."""
    start = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, PROGRAM, *map(str, words)], cwd=version, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_checkpoint(version, run):
    shutil.copytree(version / "checkpoints", run / "checkpoints")
    return run


def assert_as_golden(run, wanted, tolerance):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "grad_norm" in line]
    for name in ("loss", "grad_norm"):
        numpy.testing.assert_allclose([line[name] for line in steps], wanted[name],
                                      rtol=tolerance * (10 if name == "grad_norm" else 1))
    for name in ("num_tokens", "num_loss_tokens"):
        assert [line[name] for line in steps] == wanted[name]
    numpy.testing.assert_allclose(lines[-1]["validation_loss"], wanted["validation_loss"], rtol=tolerance)


def test_a_key_that_the_version_did_not_know_had_its_default(version, tmp_path):
    run = with_checkpoint(version, tmp_path / "run")
    settings = ["schedule.name=warmup_stable_decay", "schedule.decay_ratio=0.5", f"run.output={run}", "metrics.serve=false"]
    done = subprocess.run([PROGRAM, "train", "run.yaml", *settings], cwd=version, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 66, done.stderr
    for part in ['schedule.name: "cosine"', "schedule.decay_ratio: 0.1, this run has 0.5"]:
        assert part in done.stderr, done.stderr


def test_there_are_versions():
    assert [folder.name for folder in sorted(HERE.glob("v*"))][:1] == ["v0.1"]


def _known_to(wanted, found):
    """The members of `found` that `wanted` has, at every depth. Later versions may add others."""
    if isinstance(wanted, dict):
        return {key: _known_to(wanted[key], found[key]) for key in wanted}
    if isinstance(wanted, list) and len(wanted) == len(found):
        return [_known_to(*both) for both in zip(wanted, found)]
    return found


def test_a_store_is_what_it_was(version):
    for name, wanted in json.loads((version / "examples.json").read_text()).items():
        done = subprocess.run([STORE_DUMP, version / name], capture_output=True, text=True, check=True)
        assert _known_to(wanted, json.loads(done.stdout)) == wanted, name


def test_the_tools_read_the_same_store(version):
    from packtrain_tools.store_reader import StoreReader

    for name, wanted in json.loads((version / "examples.json").read_text()).items():
        reader = StoreReader(str(version / name))
        found = [(ids.tolist(), mask.tolist()) for ids, mask in reader.examples()]
        assert found == [(one["input_ids"], one["loss_mask"]) for one in wanted["examples"]], name
        assert reader.sources().tolist() == [one["source"] for one in wanted["examples"]], name


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_has_the_same_losses(version, golden, ranks, tmp_path):
    call(version, "train", "run.yaml", f"run.output={tmp_path / 'run'}", ranks=ranks)
    assert_as_golden(tmp_path / "run", golden["whole"][str(ranks)], SAME_RANKS)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_checkpoint_is_resumed(version, golden, ranks, tmp_path):
    run = with_checkpoint(version, tmp_path / "run")
    call(version, "train", "run.yaml", f"run.output={run}", ranks=ranks)
    wanted = golden["resumed"][str(ranks)]
    assert_as_golden(run, wanted, SAME_RANKS)
    uninterrupted = golden["whole"]["1"]["loss"][-len(wanted["loss"]):]
    numpy.testing.assert_allclose(wanted["loss"], uninterrupted, rtol=OTHER_RANKS)


def test_a_changed_run_is_still_refused(version, tmp_path):
    run = with_checkpoint(version, tmp_path / "run")
    done = subprocess.run([PROGRAM, "train", "run.yaml", f"run.output={run}",
                           "data.train=[{path: store, repeats: 3, loss_weight: 0.5}, ids]"], cwd=version,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 66 and "fingerprint" in done.stderr, done.stderr


def test_a_checkpoint_is_evaluated_and_exported(version, golden, tmp_path):
    run = with_checkpoint(version, tmp_path / "run")
    evaluated = json.loads(call(version, "evaluate", "run.yaml", f"run.output={run}", "--json"))
    numpy.testing.assert_allclose(evaluated["loss"], golden["evaluated"], rtol=SAME_RANKS)
    call(version, "export", run, "--out", tmp_path / "model", "--dtype", "float32", "--tokenizer", "store/tokenizer")
    exported = json.loads(call(version, "evaluate", "run.yaml", "model.config=null", f"model.path={tmp_path / 'model'}",
                               f"run.output={tmp_path / 'none'}", "--json"))
    numpy.testing.assert_allclose(exported["loss"], golden["evaluated"], rtol=SAME_RANKS)
