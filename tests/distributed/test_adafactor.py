"""optimizer.name: adafactor: factored second moments of a sharded model, on any number of ranks."""

import numpy
import pytest
from runs import assert_bit_equal, losses, take_checkpoint, weights

ADAFACTOR = ["optimizer.name=adafactor", "optimizer.learning_rate=5.0e-2"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]
# Weights of 512 rows and more have fewer factors than blocks of 256 elements.
WIDE = ["model.config.vocab_size=512", "model.config.hidden_size=512", "model.config.intermediate_size=1024",
        "model.config.num_hidden_layers=2", "run.max_steps=6"]


@pytest.fixture(scope="session")
def adafactor(lab):
    return lab.run("adafactor", *ADAFACTOR, *SAVES, ranks=2)


@pytest.mark.parametrize("ranks, settings", [
    (1, []), (3, []), (4, []), (2, ["parallel.zero_stage=2"]), (4, ["parallel.shard_size=2"]),
    (4, ["parallel.shard_size=1"]), (2, ["parallel.accumulate=local"])])
def test_any_number_of_ranks_has_the_same_losses(lab, adafactor, ranks, settings):
    name = f"adafactor-{ranks}-" + "-".join(settings).replace("=", "-")
    run = lab.run(name, *ADAFACTOR, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(run), losses(adafactor), rtol=1e-3)


def test_adafactor_learns_and_two_runs_are_bit_equal(lab, adafactor):
    assert losses(adafactor)[-1] < losses(adafactor)[0]
    assert_bit_equal(lab.run("adafactor-again", *ADAFACTOR, *SAVES, ranks=2), adafactor)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_resumed_run_is_bit_equal(lab, ranks):
    name = f"adafactor-resumed-{ranks}"
    whole = lab.run(f"{name}-whole", *ADAFACTOR, *SAVES, ranks=ranks)
    take_checkpoint(whole, 14, lab.folder / "runs" / name)
    assert losses(lab.run(name, *ADAFACTOR, ranks=ranks)) == losses(whole)[14:]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_other_numbers_of_ranks_read_the_same_state(lab, adafactor, ranks):
    take_checkpoint(adafactor, 7, lab.folder / "runs" / f"adafactor-on-{ranks}")
    resumed = lab.run(f"adafactor-on-{ranks}", *ADAFACTOR, ranks=ranks)
    numpy.testing.assert_allclose(losses(resumed), losses(adafactor)[7:], rtol=1e-3)


def test_large_matrices_keep_one_value_for_each_block(lab):
    two = lab.run("adafactor-wide-2", *ADAFACTOR, *WIDE, "checkpoint.save_steps=3", "checkpoint.keep=5", ranks=2)
    one = lab.run("adafactor-wide-1", *ADAFACTOR, *WIDE)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=1e-3)
    factors, elements, all_weights = weights(two, "adafactor_factors"), weights(two, "adafactor_exp_avg_sq"), weights(two)
    assert factors and elements and factors.keys().isdisjoint(elements)
    down = factors["layers.0.mlp.down.weight"]
    assert down.size == 512 * 1024 // 256
    assert (down[:512 + 1024] > 0).all() and (down[512 + 1024:] == 0).all()
    assert all(values.size == -(-all_weights[name].size // 256) for name, values in factors.items())
    for ranks in (1, 3):
        take_checkpoint(two, 3, lab.folder / "runs" / f"adafactor-wide-on-{ranks}")
        resumed = lab.run(f"adafactor-wide-on-{ranks}", *ADAFACTOR, *WIDE, ranks=ranks)
        numpy.testing.assert_allclose(losses(resumed), losses(two)[3:], rtol=1e-3)


def test_a_refused_step_writes_nothing(lab):
    settings = [*ADAFACTOR, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=5", "run.max_steps=5",
                "checkpoint.save_steps=4", "checkpoint.keep=10"]
    run = lab.run("adafactor-refused", *settings, ranks=2)
    before = lab.folder / "runs" / "adafactor-before-refused"
    take_checkpoint(run, 4, before)
    for kind in ("weight", "adafactor_exp_avg_sq"):
        found, wanted = weights(run, kind), weights(before, kind)
        assert wanted and all((found[name] == wanted[name]).all() for name in wanted)


def test_groups_may_have_other_optimizers(lab):
    groups = "optimizer.groups=[{match: '*norm*', name: adamw, learning_rate: 1.0e-3}, {match: '*mlp*', name: muon}]"
    one = lab.run("adafactor-groups-1", *ADAFACTOR, groups)
    two = lab.run("adafactor-groups-2", *ADAFACTOR, groups, *SAVES, ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=1e-3)
    assert weights(two, "momentum_buffer") and weights(two, "exp_avg") and weights(two, "adafactor_exp_avg_sq")


def test_frozen_parameters_and_adapters_have_it(lab):
    for name, settings in (("frozen", ["model.frozen=[\"layers.1.*\"]"]), ("adapter", ["adapter.kind=lora",
                                                                                       "adapter.rank=4"])):
        one = lab.run(f"adafactor-{name}-1", *ADAFACTOR, *settings)
        two = lab.run(f"adafactor-{name}-2", *ADAFACTOR, *settings, ranks=2)
        numpy.testing.assert_allclose(losses(one), losses(two), rtol=1e-3)


def test_experts_have_the_losses_of_any_number_of_ranks(lab):
    model = ("model.config={model_type: qwen3_moe, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
             "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8, vocab_size: 512, hidden_act: silu, "
             "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true, num_experts: 4, "
             "num_experts_per_tok: 2, moe_intermediate_size: 24, norm_topk_prob: true}")
    one = lab.run("adafactor-experts-1", model, *ADAFACTOR, "run.max_steps=8")
    two = lab.run("adafactor-experts-2", model, *ADAFACTOR, "run.max_steps=8", ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=2e-3)


def test_a_bf16_master_is_updated_and_resumes_bit_equal(lab):
    settings = [*ADAFACTOR, "precision.compute=bf16", "precision.reduce=bf16", "precision.master=bf16"]
    whole = lab.run("adafactor-master", *settings, *SAVES, ranks=2)
    assert losses(whole)[-1] < losses(whole)[0]
    take_checkpoint(whole, 14, lab.folder / "runs" / "adafactor-master-resumed")
    assert losses(lab.run("adafactor-master-resumed", *settings, ranks=2)) == losses(whole)[14:]


def test_the_plan_names_the_memory_of_factors(lab):
    code, out, err = lab.finish(lab.start("adafactor-plan", *ADAFACTOR, command="plan"))
    assert code == 0, err
    assert "Adafactor's sums" in out + err


def test_collectives_are_checked(lab, adafactor):
    run = lab.run("adafactor-checked", *ADAFACTOR, "debug.check_collectives=true", "debug.stream_delay_us=200",
                  "parallel.shard_size=2", ranks=4)
    numpy.testing.assert_allclose(losses(run), losses(adafactor), rtol=1e-3)
