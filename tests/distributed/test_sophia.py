"""optimizer.name: sophia. Its Hessian estimate is that of one rank on any number of ranks, and exact after a resume."""

import json

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights

# Without the larger epsilon the first steps are signs, and rounding decides the sign of a number near 0.
SOPHIA = ["optimizer.name=sophia", "optimizer.learning_rate=1.0e-2", "optimizer.betas=[0.9,0.5]", "optimizer.gamma=1",
          "optimizer.epsilon=1.0e-3", "optimizer.hessian_every=3", "schedule.name=constant", "run.max_steps=8"]
SEVERAL = ["batch.max_tokens_per_micro_batch=512", "batch.global_batch_size=48"]
ADAPTER = ["adapter.kind=lora", "adapter.rank=4", "adapter.dropout=0.1"]
ROWS = ["batch.strategy=fixed_length", "batch.global_batch_size=null", "batch.global_batch_tokens=2048",
        "data.max_length=256"]
PACKS = ["batch.strategy=multipack", "batch.global_batch_size=null", "batch.global_batch_tokens=2048"]

LAYOUTS = {
    "two": (2, [], []),
    "stage 2": (2, [], ["parallel.zero_stage=2"]),
    "pairs": (4, [], ["parallel.shard_size=2"]),
    "replicas": (2, [], ["parallel.shard_size=1"]),
    "local sums": (2, SEVERAL, ["parallel.accumulate=local"]),
    "shard sums": (3, SEVERAL, ["parallel.accumulate=shard"]),
    "poisoned": (2, [], ["parallel.gather_slots=1", "debug.poison_slots=true", "debug.stream_delay_us=300"]),
    "checked": (3, [], ["debug.check_collectives=true", "debug.check_gathers=true"]),
    "recomputed": (2, [], ["memory.recompute=full", "memory.offload=activations"]),
    "frozen": (2, ["model.frozen=[embed.weight, layers.0.*]"], []),
    "adapter": (2, ADAPTER, []),
    "examples": (2, ["batch.normalize=examples"], []),
    "padding": (2, ["batch.strategy=padding", "batch.micro_batch_size=1"], []),
    "multipack": (2, PACKS, []),
    "fixed length": (2, ROWS, []),
    "other micro-batches": (1, [], ["batch.max_tokens_per_micro_batch=512"]),
}


def hessian_of(run):
    return weights(run, "hessian")


def assert_same_hessian(run, wanted, rtol):
    found, expected = hessian_of(run), hessian_of(wanted)
    assert found.keys() == expected.keys() and found
    for name, values in expected.items():
        numpy.testing.assert_allclose(found[name], values, rtol=rtol, atol=rtol * values.max(), err_msg=name)


def assert_same_run(run, wanted):
    numpy.testing.assert_allclose(losses(run), losses(wanted), rtol=2e-5)
    for key in ("hessian_grad_norm", "unclipped_fraction"):
        found, expected = ([line[key] for line in steps(one).values() if key in line] for one in (run, wanted))
        numpy.testing.assert_allclose(found, expected, rtol=1e-3)
    assert_same_hessian(run, wanted, rtol=1e-3)


@pytest.fixture(scope="session")
def one(lab):
    return lab.run("sophia-one", *SOPHIA)


@pytest.fixture(scope="session")
def saving(lab):
    return lab.run("sophia-saving", *SOPHIA, "checkpoint.save_steps=1", "checkpoint.keep=20", ranks=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_ranks_has_the_losses_and_the_hessian_of_one(lab, one, layout):
    ranks, common, settings = LAYOUTS[layout]
    name = layout.replace(" ", "-")
    wanted = lab.run(f"sophia-{name}-one", *SOPHIA, *common) if common else one
    assert_same_run(lab.run(f"sophia-{name}", *SOPHIA, *common, *settings, ranks=ranks), wanted)


def test_the_estimate_is_updated_after_the_first_step_and_every_third(one):
    lines = steps(one)
    assert [number for number, line in sorted(lines.items()) if "unclipped_fraction" in line] == [1, 4, 7]
    assert all(line["hessian_num_skipped"] == 0 for line in lines.values() if "hessian_num_skipped" in line)
    assert 0 < lines[7]["unclipped_fraction"] <= 1
    assert lines[7]["hessian_grad_norm"] > 0


def test_the_share_and_the_seed_choose_other_examples(lab, one):
    others = {"share": "optimizer.hessian_share=1", "seed": "run.seed=6"}
    norms = [[line["hessian_grad_norm"] for line in steps(run).values() if "hessian_grad_norm" in line]
             for run in (one, *(lab.run(f"sophia-{name}", *SOPHIA, setting) for name, setting in others.items()))]
    assert norms[0] != norms[1] and norms[0] != norms[2]
    numpy.testing.assert_allclose(norms[0][0], norms[1][0], rtol=1.0)


def test_a_run_repeats_bit_for_bit(lab, saving):
    assert_bit_equal(saving, lab.run("sophia-repeated", *SOPHIA, ranks=2))


@pytest.mark.parametrize("step", [4, 6])
def test_a_resumed_run_continues_as_the_uninterrupted_one(lab, saving, step):
    name = f"sophia-resumed-{step}"
    take_checkpoint(saving, step, lab.folder / "runs" / name)
    resumed = lab.run(name, *SOPHIA, ranks=2)
    assert losses(resumed) == losses(saving)[step:]
    assert_same_hessian(resumed, saving, rtol=0)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_run_resumes_on_other_ranks(lab, saving, ranks):
    name = f"sophia-resumed-on-{ranks}"
    take_checkpoint(saving, 5, lab.folder / "runs" / name)
    resumed = lab.run(name, *SOPHIA, ranks=ranks)
    numpy.testing.assert_allclose(losses(resumed), losses(saving)[5:], rtol=2e-5)
    assert_same_hessian(resumed, saving, rtol=1e-3)


def test_another_interval_is_refused_on_resume(lab, saving):
    take_checkpoint(saving, 5, lab.folder / "runs" / "sophia-changed")
    code, _, err = lab.finish(lab.start("sophia-changed", *SOPHIA, "optimizer.hessian_every=4", ranks=2))
    assert code == 66 and "optimizer.hessian_every: 3, this run has 4" in err, err


def test_a_skipped_step_leaves_the_estimate_as_it_is(lab):
    before = lab.run("sophia-three", *SOPHIA, "run.max_steps=3", ranks=2)
    skipped = lab.run("sophia-skipped", *SOPHIA, "run.max_steps=4", "fault.kind=nan_gradient", "fault.step=4",
                      "guard.non_finite=skip", ranks=2)
    line = steps(skipped)[4]
    assert line["num_skipped_steps"] == 1 and numpy.isfinite(line["hessian_grad_norm"])
    assert line["hessian_num_skipped"] == 1 and "unclipped_fraction" not in line
    assert_same_hessian(skipped, before, rtol=0)
    applied = hessian_of(lab.run("sophia-four", *SOPHIA, "run.max_steps=4", ranks=2))
    assert any((applied[name] != values).any() for name, values in hessian_of(before).items())


@pytest.mark.parametrize("phase", ["hessian", "step"])
def test_a_step_that_runs_out_of_memory_has_the_same_result(lab, one, phase):
    process = lab.start(f"sophia-memory-{phase}", *SOPHIA, "fault.kind=out_of_memory", f"fault.phase={phase}",
                        "fault.step=4", "fault.rank=1", "fault.block=2", ranks=2)
    code, _, err = lab.finish(process)
    assert code == 0, err
    lost = "nothing of its Hessian estimate was applied" if phase == "hessian" else "nothing of it was applied"
    assert lost in err, err
    assert_same_run(lab.folder / "runs" / f"sophia-memory-{phase}", one)


@pytest.mark.parametrize("linear", ["fp8_tensor", "fp8_block"])
def test_8_bit_products_train(lab, linear):
    settings = ["precision.compute=bf16", f"precision.linear={linear}"]
    runs = [lab.run(f"sophia-{linear}-{ranks}", *SOPHIA, *settings, ranks=ranks) for ranks in (1, 2)]
    numpy.testing.assert_allclose(losses(runs[1]), losses(runs[0]), rtol=5e-3)
    # Each rank scales its own rows. From the second estimate on this changes some of the sampled labels.
    norms = [steps(run)[1]["hessian_grad_norm"] for run in runs]
    numpy.testing.assert_allclose(norms[1], norms[0], rtol=5e-2)
    wanted, found = map(hessian_of, runs)
    assert found.keys() == wanted.keys()
    assert all(numpy.isfinite(values).all() and values.any() for values in found.values())


def test_the_memory_plan_is_that_of_adamw(lab, saving):
    adamw = lab.run("sophia-adamw", "run.max_steps=8", ranks=2)
    plans = [json.loads((run / "memory.json").read_text())["allocated_bytes"] for run in (saving, adamw)]
    assert sum(plans[0].values()) == sum(plans[1].values())


@pytest.mark.parametrize("moments", ["fp32", "bf16", "int8"])
def test_a_group_may_have_it_while_others_have_adamw(lab, moments):
    settings = ["optimizer.groups=[{match: '*.mlp.*', name: sophia}]", "optimizer.hessian_every=3", "run.max_steps=8",
                f"optimizer.moments={moments}"]
    one = lab.run(f"sophia-group-{moments}-1", *settings)
    two = lab.run(f"sophia-group-{moments}-2", *settings, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-4 if moments == "fp32" else 1e-2)
    assert hessian_of(two) and all(".mlp." in name for name in hessian_of(two))
    assert any(values.any() for values in hessian_of(two).values())
    assert not any(".mlp." in name for kind in ("exp_avg_sq", "exp_avg_sq_codes") for name in weights(two, kind))
