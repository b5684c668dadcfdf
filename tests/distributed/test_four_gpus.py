"""On four GPUs over NCCL: every way to shard and every path, against the CPU in float32."""

import json
import pathlib

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden_losses_50_steps.json").read_text())
FIFTY_STEPS = ["run.max_steps=50", "run.num_epochs=4"]
FP32 = ["precision.compute=fp32", "precision.reduce=fp32"]
BF16 = ["precision.compute=bf16", "precision.reduce=bf16"]
BF16_SUMS_IN_FP32 = ["precision.compute=bf16", "precision.reduce=fp32"]
SEVERAL_MICRO_BATCHES = "batch.max_tokens_per_micro_batch=512"

LAYOUTS = {
    "zero-3": [],  # weights stay from forward to backward: on a GPU there is memory for it
    "three-slots": ["parallel.gather_slots=3"],
    "zero-2": ["parallel.zero_stage=2"],
    "two-groups": ["parallel.shard_size=2"],
    "four-replicas": ["parallel.shard_size=1"],
    "local-sums": ["parallel.accumulate=local"],
    "two-groups-local-sums": ["parallel.shard_size=2", "parallel.accumulate=local"],
    "one-slot": ["parallel.gather_slots=1", "debug.poison_slots=true"],
}
GATHER_PATHS = ["copy_engine", "symmetric", "ring"]
REDUCE_PATHS = ["copy_engine", "symmetric", "ring"]


def check(run_folder, tolerance):
    numpy.testing.assert_allclose(losses(run_folder), GOLDEN, rtol=tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_float32_losses_are_those_of_the_cpu(lab, layout):
    check(lab.run(f"fp32-{layout}", *FIFTY_STEPS, *FP32, *LAYOUTS[layout], "debug.check_gathers=true", ranks=4), 2e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bfloat16_follows(lab, layout):
    settings = [*FIFTY_STEPS, *BF16, *LAYOUTS[layout], SEVERAL_MICRO_BATCHES]
    check(lab.run(f"bf16-{layout}", *settings, ranks=4), 5e-3)


@pytest.mark.parametrize("path", REDUCE_PATHS)
@pytest.mark.parametrize("dtypes", [BF16, BF16_SUMS_IN_FP32], ids=["bf16", "fp32"])
def test_every_path_of_reductions_follows(lab, path, dtypes):
    name = f"reduced-{path}-{dtypes[1][-4:]}"
    check(lab.run(name, *FIFTY_STEPS, *dtypes, f"parallel.reduce_path={path}", ranks=4), 5e-3)


@pytest.mark.parametrize("path", GATHER_PATHS)
def test_groups_of_two_take_every_path(lab, path):
    """A path that is named is taken or refused: here by communicators that were split."""
    paths = [f"parallel.gather_path={path}", f"parallel.reduce_path={path}"]
    check(lab.run(f"grouped-{path}", *FIFTY_STEPS, *BF16, "parallel.shard_size=2", *paths, ranks=4), 5e-3)


def test_gathers_give_the_same_bits_on_every_path(lab):
    exact = [*BF16, "precision.deterministic=true", "parallel.reduce_path=ring"]
    runs = [lab.run(f"gathered-{path}", *exact, f"parallel.gather_path={path}", ranks=4) for path in GATHER_PATHS]
    for other in runs[1:]:
        assert_bit_equal(other, runs[0])


@pytest.mark.parametrize("layout", ["zero-3", "zero-2", "two-groups", "local-sums"])
def test_a_deterministic_run_repeats_bit_for_bit(lab, layout):
    exact = [*BF16, "precision.deterministic=true", *LAYOUTS[layout]]
    runs = [lab.run(f"repeated-{layout}-{i}", *exact, ranks=4) for i in range(2)]
    assert_bit_equal(*runs)


def test_replicas_hold_the_same_weights_as_one_group(lab):
    settings = [*FP32, "run.max_steps=5"]
    groups = weights(lab.run("groups", *settings, "parallel.shard_size=2", ranks=4))
    whole = weights(lab.run("whole", *settings, ranks=4))
    for name in whole:
        numpy.testing.assert_allclose(groups[name], whole[name], rtol=1e-3, atol=1e-4)


def test_four_gpus_equal_one_up_to_bfloat16_noise(lab):
    one, four = lab.run("one", *BF16), lab.run("four", *BF16, ranks=4)
    numpy.testing.assert_allclose(losses(four), losses(one), rtol=5e-3)
    assert steps(four)[1]["grad_norm"] == pytest.approx(steps(one)[1]["grad_norm"], rel=2e-2)


@pytest.mark.parametrize("precision, tolerance", [(FP32, 1e-4), (BF16, 5e-3)], ids=["fp32", "bf16"])
def test_four_gpus_resumed_on_two_and_on_four(lab, precision, tolerance):
    settings = [*precision, "checkpoint.save_steps=7", "checkpoint.keep=5"]
    name = f"saved-{precision[0][-4:]}"
    four = lab.run(name, *settings, ranks=4)
    for ranks in (2, 4):
        take_checkpoint(four, 7, lab.folder / "runs" / f"{name}-on-{ranks}")
        resumed = lab.run(f"{name}-on-{ranks}", *settings, ranks=ranks)
        numpy.testing.assert_allclose(losses(resumed), losses(four)[7:], rtol=tolerance)


def test_two_nodes_are_two_groups(lab):
    """NCCL_HOSTID divides the ranks into two hosts: NCCL uses sockets between the halves."""
    nodes = {rank: {"NCCL_HOSTID": f"node{rank // 2}", "CUDA_VISIBLE_DEVICES": "0,1" if rank < 2 else "2,3"}
             for rank in range(4)}
    code, out, err = lab.finish(lab.start("nodes", *FIFTY_STEPS, *FP32, ranks=4, rank_environment=nodes))
    assert code == 0, err
    assert "2 of 4 ranks share one copy" in out + err
    check(lab.folder / "runs" / "nodes", 2e-4)
