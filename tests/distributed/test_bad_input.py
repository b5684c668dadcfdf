"""Data sets and batches nobody would choose: each trains right or is a clear error; none hangs."""

import json
import math
import subprocess

import pytest
import runs

STRATEGIES = ["padding", "padding_free", "fixed_length", "multipack", "balanced"]
STORES = {
    "one example": [7],
    "one longer than all others together": [300, 3, 4, 5, 2, 6, 3],
}


def make_store(lab, name, lengths):
    """A store of examples of these lengths, token t of example e being 1 + (7 e + t) mod 500."""
    store = lab.folder / name.replace(" ", "-")
    if not store.exists():
        lines = [{"input_ids": [1 + (7 * e + t) % 500 for t in range(length)]}
                 for e, length in enumerate(lengths)]
        source = store.with_suffix(".jsonl")
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        subprocess.run([runs.PROGRAM, "prepare", "--pretokenized", str(source), "--vocab-size",
                        "512", "--out", str(store)], check=True, capture_output=True)
    return store


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", STORES)
def test_trains_the_same_on_more_ranks_than_it_has_work_for(lab, name, strategy):
    store = make_store(lab, name, STORES[name])
    packs = strategy in ("fixed_length", "multipack")
    size = (["batch.global_batch_size=null", "batch.global_batch_tokens=512"] if packs
            else ["batch.global_batch_size=64"])
    overrides = [f"data.train={store}", f"batch.strategy={strategy}", *size,
                 "data.max_length=512", "run.num_epochs=2"]
    run = f"bad-{name}-{strategy}".replace(" ", "-")
    alone = runs.losses(lab.run(run + "-1", *overrides))
    three = runs.losses(lab.run(run + "-3", *overrides, ranks=3))
    assert len(alone) == 2 and all(math.isfinite(loss) for loss in alone)
    assert three == pytest.approx(alone, rel=1e-5)


def fails(lab, code, parts, *overrides, ranks=2):
    found, _, err = lab.finish(lab.start("refused", *overrides, ranks=ranks))
    assert found == code, err
    for part in parts:
        assert part in err


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_example_beyond_the_budget_stops_all_ranks(lab, strategy):
    store = make_store(lab, "giant", [300, 3, 4])
    fails(lab, 64 if strategy == "fixed_length" else 65, ["max_length"], f"data.train={store}",
          f"batch.strategy={strategy}", "data.max_length=200",
          "batch.max_tokens_per_micro_batch=150" if strategy == "fixed_length"
          else "batch.max_tokens_per_micro_batch=256")


def test_a_store_without_examples_is_refused(lab):
    empty = lab.folder / "empty.jsonl"
    empty.write_text("")
    done = subprocess.run([runs.PROGRAM, "prepare", "--pretokenized", str(empty), "--vocab-size",
                           "512", "--out", str(lab.folder / "none")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 65 and "hold no example" in done.stderr


def test_a_store_without_labels_is_refused(lab):
    source = lab.folder / "masked.jsonl"
    source.write_text(json.dumps({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]}) + "\n")
    store = lab.folder / "masked"
    subprocess.run([runs.PROGRAM, "prepare", "--pretokenized", str(source), "--vocab-size", "512",
                    "--out", str(store)], check=True, capture_output=True)
    fails(lab, 65, ["no example is left", "1 have no label"], f"data.train={store}")
