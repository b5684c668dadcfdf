"""8-bit products with a scale for each 128 numbers: the same training however the work is laid out."""

import json

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights

# The MLP has rows of several groups, and a last one that is shorter.
SETTINGS = ["run.max_steps=3", "model.config.num_hidden_layers=2", "model.config.intermediate_size=336"]
BLOCKS = [*SETTINGS, "precision.linear=fp8_block", "precision.weight_gradient=fp8_block"]
TENSOR_GRADIENT = [*SETTINGS, "precision.linear=fp8_block", "precision.weight_gradient=fp8"]
# test_fp8.py has where it comes from.
TOLERANCE = 3.5e-4


@pytest.fixture(scope="module")
def one_rank(lab):
    return lab.run("fp8-block-one", *BLOCKS)


def finish(lab, name, *overrides, **more):
    code, _, err = lab.finish(lab.start(name, *overrides, **more))
    return code, err


def test_losses_are_near_those_without_it(lab, one_rank):
    plain = losses(lab.run("fp8-block-plain", *SETTINGS))
    values = losses(one_rank)
    assert values != plain
    numpy.testing.assert_allclose(values, plain, rtol=1e-2)


def test_only_gradients_depend_on_the_scales_of_the_weights_gradient(lab, one_rank):
    values = losses(lab.run("fp8-block-tensor", *TENSOR_GRADIENT))
    assert values[0] == losses(one_rank)[0]  # before the first update
    assert values[1:] != losses(one_rank)[1:]
    numpy.testing.assert_allclose(values, losses(one_rank), rtol=1e-2)


@pytest.mark.parametrize("settings", [BLOCKS, TENSOR_GRADIENT], ids=["blocks", "tensor-gradient"])
@pytest.mark.parametrize(("ranks", "more"), [
    (2, ["batch.max_tokens_per_micro_batch=512"]),
    (4, ["parallel.accumulate=local", "batch.max_tokens_per_micro_batch=512", "debug.poison_slots=true"]),
    (1, ["batch.strategy=padding"]),
])
def test_ranks_micro_batches_and_strategies_have_the_same_losses(lab, settings, ranks, more):
    one = lab.run("-".join(["fp8-block-one", settings[-1], str(ranks)]), *settings)
    several = lab.run("-".join(["fp8-block", settings[-1], str(ranks), *more]), *settings, *more, ranks=ranks)
    numpy.testing.assert_allclose(losses(several), losses(one), rtol=TOLERANCE)
    assert steps(several)[1]["grad_norm"] == pytest.approx(steps(one)[1]["grad_norm"], rel=10 * TOLERANCE)


@pytest.mark.parametrize("settings", [BLOCKS, TENSOR_GRADIENT], ids=["blocks", "tensor-gradient"])
def test_a_resumed_run_has_the_same_bits(lab, settings):
    every = [*settings, "checkpoint.save_steps=2"]
    whole = lab.run(f"fp8-block-whole-{settings[-1]}", *every)
    name = f"fp8-block-resumed-{settings[-1]}"
    take_checkpoint(whole, 2, lab.folder / "runs" / name)
    resumed = lab.run(name, *every)
    assert losses(resumed) == losses(whole)[2:]
    found, wanted = weights(resumed), weights(whole)
    assert all((found[name] == wanted[name]).all() for name in wanted)


@pytest.mark.parametrize("settings", [BLOCKS, TENSOR_GRADIENT], ids=["blocks", "tensor-gradient"])
@pytest.mark.parametrize("policy", ["selective", "full:1+selective"])
def test_recomputation_changes_no_bit(lab, settings, policy):
    name = f"fp8-block-{settings[-1]}-{policy}"
    assert_bit_equal(lab.run(name, *settings, f"memory.recompute={policy}"), lab.run(f"{name}-kept", *settings))


def test_the_log_names_what_stays_out(lab):
    code, err = finish(lab, "fp8-block-log", *BLOCKS, "run.max_steps=1", "model.config.intermediate_size=168",
                       "precision.keep_bf16=['layers.0.*']")
    assert code == 0, err
    assert "weights that multiply in 8-bit floats, their gradients too: 3" in err, err
    assert "because a size is not a multiple of 16: 1 (layers.1.mlp.down.weight)" in err, err


def test_verify_passes(lab):
    for settings in (BLOCKS, TENSOR_GRADIENT):
        process = lab.start("fp8-block-verified", *settings, "--json", ranks=2, command="verify")
        code, out, err = lab.finish(process)
        assert code == 0, out + err
        assert json.loads(out)["ok"]


@pytest.mark.parametrize(("settings", "fault"), [
    (["precision.linear=fp8_tensor", "precision.weight_gradient=fp8_block"], "precision.linear is fp8_tensor"),
    (["precision.linear=fp8_block", "precision.keep_bf16=['*']"], "precision.linear is fp8_block"),
    (["precision.linear=fp8_block", "adapter.kind=lora", "adapter.rank=4"], "an adapter is trained"),
])
def test_settings_without_an_effect_are_refused(lab, settings, fault):
    code, err = finish(lab, "fp8-block-refused", *settings)
    assert code == 64 and fault in err, err
