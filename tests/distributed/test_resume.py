"""Resumed = uninterrupted, at the same and at other numbers of ranks; stopping on request."""

import json
import signal
import time

import numpy
import pytest
from runs import PATIENCE_S, losses, slow_from, steps, take_checkpoint


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("unbroken", "checkpoint.save_steps=7", "checkpoint.keep=10", ranks=2)


@pytest.mark.parametrize("step", [7, 14])
def test_resumed_run_is_bit_equal(lab, unbroken, step):
    name = f"resumed-{step}"
    take_checkpoint(unbroken, step, lab.folder / "runs" / name)
    resumed = steps(lab.run(name, ranks=2))
    assert sorted(resumed) == list(range(step + 1, 21))
    for number, line in resumed.items():
        assert line["loss"] == steps(unbroken)[number]["loss"]
        assert line["grad_norm"] == steps(unbroken)[number]["grad_norm"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_moments_in_bfloat16_resume_bit_equal_and_convert(lab, unbroken, ranks):
    settings = ["optimizer.moments=bf16", "precision.compute=bf16", "precision.reduce=bf16",
                "batch.max_tokens_per_micro_batch=1024", "checkpoint.save_steps=7", "checkpoint.keep=10"]
    whole = lab.run(f"moments-{ranks}", *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(whole), losses(unbroken), rtol=2e-2)
    for moments in ("bf16", "fp32"):
        name = f"moments-{ranks}-{moments}"
        take_checkpoint(whole, 7, lab.folder / "runs" / name)
        code, _, err = lab.finish(lab.start(name, *settings, f"optimizer.moments={moments}",
                                            "checkpoint.allow_changed=[optimizer.moments]", ranks=ranks))
        assert code == 0, err
        resumed = losses(lab.folder / "runs" / name)
        numpy.testing.assert_allclose(resumed, losses(whole)[7:], rtol=0 if moments == "bf16" else 2e-3)
        assert ("moments are converted from bf16 to fp32" in err) == (moments == "fp32")


@pytest.mark.parametrize("strategy", ["multipack", "fixed_length"])
def test_resumes_in_the_middle_of_packs_on_other_ranks(lab, strategy):
    settings = [f"batch.strategy={strategy}", "data.max_length=512", "batch.global_batch_size=2",
                "checkpoint.save_steps=6", "checkpoint.keep=10", "run.max_steps=14"]
    whole = lab.run(f"{strategy}-whole", *settings)
    take_checkpoint(whole, 6, lab.folder / "runs" / f"{strategy}-resumed")
    resumed = lab.run(f"{strategy}-resumed", *settings, ranks=2)
    assert sorted(steps(resumed)) == list(range(7, 15))
    numpy.testing.assert_allclose(losses(resumed), losses(whole)[6:], rtol=2e-5)


def test_a_run_asked_to_keep_nothing_leaves_no_checkpoint(lab):
    run = lab.run("kept-nothing", "checkpoint.save_final=false", "run.max_steps=3")
    assert len(steps(run)) == 3
    assert not (run / "checkpoints").exists() or not list((run / "checkpoints").iterdir())


def test_resumes_on_four_then_two_then_three_then_one_rank(lab, unbroken):
    """Across the end of the first epoch, which has 15 steps."""
    saves = ["checkpoint.save_steps=4", "checkpoint.keep=10"]
    before = lab.run("chain-4", *saves, ranks=4)
    for ranks, step in ((2, 4), (3, 8), (1, 16)):
        take_checkpoint(before, step, lab.folder / "runs" / f"chain-{ranks}")
        before = lab.run(f"chain-{ranks}", *saves, ranks=ranks)
        assert sorted(steps(before)) == list(range(step + 1, 21))
        numpy.testing.assert_allclose(losses(before), losses(unbroken)[step:], rtol=2e-5)
        for number, line in steps(before).items():
            for key in ("num_examples", "num_tokens", "num_loss_tokens", "epoch", "learning_rate"):
                assert line[key] == steps(unbroken)[number][key]


def test_replicas_are_saved_once_and_resume_as_one_group(lab, unbroken):
    four = lab.run("replicas", "checkpoint.save_steps=7", "checkpoint.keep=10", "parallel.shard_size=2", ranks=4)
    files = sorted(path.name for path in (four / "checkpoints" / "step-7").glob("*.safetensors"))
    assert files == ["rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors"]
    take_checkpoint(four, 7, lab.folder / "runs" / "one-group")
    take_checkpoint(four, 14, lab.folder / "runs" / "other-replicas")
    whole = lab.run("one-group", ranks=2)
    replicas = lab.run("other-replicas", "parallel.shard_size=1", ranks=2)
    numpy.testing.assert_allclose(losses(whole), losses(unbroken)[7:], rtol=2e-5)
    numpy.testing.assert_allclose(losses(replicas), losses(unbroken)[14:], rtol=2e-5)


def test_one_replica_reads_for_all(lab, unbroken):
    """The others' logs say that they read nothing."""
    name = "read-once"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, "parallel.shard_size=2", ranks=4)
    numpy.testing.assert_allclose(losses(resumed), losses(unbroken)[7:], rtol=2e-5)
    logs = [(resumed / "log" / f"rank-{rank}.log").read_text() for rank in range(4)]
    assert ["read 0.00 GiB of 0 files" in log for log in logs] == [False, False, True, True]


def test_weights_alone_start_a_new_run_and_resume_none(lab, unbroken):
    settings = ["checkpoint.weights_only=true", "checkpoint.save_steps=7", "checkpoint.keep=10"]
    run = lab.run("weights-only", *settings, ranks=2)
    assert losses(run) == losses(unbroken)
    folder = run / "checkpoints" / "step-14"

    def size(of):
        return sum(path.stat().st_size for path in of.glob("*.safetensors"))

    assert size(folder) < 0.36 * size(unbroken / "checkpoints" / "step-14")
    code, _, err = lab.finish(lab.start("weights-only", *settings, "run.max_steps=25", ranks=2))
    assert code == 66 and "has weights but no moments" in err and f"model.path: {run}" in err, err
    whole = lab.run("from-whole", "model.config=null", f"model.path={unbroken}/checkpoints/step-14", "run.max_steps=3")
    alone = lab.run("from-weights", "model.config=null", f"model.path={folder}", "run.max_steps=3")
    assert losses(alone) == losses(whole)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_signal_saves_and_the_same_command_continues(lab, ranks):
    name = f"stopped-{ranks}"
    longer = ["run.max_steps=60", "run.num_epochs=5"]
    process = lab.start(name, *longer, *slow_from(5, 56), ranks=ranks)
    metrics = lab.folder / "runs" / name / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE_S
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    code, _, err = lab.finish(process)
    assert code == 75, err
    assert "stopped on request" in err
    stopped_at = max(steps(lab.folder / "runs" / name))
    assert stopped_at < 60
    run_folder = lab.run(name, *longer, ranks=ranks)
    reference = lab.run(f"not-stopped-{ranks}", *longer, ranks=ranks)
    assert losses(run_folder) == losses(reference)


def test_another_data_set_is_refused(lab, unbroken):
    name = "other-data"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    other = lab.make_store("other", 100, 99)
    code, _, err = lab.finish(lab.start(name, f"data.train={other}"))
    assert code == 66
    assert "fingerprint" in err


@pytest.mark.parametrize("override, parts", [
    ("batch.order=sequential", ["batch.order: random", "sequential"]),
    ("batch.global_batch_size=8", ["batch.global_batch_size: 16", "8"]),
    ("run.seed=6", ["run.seed: 5", "6"]),
    ("data.max_length=500", ["data.max_length: 512", "500"]),
])
def test_other_optimizer_batches_are_refused(lab, unbroken, override, parts):
    name = "other-" + override.split("=")[0]
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    code, _, err = lab.finish(lab.start(name, override))
    assert code == 66
    for part in [*parts, "Restore the setting"]:
        assert part in err, err


CHANGES = {
    "optimizer.learning_rate": "0.004",
    "optimizer.betas": "[0.9, 0.99]",
    "schedule.min_ratio": "0.2",
    "batch.normalize": "examples",
    "precision.compute": "bf16",
    "model.config": "{model_type: llama, hidden_size: 64, intermediate_size: 160, num_hidden_layers: 4, "
                    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, hidden_act: silu, "
                    "max_position_embeddings: 512, rms_norm_eps: 1.0e-5, tie_word_embeddings: true}",
    "run.max_steps": "22",
    "run.seed": "6",
}


def test_every_changed_setting_is_named_and_refused_until_it_is_allowed(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "changed")
    overrides = [f"{key}={value}" for key, value in CHANGES.items()]
    code, _, err = lab.finish(lab.start("changed", *overrides))
    assert code == 66
    for part in [*CHANGES, "optimizer.learning_rate: 0.003, this run has 0.004",
                 "model.config: rms_norm_eps 1e-06, this run has rms_norm_eps 1e-05"]:
        assert part in err, err
    keys = list(CHANGES)
    some = f"checkpoint.allow_changed=[{','.join(keys[:-1])}]"
    code, _, err = lab.finish(lab.start("changed", *overrides, some))
    assert code == 66 and "run.seed: 5, this run has 6" in err and "allow_changed=[run.seed]" in err
    assert err.count("optimizer.learning_rate") == 1  # allowed: a warning
    run = lab.run("changed", *overrides, f"checkpoint.allow_changed=[{','.join(keys)}]", "checkpoint.save_steps=7")
    assert sorted(steps(run)) == list(range(8, 23))
    # It now resumes from its own checkpoint, of the new settings.
    take_checkpoint(run, 14, lab.folder / "runs" / "changed-again")
    assert losses(lab.run("changed-again", *overrides)) == losses(run)[7:]


@pytest.mark.parametrize("allowed", ["", "checkpoint.allow_changed=[model.config]"])
def test_a_model_of_another_size_is_always_refused(lab, unbroken, allowed):
    name = f"resized-{bool(allowed)}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    code, _, err = lab.finish(lab.start(name, "model.config.vocab_size=520", *filter(None, [allowed])))
    assert code == 66 and "vocab_size 512, this run has vocab_size 520" in err, err
    assert "holds a model of" in err and "model.resize_vocabulary" in err and "allow_changed" not in err


def test_a_run_given_as_a_model_is_answered_with_its_newest_checkpoint(lab, unbroken):
    code, _, err = lab.finish(lab.start("from-a-run", f"model.path={unbroken}", "model.config=null"))
    assert code == 64 and f"give its newest checkpoint, {unbroken}/checkpoints/step-" in err, err


def test_another_data_set_is_trained_on_when_it_is_allowed(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "other-data-allowed")
    other = lab.make_store("other-allowed", 240, 99)
    run = lab.run("other-data-allowed", f"data.train={other}", "checkpoint.allow_changed=[data.train]",
                  "checkpoint.allow_repeated=true")
    assert sorted(steps(run)) == list(range(8, 21))
    assert losses(run) != losses(unbroken)[7:]


def test_other_loss_weights_are_another_data_set(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "weighted")
    weighted = f"data.train=[{{path: {lab.train_store}, loss_weight: 2.0}}]"
    code, _, err = lab.finish(lab.start("weighted", weighted))
    assert code == 66 and "data.train: loss_weight 1, this run has loss_weight 2" in err, err


def test_what_decides_no_number_may_change_at_any_time(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "free")
    run = lab.run("free", "checkpoint.save_steps=3", "guard.step_timeout_s=100", "parallel.zero_stage=2",
                  "memory.recompute=full", "run.evaluate_steps=5", "run.num_epochs=3", ranks=2)
    numpy.testing.assert_allclose(losses(run), losses(unbroken)[7:], rtol=2e-5)


def test_a_longer_run_is_another_run_only_where_the_schedule_looks_at_its_length(lab, unbroken):
    constant = ["schedule.name=constant", "schedule.warmup_steps=2", "checkpoint.save_steps=7"]
    short = lab.run("constant", *constant, "run.max_steps=14")
    longer = lab.run("constant", *constant, "run.max_steps=16")
    assert short == longer and sorted(steps(longer)) == list(range(1, 17))


def test_ranks_that_were_started_differently_are_named(lab):
    for ranks, key, value in ((2, "optimizer.learning_rate", "0.1"), (3, "run.output", "runs/elsewhere")):
        code, _, err = lab.finish(lab.start("unlike", ranks=ranks, rank_overrides={ranks - 1: [f"{key}={value}"]}))
        assert code == 64, err
        assert f"rank {ranks - 1} was started with {key}: " in err and "rank 0 with " + key in err, err


def test_ranks_that_do_not_make_whole_groups_are_refused(lab):
    code, _, err = lab.finish(lab.start("uneven", "parallel.shard_size=2", ranks=3))
    assert code == 64 and "parallel.shard_size" in err, err


def test_another_strategy_with_the_same_batches_resumes(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "other-strategy")
    found = lab.run("other-strategy", "batch.strategy=padding_free", "batch.max_tokens_per_micro_batch=2048", ranks=2)
    numpy.testing.assert_allclose(losses(found), losses(unbroken)[7:], rtol=2e-5)
    entries = json.loads((found / "plan.json").read_text())["entries"]
    assert [(e["from_step"], e["max_tokens_per_micro_batch"]) for e in entries] == [(0, 1024), (7, 2048)]


def test_a_checkpoint_from_before_the_plan_header_is_resumed(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "older")
    path = lab.folder / "runs" / "older" / "checkpoints" / "step-7" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["state"]["plan"]
    path.write_text(json.dumps(manifest))
    assert losses(lab.run("older", ranks=2)) == losses(unbroken)[7:]


def test_an_automatic_budget_is_found_once_and_kept(lab):
    automatic = ["batch.max_tokens_per_micro_batch=auto", "checkpoint.save_steps=7", "checkpoint.keep=10"]
    whole = lab.run("auto", *automatic, "memory.limit_gib=0.02", ranks=2)
    budget = json.loads((whole / "plan.json").read_text())["entries"][0]["max_tokens_per_micro_batch"]
    assert budget % 128 == 0 and 512 <= budget < 16 * 512
    take_checkpoint(whole, 7, lab.folder / "runs" / "auto-resumed")
    resumed = lab.run("auto-resumed", *automatic, "memory.limit_gib=1", ranks=2)
    assert losses(resumed) == losses(whole)[7:]
    assert (resumed / "plan.json").read_text() == (whole / "plan.json").read_text()


def test_never_refuses_to_write_over_checkpoints(lab, unbroken):
    code, _, err = lab.finish(lab.start("unbroken", "checkpoint.resume=never", ranks=2))
    assert code == 64
    assert "already holds checkpoints" in err
    assert err.count("already holds checkpoints") == 1  # all ranks have the same error, logged once
