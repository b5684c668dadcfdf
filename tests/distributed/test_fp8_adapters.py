"""Adapters over frozen weights with 8-bit products: the same training however the work is laid out."""

import json

import numpy
import pytest
from runs import assert_bit_equal, losses, take_checkpoint, weights

FP8 = "precision.linear=fp8_tensor"
LORA = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8", "optimizer.learning_rate=1.0e-2",
        "optimizer.epsilon=1.0e-3", "data.validation=null", "run.max_steps=3", "model.config.num_hidden_layers=2"]
DORA = "adapter.use_dora=true"
DROPOUT = "adapter.dropout=0.2"

# As in test_fp8.py. Weights begin equal, and an update of AdamW hides small errors of its gradient.
TOLERANCE = 3.5e-4

KINDS = {"lora": [], "dora": [DORA], "dropped": [DROPOUT], "dora-dropped": [DORA, DROPOUT, "adapter.targets=[q_proj, down_proj]"]}
# Weights of DoRA with dropout multiply in precision.compute.
KEPT = {"dora-dropped": ["precision.keep_bf16=['*.qkv.*', '*.down.*']"]}


@pytest.fixture(scope="module", params=KINDS)
def one_rank(lab, request):
    return request.param, lab.run(f"adapted-{request.param}", *LORA, *KINDS[request.param], FP8)


def test_the_base_products_are_rounded(lab, one_rank):
    kind, run = one_rank
    plain = losses(lab.run(f"plain-{kind}", *LORA, *KINDS[kind]))
    assert losses(run) != plain
    numpy.testing.assert_allclose(losses(run), plain, rtol=1e-2)


def test_ranks_and_micro_batches_have_the_same_losses(lab, one_rank):
    kind, run = one_rank
    for more in (["batch.strategy=padding_free"], ["batch.max_tokens_per_micro_batch=512", "debug.poison_slots=true"]):
        other = lab.run("-".join(["fp8", kind, *more]), *LORA, *KINDS[kind], FP8, *more, ranks=2)
        numpy.testing.assert_allclose(losses(other), losses(run), rtol=TOLERANCE)


def test_a_resumed_run_has_the_same_bits(lab, one_rank):
    kind, _ = one_rank
    every = [*LORA, *KINDS[kind], FP8, "checkpoint.save_steps=2"]
    whole = lab.run(f"fp8-whole-{kind}", *every)
    take_checkpoint(whole, 2, lab.folder / "runs" / f"fp8-resumed-{kind}")
    resumed = lab.run(f"fp8-resumed-{kind}", *every)
    assert losses(resumed) == losses(whole)[2:]
    found, wanted = weights(resumed), weights(whole)
    assert all((found[name] == wanted[name]).all() for name in wanted)


@pytest.mark.parametrize("policy", ["selective", "full:1+selective"])
def test_recomputation_changes_no_bit(lab, one_rank, policy):
    kind, run = one_rank
    assert_bit_equal(lab.run(f"fp8-{kind}-{policy}", *LORA, *KINDS[kind], FP8, f"memory.recompute={policy}"), run)


def test_verify_passes(lab, one_rank):
    kind, _ = one_rank
    code, out, err = lab.finish(lab.start(f"fp8-verified-{kind}", *LORA, *KINDS[kind], FP8, "--json", ranks=2,
                                          command="verify"))
    assert code == 0, out + err
    assert json.loads(out)["ok"]


def test_each_of_several_adapters_trains_as_alone(lab):
    entries = [{"name": "de", "rank": 4}, {"name": "fr", "rank": 2, "targets": ["q_proj", "down_proj"]}]
    shared = [one for one in LORA if one != "adapter.kind=lora"]
    together = lab.run("fp8-together", *shared, FP8, "adapters=" + json.dumps(
        [{**entry, "train": str(lab.train_store)} for entry in entries]), ranks=2)
    lines = [json.loads(line) for line in (together / "metrics.jsonl").read_text().splitlines()]
    for entry in entries:
        settings = [f"adapter.{key}={json.dumps(value)}" for key, value in entry.items()]
        own = lab.run(f"fp8-own-{entry['name']}", *LORA, FP8, *settings)
        of_adapter = [line["adapters"][entry["name"]]["loss"] for line in lines if "adapters" in line]
        numpy.testing.assert_allclose(of_adapter, losses(own), rtol=TOLERANCE)


def test_without_its_adapter_the_model_has_the_loss_of_its_base(lab, one_rank):
    kind, run = one_rank
    settings = [*LORA, *KINDS[kind], FP8, f"data.validation={lab.validation_store}"]
    base = [one for one in LORA if not one.startswith("adapter")]
    without = lab.evaluate(run.name, *settings, "--without-adapter")
    random = lab.evaluate(f"fp8-base-{kind}", *base, f"data.validation={lab.validation_store}",
                          FP8, *KEPT.get(kind, []))
    assert without["loss"] == pytest.approx(random["loss"], rel=1e-6)


def test_the_log_names_what_stays_out(lab):
    code, _, err = lab.finish(lab.start("fp8-dora-log", *LORA, DORA, DROPOUT, "adapter.targets=[q_proj]", FP8))
    assert code == 0, err
    assert "weights that multiply in 8-bit floats: 6" in err, err
    assert "because DoRA with dropout multiplies parts of them: 2 (layers.0.attention.qkv.weight and others)" in err, err
