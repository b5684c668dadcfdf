"""`packtrain score --log-probs` of runs on several ranks."""

import json

import numpy
import pytest
from safetensors.numpy import load_file
from test_adapters import ADAPTER


def score(lab, name, *words, ranks=1, out):
    code, stdout, err = lab.finish(lab.start(name, "--log-probs", "--json", "--out", str(out), *words, ranks=ranks,
                                             command="score"))
    assert code == 0, err
    return json.loads(stdout)["sets"][0]


@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_writes_the_same_file(lab, tmp_path, ranks):
    lab.run("scored", "run.max_steps=8")
    one = score(lab, "scored", out=tmp_path / "one")
    assert one["num_loss_tokens"] == len(load_file(tmp_path / "one")["log_probs"])
    score(lab, "scored", ranks=ranks, out=tmp_path / "several")
    assert (tmp_path / "several").read_bytes() == (tmp_path / "one").read_bytes()


def test_the_mean_is_the_loss_of_evaluate(lab, tmp_path):
    lab.run("scored", "run.max_steps=8")
    scored = score(lab, "scored", ranks=2, out=tmp_path / "scores")
    evaluated = lab.evaluate("scored")
    assert scored["loss"] == evaluated["loss"]
    mean = load_file(tmp_path / "scores")["log_probs"].mean(dtype=numpy.float64)
    assert -mean == pytest.approx(evaluated["loss"], rel=1e-6)


def test_without_the_adapter_the_file_is_that_of_the_model(lab, tmp_path):
    lab.run("scored-lora", *ADAPTER, "run.max_steps=8")
    score(lab, "scored-lora", *ADAPTER, out=tmp_path / "adapted")
    score(lab, "scored-lora", *ADAPTER, "--without-adapter", ranks=2, out=tmp_path / "under")
    score(lab, "scored-alone", *[one for one in ADAPTER if not one.startswith("adapter.")], out=tmp_path / "alone")
    assert (tmp_path / "under").read_bytes() == (tmp_path / "alone").read_bytes()
    assert (tmp_path / "adapted").read_bytes() != (tmp_path / "alone").read_bytes()
    adapted, alone = (load_file(tmp_path / name)["log_probs"] for name in ("adapted", "alone"))
    assert abs(adapted - alone).max() > 1e-4


def test_smaller_micro_batches_find_the_same_values(lab, tmp_path):
    score(lab, "scored-anew", out=tmp_path / "large")
    score(lab, "scored-anew", "batch.max_tokens_per_micro_batch=512", out=tmp_path / "small")
    large, small = (load_file(tmp_path / name) for name in ("large", "small"))
    assert abs(large["log_probs"] - small["log_probs"]).max() < 1e-4
    assert large["offsets"].tolist() == small["offsets"].tolist()
