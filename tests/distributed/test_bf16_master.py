"""precision.master: bf16: weights that the optimizer rounds stochastically, on any number of ranks."""

import json

import numpy
import pytest
from runs import assert_bit_equal, losses, take_checkpoint, weights

BF16 = ["precision.compute=bf16", "precision.reduce=bf16"]
MASTER = [*BF16, "precision.master=bf16"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]
OPTIMIZERS = {
    "adamw": [],
    "adamw-bf16": ["optimizer.moments=bf16"],
    "adamw-int8": ["optimizer.moments=int8"],
    "muon": ["optimizer.name=muon"],
    "lion": ["optimizer.name=lion", "optimizer.learning_rate=3.0e-4", "optimizer.betas=[0.9, 0.99]"],
    "sophia": ["optimizer.name=sophia", "optimizer.learning_rate=3.0e-4", "optimizer.hessian_every=3"],
    "groups": ["optimizer.groups=[{match: '*norm*', name: lion, learning_rate: 1.0e-4}]"],
}


@pytest.fixture(scope="session")
def narrow(lab):
    return lab.run("master", *MASTER, *SAVES, ranks=2)


def test_fifty_steps_have_losses_near_those_of_a_float32_master(lab):
    settings = ["run.max_steps=50", "run.num_epochs=4"]
    found = losses(lab.run("master-50", *MASTER, *settings))
    wanted = losses(lab.run("master-50-not", *BF16, *settings))
    assert len(found) == 50
    numpy.testing.assert_allclose(found, wanted, rtol=2e-2)
    assert wanted[-1] < wanted[0]


def test_small_updates_are_not_lost(lab):
    """At this rate all steps together are less than half the distance between two bfloat16 numbers above 2^-6.
    Rounding to the nearest would leave such weights as they are; here they move as far as those of a float32 master
    on average."""
    settings = ["optimizer.learning_rate=2.0e-6", "optimizer.weight_decay=0", "schedule.name=constant",
                "schedule.warmup_steps=0", "checkpoint.save_steps=20"]
    start = weights(lab.run("master-start", *MASTER, *settings, "optimizer.learning_rate=0", "run.max_steps=1",
                            "checkpoint.save_steps=1"))
    after = weights(lab.run("master-small", *MASTER, *settings))
    exact = weights(lab.run("master-small-not", *BF16, *settings))
    exact_start = weights(lab.run("master-start-not", *BF16, *settings, "optimizer.learning_rate=0",
                                  "run.max_steps=1", "checkpoint.save_steps=1"))
    name = "layers.0.mlp.gate_up.weight"
    moved, wanted = after[name] - start[name], exact[name] - exact_start[name]
    large = numpy.abs(start[name]) > 2.0**-6
    assert numpy.abs(wanted[large]).max() < 2.0**-14
    share = (moved[large] * numpy.sign(wanted[large])).mean() / numpy.abs(wanted[large]).mean()
    assert 0.7 < share < 1.3


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_resumed_run_is_bit_equal(lab, ranks):
    name = f"master-resumed-{ranks}"
    whole = lab.run(f"{name}-whole", *MASTER, *SAVES, "checkpoint.save_steps=10", ranks=ranks)
    take_checkpoint(whole, 10, lab.folder / "runs" / name)
    resumed = lab.run(name, *MASTER, "checkpoint.save_steps=20", ranks=ranks)
    assert losses(resumed) == losses(whole)[10:]
    found, wanted = weights(resumed), weights(whole)
    assert all((found[parameter] == wanted[parameter]).all() for parameter in wanted)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns_and_resumes_bit_equal(lab, optimizer):
    settings = [*MASTER, *OPTIMIZERS[optimizer]]
    whole = lab.run(f"master-{optimizer}", *settings, *SAVES, ranks=2)
    assert losses(whole)[-1] < losses(whole)[0]
    take_checkpoint(whole, 14, lab.folder / "runs" / f"master-{optimizer}-resumed")
    assert losses(lab.run(f"master-{optimizer}-resumed", *settings, ranks=2)) == losses(whole)[14:]


@pytest.mark.parametrize("optimizer", ["adamw-bf16", "adamw-int8"])
def test_ranks_round_the_same_gradient_to_the_same_bits(lab, optimizer):
    """One example a step: one rank has the whole gradient, and sums with zeros change no bit. Without clipping the
    update does not depend on the order in which the norm is added up."""
    settings = [*MASTER, *OPTIMIZERS[optimizer], "batch.global_batch_size=1", "batch.micro_batch_size=1",
                "optimizer.max_grad_norm=0", "run.max_steps=10", "checkpoint.save_steps=10"]
    one = lab.run(f"master-{optimizer}-alone", *settings)
    for ranks, more in ((2, ["parallel.zero_stage=2"]), (3, []), (4, ["parallel.shard_size=2"])):
        several = lab.run(f"master-{optimizer}-on-{ranks}", *settings, *more, ranks=ranks)
        assert losses(several) == losses(one)
        found, wanted = weights(several), weights(one)
        assert all((found[name] == wanted[name]).all() for name in wanted)


@pytest.mark.parametrize("ranks, settings", [(1, []), (3, []), (4, ["parallel.shard_size=2"]),
                                             (2, ["parallel.zero_stage=2"]), (2, ["parallel.accumulate=local"])])
def test_any_number_of_ranks_has_near_losses(lab, narrow, ranks, settings):
    run = lab.run(f"master-{ranks}-{'-'.join(settings)}", *MASTER, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(run), losses(narrow), rtol=2e-2)


def test_two_runs_are_bit_equal(lab, narrow):
    assert_bit_equal(lab.run("master-again", *MASTER, *SAVES, ranks=2), narrow)


def test_a_checkpoint_has_weights_in_bfloat16(narrow):
    for shard in (narrow / "checkpoints" / "step-20").glob("rank-*.safetensors"):
        data = shard.read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        types = {entry["dtype"] for name, entry in header.items() if name.startswith("weight/")}
        assert types == {"BF16"}


def test_another_master_is_refused_unless_it_is_allowed(lab, narrow):
    take_checkpoint(narrow, 14, lab.folder / "runs" / "master-widened")
    code, _, err = lab.finish(lab.start("master-widened", *BF16, ranks=2))
    assert code == 66 and "precision.master" in err, err
    wide = lab.run("master-wide", *BF16, *SAVES, ranks=2)
    take_checkpoint(wide, 14, lab.folder / "runs" / "master-narrowed")
    for name, settings, text in (("master-widened", BF16, "from bf16 to fp32"),
                                 ("master-narrowed", MASTER, "from fp32 to bf16")):
        code, _, err = lab.finish(lab.start(name, *settings, "checkpoint.allow_changed=[precision.master]", ranks=2))
        assert code == 0 and f"trained weights are converted {text}" in err, err
        numpy.testing.assert_allclose(losses(lab.folder / "runs" / name), losses(wide)[14:], rtol=2e-2)


def test_a_refused_step_writes_nothing(lab):
    settings = [*MASTER, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=5", "run.max_steps=5",
                "checkpoint.save_steps=4", "checkpoint.keep=10"]
    run = lab.run("master-refused", *settings, ranks=2)
    before = lab.folder / "runs" / "master-before-refused"
    take_checkpoint(run, 4, before)
    for kind in ("weight", "exp_avg", "exp_avg_sq"):
        found, wanted = weights(run, kind), weights(before, kind)
        assert all((found[name] == wanted[name]).all() for name in wanted)


def test_frozen_parameters_and_adapters_have_it(lab):
    frozen = ["model.frozen=[\"layers.1.*\"]"]
    adapter = ["adapter.kind=lora", "adapter.rank=4"]
    for name, settings in (("frozen", frozen), ("adapter", adapter)):
        wide = losses(lab.run(f"master-{name}-not", *BF16, *settings))
        for ranks in (1, 2):
            found = losses(lab.run(f"master-{name}-{ranks}", *MASTER, *settings, ranks=ranks))
            numpy.testing.assert_allclose(found, wide, rtol=2e-2)


def test_several_adapters_are_refused(lab):
    adapters = "adapters=[{name: a, rank: 4}, {name: b, rank: 4}]"
    code, _, err = lab.finish(lab.start("master-adapters", *MASTER, adapters))
    assert code == 64 and "precision.master: bf16" in err, err


def test_eight_bit_products_know_the_weights_as_rounded(lab):
    settings = [*MASTER, "precision.linear=fp8_tensor", "batch.global_batch_size=1", "batch.micro_batch_size=1",
                "optimizer.max_grad_norm=0", "run.max_steps=6", "checkpoint.save_steps=6"]
    one, two = (lab.run(f"master-fp8-{ranks}", *settings, ranks=ranks) for ranks in (1, 2))
    assert losses(one) == losses(two)


def test_an_export_has_the_bytes_of_the_weights(lab, narrow):
    import torch
    from safetensors.torch import load_file

    target = lab.folder / "master-export"
    code, _, err = lab.finish(lab.start("master", "--out", str(target), command="export",
                                        config=narrow))
    assert code == 0, err
    exported = {name: tensor for file in target.glob("*.safetensors") for name, tensor in load_file(file).items()}
    found, wanted = exported["model.norm.weight"], weights(narrow)["final_norm.weight"]
    assert found.dtype == torch.bfloat16 and (found.float().numpy() == wanted).all()
    embedding = exported["model.embed_tokens.weight"]
    assert (embedding.float().numpy().ravel() == weights(narrow)["embed.weight"]).all()


def test_the_plan_has_two_bytes_a_weight(lab):
    code, out, err = lab.finish(lab.start("master-plan", *MASTER, command="plan"))
    assert code == 0, err
    lines = [line for line in (out + err).splitlines() if "master weights" in line]
    assert lines and all("bfloat16" in line for line in lines), out + err


def test_verify_passes(lab):
    code, out, err = lab.finish(lab.start("master-verify", *MASTER, command="verify"))
    assert code == 0, out + err


def test_float32_products_are_refused(lab):
    code, _, err = lab.finish(lab.start("master-fp32", "precision.master=bf16"))
    assert code == 64 and "precision.compute is fp32" in err, err
