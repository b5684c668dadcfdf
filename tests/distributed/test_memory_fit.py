"""memory.fit: a run that does not fit with its defaults chooses settings that do, and trains the same numbers."""

import json
import re

import pytest
from runs import losses, steps, take_checkpoint, weights

# Micro-batches are large here, so that activations need most of the memory.
RUN = ["run.max_steps=6", "checkpoint.save_steps=3", "checkpoint.keep=10", "data.validation="]
FREE = [*RUN, "memory.fit=auto", "batch.max_tokens_per_micro_batch=4096"]
KEPT = [*RUN, "batch.max_tokens_per_micro_batch=2048"]  # set: it stays
MIB = 1 / 1024


def limit(mebibytes):
    return f"memory.limit_gib={mebibytes * MIB}"


def entries(run):
    return json.loads((run / "plan.json").read_text())["entries"]


def planned_mebibytes(run):
    memory = json.loads((run / "memory.json").read_text())
    return (memory["planned_allocated_bytes"] + memory["planned_outside_bytes"]) / 2**20


@pytest.fixture(scope="module", params=[1, 2])
def ranks(request):
    return request.param


@pytest.fixture(scope="module")
def ample(lab, ranks):
    """Runs that fit, with the number of tokens."""
    return {tokens: lab.run(f"ample-{tokens}-{ranks}", *RUN, f"batch.max_tokens_per_micro_batch={tokens}", ranks=ranks)
            for tokens in (2048, 4096)}


def test_recompute_is_chosen_and_changes_no_bit(lab, ranks, ample):
    needed = planned_mebibytes(ample[2048])
    chosen = set()
    for i, share in enumerate((0.95, 0.8, 0.7)):
        run = lab.run(f"recompute-{ranks}-{i}", *KEPT, limit(share * needed), ranks=ranks)
        assert planned_mebibytes(run) <= share * needed
        [entry] = entries(run)
        assert entry["max_tokens_per_micro_batch"] == 2048
        assert entry["memory_fit"]["recompute"].endswith("@2048")
        chosen.add(entry["memory_fit"]["recompute"])
        assert losses(run) == losses(ample[2048])
        assert all((weights(run)[name] == value).all() for name, value in weights(ample[2048]).items())
    assert len(chosen) > 1


def test_fewer_tokens_train_the_same_steps(lab, ranks, ample):
    share = 0.3
    limits = share * planned_mebibytes(ample[4096])
    run = lab.run(f"fit-tokens-{ranks}", *FREE, limit(limits), ranks=ranks)
    assert entries(run)[0]["max_tokens_per_micro_batch"] < 4096
    assert planned_mebibytes(run) <= limits
    assert losses(run) == pytest.approx(losses(ample[4096]), rel=2e-5)
    assert [line["num_tokens"] for line in steps(run).values()] == \
        [line["num_tokens"] for line in steps(ample[4096]).values()]


def test_a_plan_that_fits_stays_as_it_is(lab, ranks, ample):
    run = lab.run(f"fits-{ranks}", *FREE, limit(1024), ranks=ranks)
    assert losses(run) == losses(ample[4096])
    assert entries(run)[0]["memory_fit"] == {"recompute": "none", "gather_slots": 3}
    assert "memory_fit" not in entries(ample[4096])[0]


def test_a_resumed_run_keeps_the_choice_or_says_that_it_does_not_fit(lab, ample, ranks):
    needed = planned_mebibytes(ample[2048])
    first = lab.run(f"first-{ranks}", *KEPT, limit(0.9 * needed), ranks=ranks)
    folder = lab.folder / "runs"
    take_checkpoint(first, 3, folder / f"kept-{ranks}")
    code, _, err = lab.finish(lab.start(f"kept-{ranks}", *KEPT, limit(2 * needed), ranks=ranks))
    assert code == 0, err
    assert err.count("memory.fit: memory.recompute=" + entries(first)[0]["memory_fit"]["recompute"]) == 1, err
    assert entries(folder / f"kept-{ranks}") == entries(first)
    assert losses(folder / f"kept-{ranks}") == losses(first)[3:]
    take_checkpoint(first, 3, folder / f"again-{ranks}")
    code, _, err = lab.finish(lab.start(f"again-{ranks}", *KEPT, limit(0.75 * needed), ranks=ranks))
    assert code == 0, err
    assert "it chooses again" in err
    old, new = entries(folder / f"again-{ranks}")
    assert old == entries(first)[0]
    assert new["from_step"] == 3 and new["memory_fit"]["recompute"] != old["memory_fit"]["recompute"]
    assert losses(folder / f"again-{ranks}") == losses(first)[3:]


def test_what_cannot_fit_ends_before_the_first_step_with_three_configurations(lab, ranks):
    _, _, err = lab.finish(lab.start(f"least-{ranks}", *FREE, limit(0.5), ranks=ranks))
    least = float(re.search(r" together +([\d.]+) MiB", err)[1])
    name = f"never-{ranks}"
    code, _, err = lab.finish(lab.start(name, *FREE, limit(0.8 * least), ranks=ranks))
    assert code == 69
    assert err.count("memory.fit finds no settings whose memory fits") == 1, err
    assert len(re.findall(r"^    .* takes [\d.]+ GiB", err, re.MULTILINE)) == 3, err
    assert "(changes numbers)" in err
    run = lab.folder / "runs" / name
    assert not (run / "metrics.jsonl").exists() and not list(run.glob("checkpoints/step-*"))


def test_off_starts_a_plan_that_does_not_fit(lab, ranks, ample):
    run = lab.run(f"off-{ranks}", *FREE, "memory.fit=off", limit(0.5), ranks=ranks)
    assert losses(run) == losses(ample[4096])


def test_recompute_by_layer_can_be_set_by_hand(lab, ample, ranks):
    run = lab.run(f"by-hand-{ranks}", *KEPT, "memory.recompute=full:2+selective", ranks=ranks)
    assert losses(run) == losses(ample[2048])
    assert planned_mebibytes(run) < planned_mebibytes(ample[2048])
    code, _, err = lab.finish(lab.start(f"too-many-{ranks}", *KEPT, "memory.recompute=full:5", ranks=ranks))
    assert code == 64
    assert "memory.recompute: names the first 5 layers, the model has 4" in err
