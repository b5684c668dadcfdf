"""Linear layers with 8-bit products: the same training however the work is laid out, and what is refused."""

import json
import subprocess

import numpy
import pytest
from runs import PROGRAM, assert_bit_equal, losses, steps, take_checkpoint, weights

FP8 = ["precision.linear=fp8_tensor", "precision.weight_gradient=fp8"]
# Two layers and few steps: each has every product.
SETTINGS = ["run.max_steps=3", "model.config.num_hidden_layers=2", *FP8]

# The scale of a tensor is a power of two, so an example's numbers are rounded to the same codes in every batch. What differs
# is the order of float32 sums. It moves a number to the next code (2^-3 of it) with a probability of about 2^-20 / 2^-3. The
# root of the mean square of these errors is sqrt(2^-20 * 2^-3), 3.5e-4. Deeper layers have more, but a step's mean loss
# averages over many tokens.
TOLERANCE = 3.5e-4


@pytest.fixture(scope="module")
def one_rank(lab):
    return lab.run("fp8-one", *SETTINGS)


def finish(lab, name, *overrides, **more):
    code, _, err = lab.finish(lab.start(name, *overrides, **more))
    return code, err


def test_losses_are_near_those_without_it(lab, one_rank):
    plain = losses(lab.run("fp8-plain", *SETTINGS[:2]))
    values = losses(one_rank)
    assert values != plain
    # A product's relative error is some percent, and the loss of a small random model depends on it little.
    numpy.testing.assert_allclose(values, plain, rtol=1e-2)


@pytest.mark.parametrize(("ranks", "more"), [
    (2, []),
    (2, ["parallel.shard_size=1", "batch.max_tokens_per_micro_batch=512"]),
    (4, ["parallel.accumulate=local", "batch.max_tokens_per_micro_batch=512", "debug.poison_slots=true"]),
    (2, ["batch.strategy=padding_free"]),
    (1, ["batch.strategy=padding"]),
])
def test_ranks_micro_batches_and_strategies_have_the_same_losses(lab, one_rank, ranks, more):
    run_folder = lab.run("-".join(["fp8", str(ranks), *more]), *SETTINGS, *more, ranks=ranks)
    numpy.testing.assert_allclose(losses(run_folder), losses(one_rank), rtol=TOLERANCE)
    # Later steps start from other weights: AdamW's first updates have the size of the learning rate for any gradient.
    assert steps(run_folder)[1]["grad_norm"] == pytest.approx(steps(one_rank)[1]["grad_norm"], rel=10 * TOLERANCE)


def test_how_weights_are_gathered_changes_no_bit(lab):
    every = [*SETTINGS, "precision.compute=bf16", "model.config.num_hidden_layers=4", "debug.check_gathers=true",
             "debug.poison_slots=true", "batch.max_tokens_per_micro_batch=512"]
    wanted = lab.run("fp8-slots", *every, ranks=2)
    for number, more in enumerate((["parallel.zero_stage=2"], ["parallel.gather_slots=1"],
                                   ["parallel.resident_embeddings=false"])):
        assert_bit_equal(lab.run(f"fp8-slots-{number}", *every, *more, ranks=2), wanted)


def test_frozen_weights_are_gathered_in_8_bits_too(lab):
    frozen = [*SETTINGS, "model.frozen=['layers.0.*']"]
    numpy.testing.assert_allclose(losses(lab.run("fp8-frozen-2", *frozen, "debug.check_gathers=true", ranks=2)),
                                  losses(lab.run("fp8-frozen", *frozen)), rtol=TOLERANCE)


def test_a_resumed_run_has_the_same_bits(lab):
    every = [*SETTINGS, "checkpoint.save_steps=2"]
    whole = lab.run("fp8-whole", *every)
    take_checkpoint(whole, 2, lab.folder / "runs" / "fp8-resumed")
    resumed = lab.run("fp8-resumed", *every)
    assert losses(resumed) == losses(whole)[2:]
    found, wanted = weights(resumed), weights(whole)
    assert all((found[name] == wanted[name]).all() for name in wanted)


@pytest.mark.parametrize("policy", ["selective", "full:1+selective"])
def test_recomputation_changes_no_bit(lab, one_rank, policy):
    assert_bit_equal(lab.run(f"fp8-{policy}", *SETTINGS, f"memory.recompute={policy}"), one_rank)


def test_the_log_names_what_stays_out(lab):
    code, err = finish(lab, "fp8-log", *SETTINGS, "run.max_steps=1", "model.config.intermediate_size=168",
                       "precision.keep_bf16=['layers.0.*']")
    assert code == 0, err
    assert "weights that multiply in 8-bit floats, their gradients too: 3" in err, err
    others = "weights that multiply in precision.compute"
    assert f"{others}, as precision.keep_bf16 says: 4 (layers.0.attention.qkv.weight and others)" in err, err
    assert f"{others}, because a size is not a multiple of 16: 1 (layers.1.mlp.down.weight)" in err, err


def test_experts_multiply_in_8_bits_and_are_named(lab):
    experts = ("model.config={model_type: mixtral, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
               "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 4, "
               "num_experts_per_tok: 2, max_position_embeddings: 512, rms_norm_eps: 1.0e-6}")
    code, err = finish(lab, "fp8-experts", *SETTINGS, "run.max_steps=2", experts)
    assert code == 0, err
    assert "weights that multiply in 8-bit floats, their gradients too: 4" in err, err
    assert "weights of experts that multiply in 8-bit floats, their gradients in precision.compute: 4" in err, err
    two_ranks = lab.run("fp8-experts-two", *SETTINGS, "run.max_steps=2", experts, ranks=2)
    plain = lab.run("fp8-experts-plain", *SETTINGS, "run.max_steps=2", experts, "precision.keep_bf16=['*.experts.*']")
    whole = lab.run("fp8-experts-one", *SETTINGS, "run.max_steps=2", experts)
    numpy.testing.assert_allclose(losses(two_ranks), losses(whole), rtol=TOLERANCE)
    numpy.testing.assert_allclose(losses(plain), losses(whole), rtol=1e-2)
    assert losses(plain) != losses(whole)


def test_a_step_that_is_not_finite_is_skipped(lab):
    # Weights of 1e30 overflow the first product of the step after the jump.
    code, err = finish(lab, "fp8-wild", *SETTINGS, "optimizer.learning_rate=1.0e30", "optimizer.weight_decay=0",
                       "schedule.name=constant", "schedule.warmup_ratio=0", "guard.non_finite=skip",
                       "guard.max_skipped_steps=100")
    assert code == 0, err
    assert "gradient norm nan: skipped" in err, err


def test_verify_passes(lab):
    for more in ([], ["precision.compute=bf16", "precision.reduce=bf16"]):
        process = lab.start("fp8-verified", *SETTINGS, *more, "--json", ranks=2, command="verify")
        code, out, err = lab.finish(process)
        assert code == 0, out + err
        assert json.loads(out)["ok"]


def planned(lab, *settings):
    done = subprocess.run([PROGRAM, "plan", str(lab.config("fp8-plan")), "--memory", "--json", "parallel.backend=mpi",
                           *settings], check=True, capture_output=True, text=True, timeout=100)
    return json.loads(done.stdout)["predicted_memory_bytes"]


def test_the_weights_gradient_in_8_bits_lowers_the_planned_memory(lab):
    several = ["precision.compute=bf16", "precision.reduce=bf16", "memory.recompute=none"]
    assert planned(lab, *several, *FP8) < planned(lab, *several)


@pytest.mark.parametrize(("settings", "fault"), [
    (["precision.weight_gradient=fp8"], "precision.linear is bf16 (default)"),
    (["precision.keep_bf16=['layers.0.*']"], "precision.linear is bf16 (default)"),
    (["precision.linear=mxfp8"], "wanted one of bf16, fp8_tensor, fp8_block"),
    ([*FP8, "precision.keep_bf16=['head.*']"], "'head.*' matches no weight of a linear layer"),
    ([*FP8, "precision.keep_bf16=['*']"], "no linear layer of the model can use it"),
])
def test_settings_without_an_effect_are_refused(lab, settings, fault):
    code, err = finish(lab, "fp8-refused", *settings)
    assert code == 64 and fault in err, err


def test_a_resumed_run_keeps_its_products(lab, one_rank):
    take_checkpoint(one_rank, 3, lab.folder / "runs" / "fp8-changed")
    code, err = finish(lab, "fp8-changed", *SETTINGS[:2], "run.max_steps=5")
    assert code == 66 and "precision.linear" in err, err
