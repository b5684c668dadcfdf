"""optimizer.name: muon: whole matrices of a sharded model, on any number of ranks."""

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights

MUON = ["optimizer.name=muon", "optimizer.learning_rate=3.0e-3"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def muon(lab):
    return lab.run("muon", *MUON, *SAVES, ranks=2)


@pytest.mark.parametrize("ranks, settings", [
    (1, []), (3, []), (4, []), (2, ["parallel.zero_stage=2"]), (4, ["parallel.shard_size=2"]),
    (4, ["parallel.shard_size=1"]), (2, ["parallel.accumulate=local"]), (2, ["parallel.gather_slots=4"])])
def test_any_number_of_ranks_has_the_same_losses(lab, muon, ranks, settings):
    name = f"muon-{ranks}-" + "-".join(settings).replace("=", "-")
    run = lab.run(name, *MUON, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(run), losses(muon), rtol=2e-4)


def test_muon_learns_and_is_not_adamw(lab, muon):
    adamw = losses(lab.run("muon-adamw", "optimizer.learning_rate=3.0e-3"))
    assert losses(muon)[-1] < losses(muon)[0]
    assert abs(losses(muon)[10] - adamw[10]) > 1e-3


def test_two_runs_are_bit_equal(lab, muon):
    assert_bit_equal(lab.run("muon-again", *MUON, ranks=2), muon)


@pytest.mark.parametrize("settings", [[], ["optimizer.moments=bf16", "precision.compute=bf16", "precision.reduce=bf16"]])
def test_a_resumed_run_is_bit_equal(lab, settings):
    name = f"muon-resumed-{len(settings)}"
    whole = lab.run(f"{name}-whole", *MUON, *SAVES, *settings, ranks=2)
    take_checkpoint(whole, 14, lab.folder / "runs" / name)
    assert losses(lab.run(name, *MUON, *settings, ranks=2)) == losses(whole)[14:]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_resumes_on_another_number_of_ranks(lab, muon, ranks):
    take_checkpoint(muon, 7, lab.folder / "runs" / f"muon-on-{ranks}")
    resumed = lab.run(f"muon-on-{ranks}", *MUON, ranks=ranks)
    numpy.testing.assert_allclose(losses(resumed), losses(muon)[7:], rtol=2e-4)


def test_a_checkpoint_has_each_state_of_the_parameters_that_need_it(muon):
    momentum, moments = weights(muon, "momentum_buffer"), weights(muon, "exp_avg_sq")
    assert momentum and moments and momentum.keys().isdisjoint(moments)
    assert momentum.keys() | moments.keys() == weights(muon).keys()
    assert all("norm" in name or not name.startswith("layers.") for name in moments)


def test_clipping_does_not_change_the_size_of_a_step(lab):
    """Each step moves a matrix by the learning rate times its factor, also where gradients are clipped far below
    their norm. Dividing the update by the norm would leave next to nothing."""
    settings = [*MUON, "run.max_steps=1", "checkpoint.save_steps=1", "optimizer.weight_decay=0",
                "schedule.warmup_steps=0", "schedule.name=constant"]
    start = weights(lab.run("clip-start", *settings, "optimizer.learning_rate=0"))
    sizes = {}
    for clip in (0, 1.0, 1.0e-2):
        after = weights(lab.run(f"clip-{clip}", *settings, f"optimizer.max_grad_norm={clip}"))
        sizes[clip] = {name: numpy.linalg.norm(after[name] - start[name])
                       for name in weights(lab.folder / "runs" / f"clip-{clip}", "momentum_buffer")}
    for clip in (1.0, 1.0e-2):
        for name, size in sizes[0].items():
            assert sizes[clip][name] == pytest.approx(size, rel=0.02), name
    # 64 x 64: with all singular values near 1 the norm is near 8. The factor is 0.2 * sqrt(64). Five iterations leave
    # singular values smaller that are below a hundredth of the largest one, so the norm is smaller too.
    most = 3.0e-3 * 8 * 0.2 * 8
    assert 0.5 * most < sizes[1.0]["layers.0.attention.output.weight"] < 1.25 * most


def test_a_refused_step_writes_nothing(lab):
    settings = [*MUON, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=5", "run.max_steps=5",
                "checkpoint.save_steps=4", "checkpoint.keep=10"]
    run = lab.run("muon-refused", *settings, ranks=2)
    before = lab.folder / "runs" / "muon-before-refused"
    take_checkpoint(run, 4, before)
    for kind in ("weight", "momentum_buffer", "exp_avg", "exp_avg_sq"):
        found, wanted = weights(run, kind), weights(before, kind)
        assert all((found[name] == wanted[name]).all() for name in wanted)


def test_frozen_matrices_have_no_part_in_it(lab):
    settings = [*MUON, "model.frozen=[\"layers.1.*\", \"layers.2.mlp.*\"]", *SAVES]
    two = lab.run("muon-frozen-2", *settings, ranks=2)
    numpy.testing.assert_allclose(losses(lab.run("muon-frozen-1", *settings)), losses(two), rtol=2e-4)
    assert not [name for name in weights(two, "momentum_buffer") if name.startswith("layers.1.")]


def test_an_adapter_is_adamws_unless_a_group_says_muon(lab):
    adapter = ["adapter.kind=lora", "adapter.rank=4"]
    code, _, err = lab.finish(lab.start("muon-adapter", *MUON, *adapter))
    assert code == 64 and "muon is the optimizer of no trained parameter" in err, err
    groups = "optimizer.groups=[{match: '*lora*', name: muon}]"
    one = lab.run("muon-lora-1", groups, *adapter)
    two = lab.run("muon-lora-2", groups, *adapter, *SAVES, ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=2e-4)
    assert any("lora_A" in name for name in weights(two, "momentum_buffer"))


def test_experts_have_the_losses_of_any_number_of_ranks(lab):
    model = ("model.config={model_type: qwen3_moe, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
             "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8, vocab_size: 512, hidden_act: silu, "
             "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true, num_experts: 4, "
             "num_experts_per_tok: 2, moe_intermediate_size: 24, norm_topk_prob: true}")
    one = lab.run("muon-experts-1", model, *MUON, "run.max_steps=8")
    two = lab.run("muon-experts-2", model, *MUON, "run.max_steps=8", ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=1e-3)


def test_the_plan_names_the_memory_of_matrices(lab):
    code, out, err = lab.finish(lab.start("muon-plan", *MUON, command="plan"))
    assert code == 0, err
    assert "Muon's" in out + err


def test_eight_bit_products_know_the_weights_that_muon_wrote(lab):
    settings = [*MUON, "precision.compute=bf16", "precision.reduce=bf16", "precision.linear=fp8_tensor",
                "run.max_steps=6"]
    one = lab.run("muon-fp8-1", *settings)
    two = lab.run("muon-fp8-2", *settings, ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=2e-2)
    assert len(steps(two)) == 6


def test_collectives_are_checked(lab, muon):
    run = lab.run("muon-checked", *MUON, "debug.check_collectives=true", "debug.stream_delay_us=200",
                  "parallel.shard_size=2", ranks=4)
    numpy.testing.assert_allclose(losses(run), losses(muon), rtol=2e-4)
