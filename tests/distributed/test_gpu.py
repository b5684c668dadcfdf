"""On GPUs over NCCL: the CPU's golden run again, one GPU = two, stages and resuming."""

import json
import pathlib

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights
from test_other_launchers import torchrun
from traces import named, read_trace

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_losses.json").read_text())
BF16 = ["precision.compute=bf16", "precision.reduce=bf16"]
SEVERAL = ["batch.max_tokens_per_micro_batch=512", "batch.global_batch_size=48"]  # micro-batches a step


def entry_of(run):
    return json.loads((run / "plan.json").read_text())["entries"][-1]


@pytest.fixture(scope="session")
def one_gpu(lab):
    return lab.run("one-gpu", *BF16, "checkpoint.save_steps=7", "checkpoint.keep=5")


@pytest.fixture(scope="session")
def two_gpus(lab):
    return lab.run("two-gpus", *BF16, "checkpoint.save_steps=7", "checkpoint.keep=5", ranks=2)


@pytest.mark.parametrize("ranks", [1, 2])
def test_float32_losses_are_the_golden_ones(lab, ranks):
    run_folder = lab.run(f"fp32-{ranks}", ranks=ranks)
    numpy.testing.assert_allclose(losses(run_folder), GOLDEN, rtol=1e-4)


def test_bfloat16_follows_float32(one_gpu):
    numpy.testing.assert_allclose(losses(one_gpu), GOLDEN, rtol=5e-3)


def test_two_gpus_equal_one_up_to_bfloat16_noise(one_gpu, two_gpus):
    numpy.testing.assert_allclose(losses(two_gpus), losses(one_gpu), rtol=5e-3)
    assert steps(two_gpus)[1]["grad_norm"] == pytest.approx(steps(one_gpu)[1]["grad_norm"], rel=2e-2)


@pytest.mark.parametrize("overrides", [
    ["parallel.zero_stage=2"],
    ["parallel.gather_slots=2", "debug.poison_slots=true"],
    ["memory.recompute=full"],
    ["memory.offload=activations", "memory.recompute=full"],
], ids=["zero-stage-2", "poisoned", "recomputed", "offloaded"])
def test_the_schedule_changes_no_bit(lab, overrides):
    exact = [*BF16, "precision.deterministic=true"]
    reference = lab.run("two-gpus-exact", *exact, ranks=2)
    found = lab.run("two-gpus-" + overrides[0].replace("=", "-"), *exact, *overrides, ranks=2)
    assert losses(found) == losses(reference)


@pytest.mark.parametrize("ranks, settings", [
    (1, []), (2, []), (1, ["precision.compute=fp32", "precision.reduce=fp32"]), (2, ["optimizer.moments=bf16"]),
    (1, ["optimizer.moments=int8"]), (1, ["optimizer.name=muon"]), (2, ["optimizer.name=muon"]),
    (1, ["optimizer.name=sophia", "optimizer.hessian_every=2"]), (2, ["optimizer.name=lion"]),
    (2, ["parallel.shard_size=1", "guard.check_replicas_steps=2"]), (2, ["parallel.zero_stage=2"]),
    (1, ["adapter.kind=lora", "adapter.rank=8"]), (1, ["precision.linear=fp8_tensor"])])
def test_an_optimizer_state_in_host_memory_changes_no_bit(lab, ranks, settings):
    exact = [*BF16, "precision.deterministic=true", "run.max_steps=6", "checkpoint.save_steps=3", "checkpoint.keep=5", *settings]
    name = "-".join(["gpu-state", str(ranks), *settings]).replace("=", "-")
    kept = lab.run(f"{name}-kept", *exact, ranks=ranks)
    offloaded = lab.run(f"{name}-offloaded", *exact, "memory.offload=optimizer", ranks=ranks)
    assert_bit_equal(offloaded, kept)
    for kind in ("exp_avg", "exp_avg_sq", "exp_avg_codes", "momentum_buffer", "hessian", "lion_exp_avg"):
        found, wanted = weights(offloaded, kind), weights(kept, kind)
        assert found.keys() == wanted.keys()
        assert all((found[parameter] == wanted[parameter]).all() for parameter in wanted), kind
    take_checkpoint(kept, 3, lab.folder / "runs" / f"{name}-resumed")
    resumed = lab.run(f"{name}-resumed", *exact, "memory.offload=optimizer", ranks=ranks)
    assert losses(resumed) == losses(kept)[3:]


@pytest.mark.parametrize("dtypes", [BF16, ["precision.compute=bf16", "precision.reduce=fp32"]], ids=["bf16", "fp32"])
@pytest.mark.parametrize("path", ["copy_engine", "symmetric", "ring"])
def test_local_sums_equal_reductions_of_each_micro_batch(lab, path, dtypes):
    settings = [*dtypes, *SEVERAL, f"parallel.reduce_path={path}"]
    name = f"{path}-{dtypes[1][-4:]}"
    local, shard = (lab.run(f"{way}-{name}", *settings, f"parallel.accumulate={way}", ranks=2)
                    for way in ("local", "shard"))
    numpy.testing.assert_allclose(losses(local), losses(shard), rtol=5e-3)
    assert entry_of(local)["accumulate"] == "local" and "accumulate" not in entry_of(shard)


def test_local_sums_are_the_choice_where_steps_have_several_micro_batches(lab):
    few = [*BF16, "run.max_steps=3"]
    assert entry_of(lab.run("chosen-local", *few, *SEVERAL, ranks=2))["accumulate"] == "local"
    assert "accumulate" not in entry_of(lab.run("chosen-shard", *few, ranks=2))


def test_local_sums_repeat_bit_for_bit(lab):
    exact = [*BF16, *SEVERAL, "precision.deterministic=true", "parallel.accumulate=local"]
    runs = [lab.run(f"local-repeated-{i}", *exact, ranks=2) for i in range(2)]
    assert_bit_equal(*runs)


FP8 = [*BF16, "precision.linear=fp8_tensor", "precision.weight_gradient=fp8"]


@pytest.mark.parametrize("overrides", [
    ["parallel.gather_path=copy_engine"],
    ["parallel.gather_path=symmetric"],
    ["parallel.zero_stage=2"],
    ["parallel.gather_slots=1", "debug.poison_slots=true"],
], ids=["copy-engine", "symmetric", "zero-stage-2", "poisoned"])
def test_how_8_bit_weights_are_gathered_changes_no_bit(lab, overrides):
    exact = [*FP8, "precision.deterministic=true", "debug.check_gathers=true", "parallel.reduce_path=ring", "run.max_steps=8"]
    reference = lab.run("two-gpus-fp8", *exact, "parallel.gather_path=ring", ranks=2)
    found = lab.run("two-gpus-fp8-" + overrides[0].replace("=", "-"), *exact, *overrides, ranks=2)
    assert_bit_equal(found, reference)


def test_8_bit_weights_that_are_gathered_train_as_those_of_one_gpu(lab):
    # Sums of tensor cores differ with the shape of a product, so that codes do too: some percent of a gradient.
    one = lab.run("fp8-one-gpu", *FP8)
    numpy.testing.assert_allclose(losses(lab.run("fp8-two-gpus", *FP8, ranks=2)), losses(one), rtol=1e-2)


# 8-bit products round again where another order of sums changed the last bits.
@pytest.mark.parametrize(("base", "more"), [("nf4", []), ("fp8", []), ("fp8", ["precision.linear=fp8_tensor"])])
def test_an_adapter_over_encoded_weights_on_two_gpus_equals_one(lab, base, more):
    settings = [*BF16, "adapter.kind=lora", "adapter.rank=8", "optimizer.learning_rate=1.0e-2", f"model.base={base}", *more]
    name = "-".join(["adapter", base, *more])
    one = lab.run(f"{name}-one-gpu", *settings)
    two = lab.run(f"{name}-two-gpus", *settings, "memory.recompute=full", "memory.offload=activations", ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=5e-3)
    assert losses(one)[-1] < losses(one)[0]


@pytest.mark.parametrize("ranks, base", [(1, "bf16"), (2, "bf16"), (2, "nf4")])
def test_adapters_trained_together_have_the_losses_of_their_own_runs(lab, ranks, base):
    """Ranks of 8 and 16 are those of the kernels. On one GPU the steps are CUDA graphs."""
    settings = [*BF16, "data.validation=null", "optimizer.learning_rate=1.0e-2", f"model.base={base}"]
    entries = {"small": {"rank": 8, "alpha": 16}, "large": {"rank": 16, "alpha": 32, "targets": ["q_proj", "down_proj"]}}
    graphs = ["run.cuda_graphs=on", "batch.max_tokens_per_micro_batch=8192"] if ranks == 1 else []
    together = "adapters=" + json.dumps([{"name": name, **entry} for name, entry in entries.items()])
    joined = lab.run(f"gpu-together-{ranks}-{base}", *settings, *graphs, together, ranks=ranks)
    for name, entry in entries.items():
        own = [f"adapter.{key}={json.dumps(value)}" for key, value in entry.items()]
        alone = lab.run(f"gpu-alone-{name}-{ranks}-{base}", *settings, "adapter.kind=lora", f"adapter.name={name}", *own)
        found = [line["adapters"][name]["loss"] for _, line in sorted(steps(joined).items())]
        numpy.testing.assert_allclose(found, losses(alone), rtol=5e-3)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_deterministic_run_repeats_bit_for_bit(lab, ranks):
    runs = [lab.run(f"repeated-{ranks}-{i}", *BF16, "precision.deterministic=true", ranks=ranks) for i in range(2)]
    assert_bit_equal(*runs)


def test_two_gpus_resumed_on_one(lab, two_gpus):
    take_checkpoint(two_gpus, 7, lab.folder / "runs" / "resumed-on-one")
    resumed = lab.run("resumed-on-one", *BF16)
    numpy.testing.assert_allclose(losses(resumed), losses(two_gpus)[7:], rtol=5e-3)


def test_the_second_replica_resumes_from_what_the_first_has_read(lab):
    """Bit by bit; the second reads no file, neither of a checkpoint nor of a model's folder."""
    alone = [*BF16, "precision.deterministic=true", "parallel.shard_size=1", "checkpoint.save_steps=7", "checkpoint.keep=5"]
    whole = lab.run("replicas", *alone, ranks=2)
    take_checkpoint(whole, 7, lab.folder / "runs" / "replicas-resumed")
    resumed = lab.run("replicas-resumed", *alone, ranks=2)
    assert losses(resumed) == losses(whole)[7:]
    assert "read 0.00 GiB of 0 files" in (resumed / "log" / "rank-1.log").read_text()
    begun = [lab.run(f"replicas-begun-{ranks}", *BF16, "model.config=null", f"model.path={whole}/checkpoints/step-7",
                     f"parallel.shard_size={ranks}", "run.max_steps=3", ranks=2) for ranks in (1, 2)]
    numpy.testing.assert_allclose(losses(begun[0]), losses(begun[1]), rtol=5e-3)


def test_a_trace_has_kernels_and_collectives_on_their_streams(lab):
    run_folder = lab.run("traced", *BF16, "run.trace_steps=1", ranks=2)
    for rank in range(2):
        _, rows = read_trace(run_folder / "trace" / f"rank-{rank}.json")
        for row, action in (("compute", "backward layers.3"), ("gather", "gather layers.3"), ("reduce", "reduce layers.3")):
            assert named(rows, row, action), row
            done = [box for box in rows[row] if box["cat"] in ("kernel", "copy")]
            assert all("range" in box["args"] for box in done), row
            assert any(box["args"]["range"].startswith(action.split()[0]) or row == "compute" for box in done), row


def test_evaluation_equals_the_cpu(lab):
    on_gpu = lab.evaluate("evaluated", ranks=2)
    on_cpu = lab.evaluate("evaluated", "parallel.backend=mpi", ranks=2)
    assert on_gpu["loss"] == pytest.approx(on_cpu["loss"], rel=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_continuations_equal_the_cpus(lab, ranks):
    words = ["run.max_steps=4", "samples.steps=2", "samples.num_prompts=3", "samples.max_new_tokens=12"]
    on_gpu = lab.run(f"sampled-{ranks}", *words, ranks=ranks)
    on_cpu = lab.run(f"sampled-on-the-cpu-{ranks}", *words, "parallel.backend=mpi", ranks=ranks)
    assert (on_gpu / "samples.jsonl").read_text() == (on_cpu / "samples.jsonl").read_text()


def test_sampling_changes_no_bit_of_training(lab):
    words = [*BF16, "precision.deterministic=true", "run.max_steps=8"]
    sampled = lab.run("sampled", *words, "samples.steps=2", "samples.max_new_tokens=12", ranks=2)
    assert_bit_equal(sampled, lab.run("not-sampled", *words, ranks=2))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_verify_passes(lab, precision, ranks):
    words = [f"precision.compute={precision}", f"precision.reduce={precision}", "--json"]
    code, out, err = lab.finish(lab.start("verified", *words, ranks=ranks, command="verify"))
    assert code == 0, out + err


def test_more_ranks_than_gpus_are_refused(lab):
    code, _, err = lab.finish(lab.start("too-many", ranks=9))
    assert code == 69
    assert "9 ranks" in err


def test_ranks_that_see_one_gpu_each_take_it(lab):
    exact = [*BF16, "precision.deterministic=true"]
    own = {rank: {"CUDA_VISIBLE_DEVICES": str(1 - rank)} for rank in range(2)}
    code, _, err = lab.finish(lab.start("own-gpus", *exact, ranks=2, rank_environment=own))
    assert code == 0, err
    assert_bit_equal(lab.folder / "runs/own-gpus", lab.run("all-gpus", *exact, ranks=2))


def test_ranks_that_would_share_a_gpu_are_named(lab):
    same = {rank: {"CUDA_VISIBLE_DEVICES": "1"} for rank in range(2)}
    code, _, err = lab.finish(lab.start("shared-gpu", ranks=2, rank_environment=same))
    assert code == 69, err
    assert "ranks 0 and 1 would share GPU" in err, err


def test_torchrun_trains_as_mpirun_does(lab):
    exact = [*BF16, "precision.deterministic=true"]
    process = torchrun(lab, "by-torchrun", *exact)
    code, _, err = lab.finish(process)
    assert code == 0, err
    assert_bit_equal(lab.folder / "runs/by-torchrun", lab.run("by-mpirun", *exact, ranks=2))
