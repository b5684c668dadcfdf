"""The same optimizer batches give the same losses however the work is laid out."""

import json
import pathlib
import subprocess

import numpy
import pytest
from runs import PROGRAM, assert_bit_equal, losses, steps, weights

GOLDEN = pathlib.Path(__file__).parent / "golden_losses.json"


@pytest.fixture(scope="session")
def one_rank(lab):
    return lab.run("one-rank")


def assert_same_losses(run_folder, reference, tolerance=2e-5):
    numpy.testing.assert_allclose(losses(run_folder), losses(reference), rtol=tolerance)


def test_the_loss_falls(one_rank):
    values = losses(one_rank)
    assert len(values) == 20
    assert values[-1] < values[0] - 0.02


def test_losses_are_those_of_the_stored_golden_run(one_rank):
    numpy.testing.assert_allclose(losses(one_rank), json.loads(GOLDEN.read_text()), rtol=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_n_ranks_equal_one(lab, one_rank, ranks):
    run_folder = lab.run(f"{ranks}-ranks", ranks=ranks)
    assert_same_losses(run_folder, one_rank)
    mine, theirs = steps(run_folder), steps(one_rank)
    for step in mine:
        assert mine[step]["num_tokens"] == theirs[step]["num_tokens"]
        assert mine[step]["num_loss_tokens"] == theirs[step]["num_loss_tokens"]
        assert mine[step]["grad_norm"] == pytest.approx(theirs[step]["grad_norm"], rel=1e-4)


@pytest.mark.parametrize(("ranks", "shard_size"), [(2, 1), (4, 2), (4, 1)])
def test_replicas_equal_one_rank(lab, one_rank, ranks, shard_size):
    several_micro_batches = "batch.max_tokens_per_micro_batch=512"
    for settings in ([], [several_micro_batches, "debug.poison_slots=true", "debug.stream_delay_us=300"]):
        name = f"{ranks}-ranks-{shard_size}-{len(settings)}"
        run_folder = lab.run(name, f"parallel.shard_size={shard_size}", *settings, ranks=ranks)
        assert_same_losses(run_folder, one_rank)
        mine, theirs = steps(run_folder), steps(one_rank)
        for step in mine:
            assert mine[step]["grad_norm"] == pytest.approx(theirs[step]["grad_norm"], rel=1e-4)


def test_nodes_become_shard_groups(lab, one_rank):
    """Ranks of one machine that differ in NCCL_HOSTID count as ranks of different nodes."""
    nodes = {rank: {"NCCL_HOSTID": f"node{rank // 2}"} for rank in range(4)}
    code, out, err = lab.finish(lab.start("two-nodes", ranks=4, rank_environment=nodes))
    assert code == 0, err
    assert "2 of 4 ranks share one copy" in out + err
    assert_same_losses(lab.folder / "runs" / "two-nodes", one_rank)


def test_nodes_with_too_little_memory_share_one_copy_in_plan_and_run(lab, one_rank):
    def plan(*settings):
        command = [PROGRAM, "plan", str(lab.config("crowded")), "--memory", "--json", "--hosts", "2",
                   "--ranks-per-node", "2", "parallel.backend=mpi", *settings]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    needed = [plan(f"parallel.shard_size={ranks}")["predicted_memory_bytes"] for ranks in (2, 4)]
    assert needed[1] < needed[0]
    limit = f"memory.limit_gib={sum(needed) / 2 / 2**30}"
    assert plan(limit)["shard_size"] == 4
    nodes = {rank: {"NCCL_HOSTID": f"node{rank // 2}"} for rank in range(4)}
    code, out, err = lab.finish(lab.start("crowded", "parallel.backend=mpi", limit, ranks=4,
                                          rank_environment=nodes))
    assert code == 0, err
    assert "4 of 4 ranks share one copy" in out + err
    run_folder = lab.folder / "runs" / "crowded"
    assert json.loads((run_folder / "plan.json").read_text())["entries"][-1]["shard_size"] == 4
    assert_same_losses(run_folder, one_rank)


def test_a_group_must_divide_the_ranks(lab):
    code, _, err = lab.finish(lab.start("three", "parallel.shard_size=3", ranks=4))
    assert code == 64, err
    assert "parallel.shard_size is 3, which does not divide 4 ranks" in err


@pytest.mark.parametrize("key", ["parallel.gather_path", "parallel.reduce_path"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_paths_of_nccl_are_refused_on_the_cpu(lab, key, ranks):
    code, _, err = lab.finish(lab.start("paths", f"{key}=symmetric", ranks=ranks))
    assert code == 64, err
    assert f"{key} names a path of NCCL" in err


def test_fifty_steps_are_those_of_the_stored_run(lab):
    golden = json.loads((pathlib.Path(__file__).parent / "golden_losses_50_steps.json").read_text())
    found = lab.run("fifty", "run.max_steps=50", "run.num_epochs=4", ranks=2)
    numpy.testing.assert_allclose(losses(found), golden, rtol=2e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_balanced_equals_padding_free(lab, one_rank, ranks):
    assert_same_losses(lab.run(f"padding-free-{ranks}", "batch.strategy=padding_free", ranks=ranks), one_rank)


def test_padding_equals_balanced(lab, one_rank):
    padded = lab.run("padding-2", "batch.strategy=padding", ranks=2)
    assert_same_losses(padded, one_rank)
    share = [numpy.mean([line["padding_fraction"] for line in steps(run).values()]) for run in (padded, one_rank)]
    assert share[0] > share[1] + 0.1


@pytest.mark.parametrize("strategy", [
    ["batch.strategy=multipack"],
    ["batch.strategy=fixed_length", "data.max_length=128"],
    ["batch.strategy=fixed_length", "data.max_length=128", "batch.cross_example_attention=true"],
], ids=["multipack", "fixed-length", "cross-example-attention"])
def test_packs_of_a_step_give_the_same_loss_on_any_ranks(lab, strategy):
    settings = [*strategy, "batch.global_batch_size=null", "batch.global_batch_tokens=2048", "run.max_steps=8"]
    name = "-".join(strategy).replace("=", "-")
    one, two = lab.run(f"{name}-1", *settings), lab.run(f"{name}-2", *settings, ranks=2)
    assert_same_losses(two, one)
    assert len(losses(one)) == 8
    assert numpy.mean([line["num_tokens"] for line in steps(one).values()]) > 0.9 * 2048


def test_attention_across_examples_changes_the_loss_but_not_what_is_trained(lab):
    settings = ["batch.strategy=fixed_length", "data.max_length=128", "batch.global_batch_size=8", "run.max_steps=2"]
    apart = steps(lab.run("rows-apart", *settings))
    joined = steps(lab.run("rows-joined", *settings, "batch.cross_example_attention=true"))
    for step in apart:
        assert joined[step]["num_loss_tokens"] == apart[step]["num_loss_tokens"]
        assert joined[step]["loss"] != apart[step]["loss"]


def test_a_step_of_rows_without_a_label_has_no_loss(lab):
    store = lab.folder / "late-label"
    lines = lab.folder / "late-label.jsonl"
    ids = [token % 500 for token in range(300)]
    lines.write_text(json.dumps({"input_ids": ids, "labels": [-100] * 299 + ids[299:]}) + "\n")
    subprocess.run([PROGRAM, "prepare", "--pretokenized", str(lines), "--vocab-size", "512", "--out", str(store)],
                   check=True, capture_output=True)
    found = steps(lab.run("late-label", f"data.train={store}", "batch.strategy=fixed_length", "data.max_length=64",
                          "batch.global_batch_size=1", "run.max_steps=5", ranks=2))
    assert [found[step]["num_loss_tokens"] for step in range(1, 6)] == [0, 0, 0, 0, 1]
    assert [found[step]["loss"] for step in range(1, 5)] == [0, 0, 0, 0]
    assert found[5]["loss"] > 1


@pytest.mark.parametrize("overrides", [
    ["parallel.zero_stage=2"],
    ["parallel.gather_slots=1"],
    ["parallel.gather_slots=2", "debug.poison_slots=true", "debug.stream_delay_us=500"],
    ["parallel.gather_slots=64", "debug.stream_delay_us=500"],
    ["memory.recompute=full"],
    ["parallel.resident_embeddings=false", "debug.poison_slots=true", "debug.stream_delay_us=500"],
], ids=["zero-stage-2", "one-slot", "poisoned-and-delayed", "slots-for-all", "recomputed", "embeddings-that-share"])
def test_the_schedule_changes_no_bit(lab, overrides):
    reference = lab.run("two-ranks-plain", ranks=2)
    assert losses(lab.run("two-ranks-" + overrides[0].replace("=", "-"), *overrides, ranks=2)) == losses(reference)


def test_a_deterministic_run_repeats_bit_for_bit(lab):
    runs = [lab.run(f"repeated-{i}", "precision.deterministic=true", ranks=2) for i in range(2)]
    assert_bit_equal(*runs)


def test_accumulation_equals_one_batch(lab, one_rank):
    small = lab.run("accumulated", "batch.max_tokens_per_micro_batch=512")
    large = lab.run("one-batch", "batch.max_tokens_per_micro_batch=65536")
    assert steps(small)[1]["fill"] != steps(large)[1]["fill"]
    assert_same_losses(small, one_rank)
    assert_same_losses(large, one_rank)


def test_each_example_weighs_the_same_when_asked(lab):
    one = lab.run("examples-1", "batch.normalize=examples")
    two = lab.run("examples-2", "batch.normalize=examples", ranks=2)
    assert_same_losses(two, one)
    assert losses(one) != losses(lab.run("tokens-1"))


def test_initial_weights_are_the_same_at_any_number_of_ranks(lab):
    still = ["optimizer.learning_rate=0", "optimizer.weight_decay=0", "run.max_steps=1"]
    reference = weights(lab.run("init-1", *still))
    for ranks in (2, 4):
        found = weights(lab.run(f"init-{ranks}", *still, ranks=ranks))
        assert found.keys() == reference.keys()
        for name in reference:
            assert numpy.array_equal(found[name], reference[name]), name


def test_frozen_parameters_stay_bit_equal_and_have_no_moments(lab):
    frozen = "model.frozen=[embed.weight, layers.0.*, layers.2.mlp.*]"
    start = weights(lab.run("init-frozen", "optimizer.learning_rate=0", "optimizer.weight_decay=0", "run.max_steps=1"))
    run_folder = lab.run("frozen", frozen, ranks=2)
    end, moments = weights(run_folder), weights(run_folder, "exp_avg")
    for name in start:
        is_frozen = name == "embed.weight" or name.startswith(("layers.0.", "layers.2.mlp."))
        assert numpy.array_equal(start[name], end[name]) == is_frozen, name
        assert (name in moments) != is_frozen, name
    assert_same_losses(run_folder, lab.run("frozen-1", frozen))


def test_bfloat16_follows_float32(lab, one_rank):
    run_folder = lab.run("bf16", "precision.compute=bf16", "precision.reduce=bf16", ranks=2)
    numpy.testing.assert_allclose(losses(run_folder), losses(one_rank), rtol=5e-3)


def test_evaluation_is_the_same_on_any_number_of_ranks(lab):
    found = [lab.evaluate("evaluated", ranks=ranks) for ranks in (1, 2)]
    small = lab.evaluate("evaluated", "batch.max_tokens_per_micro_batch=512")
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-6)
    assert found[0]["loss"] == pytest.approx(small["loss"], rel=1e-6)
    assert found[0]["num_loss_tokens"] == found[1]["num_loss_tokens"] > 0


def test_evaluation_equals_one_example_a_micro_batch(lab):
    store = lab.make_store("none-fit-together", 30, 13, lengths="lognormal:4.4,0.3,60,100")
    validation = [f"data.validation={store}", "data.max_length=100"]
    alone = lab.evaluate("unpacked", *validation, "batch.max_tokens_per_micro_batch=119")  # 60 + 60 > 119
    for ranks in (1, 2):
        packed = lab.evaluate("packed", *validation, "batch.max_tokens_per_micro_batch=1024", ranks=ranks)
        assert packed["loss"] == pytest.approx(alone["loss"], rel=1e-6)
        assert packed["num_loss_tokens"] == alone["num_loss_tokens"]
