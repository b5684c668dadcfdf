"""Spike guard, memory.fit and compare of objectives of groups."""

import csv
import json

import numpy
import pytest
from preference_runs import ADAPTER, make_stores, settings, statistics
from runs import losses, steps, take_checkpoint, weights

OBJECTIVES = ["dpo", "kto", "policy"]
SAVES = ["checkpoint.save_steps=8", "checkpoint.keep=10"]
WATCHED = ["run.max_steps=20", "guard.spikes=skip", "guard.spike_window=8", "guard.max_skipped_steps=20"]
MIB = 1 / 1024


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return make_stores(tmp_path_factory.mktemp("guards"))


@pytest.fixture(params=OBJECTIVES)
def objective(request):
    return request.param


def words_of(stores, objective):
    return [*settings(stores, objective), *ADAPTER, *(["objective.beta=0.05"] if objective == "policy" else [])]


def skipped(run):
    return [number for number, line in steps(run).items() if line["num_skipped_steps"]]


def test_a_spike_is_skipped_by_all_ranks_and_after_a_resume(lab, stores, objective):
    words = [*words_of(stores, objective), *SAVES, *WATCHED, "guard.spike_threshold=0.3", "optimizer.learning_rate=1.0e-3"]
    one = lab.run(f"spikes-{objective}", *words)
    assert skipped(one), "a third of a deviation is exceeded often"
    two = lab.run(f"spikes-two-{objective}", *words, ranks=2)
    assert skipped(two) == skipped(one)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=1e-4, atol=1e-6)
    take_checkpoint(one, 8, lab.folder / "runs" / f"spikes-resumed-{objective}")
    resumed = lab.run(f"spikes-resumed-{objective}", *words)
    assert losses(resumed) == losses(one)[8:]
    assert skipped(resumed) == [number for number in skipped(one) if number > 8]


def test_without_spikes_watching_for_them_changes_no_bit(lab, stores, objective):
    words = [*words_of(stores, objective), "run.max_steps=20"]
    run = lab.run(f"watched-{objective}", *words, *WATCHED, "guard.spike_threshold=50")
    assert skipped(run) == []
    assert losses(run) == losses(lab.run(f"unwatched-{objective}", *words))


def planned_mebibytes(run):
    memory = json.loads((run / "memory.json").read_text())
    return (memory["planned_allocated_bytes"] + memory["planned_outside_bytes"]) / 2**20


def test_what_memory_fit_chooses_changes_no_bit(lab, stores, objective):
    words = [*words_of(stores, objective), "batch.max_tokens_per_micro_batch=2048", "memory.fit=keep_tokens"]
    ample = lab.run(f"ample-{objective}", *words)
    run = lab.run(f"fit-{objective}", *words, f"memory.limit_gib={0.8 * planned_mebibytes(ample) * MIB}")
    [entry] = json.loads((run / "plan.json").read_text())["entries"]
    assert entry["memory_fit"]["recompute"] != "none"
    assert planned_mebibytes(run) <= 0.8 * planned_mebibytes(ample)
    assert losses(run) == losses(ample)
    assert statistics(run) == statistics(ample)
    found, wanted = weights(run), weights(ample)
    assert all((found[name] == wanted[name]).all() for name in wanted)


def test_memory_fit_lowers_the_tokens_of_micro_batches(lab, stores, objective):
    words = [*words_of(stores, objective), "batch.max_tokens_per_micro_batch=2048", "data.max_length=128",
             "batch.global_batch_size=24", "memory.recompute=none", "memory.fit=auto"]
    ample = lab.run(f"tokens-ample-{objective}", *words)
    run = lab.run(f"tokens-fit-{objective}", *words, f"memory.limit_gib={0.6 * planned_mebibytes(ample) * MIB}")
    assert json.loads((run / "plan.json").read_text())["entries"][-1]["max_tokens_per_micro_batch"] < 2048
    numpy.testing.assert_allclose(losses(run), losses(ample), rtol=3e-5, atol=1e-6)


def test_compare_trains_the_same_batches_by_each_strategy_that_keeps_groups_whole(lab, stores, objective):
    code, out, err = lab.finish(lab.start(f"compared-{objective}", *words_of(stores, objective), "batch.max_tokens_per_micro_batch=1024",
                                          ranks=2, command="compare"))
    assert code == 0, err
    with open(lab.folder / "runs" / f"compared-{objective}" / "compare.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["strategy"] for row in rows] == ["padding", "padding_free", "multipack", "balanced"]
    rows.pop(2)  # its steps are of tokens
    for key in ("training_loss", "validation_loss", "validation_loss_at_equal_steps"):
        values = [float(row[key]) for row in rows]
        assert max(values) - min(values) < 1e-4, key
    assert out
