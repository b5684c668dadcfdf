"""Extreme data sets and batches: each trains right or is a clear error, and none hangs."""

import json
import math
import os
import re
import subprocess
import time

import pytest
import runs
from safetensors.numpy import load_file, save_file

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
                 "data.max_length=512", "run.num_epochs=2", "run.max_steps=null"]
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


def damage_while_training(lab, name, ranks, damage):
    """(exit code, stderr) of an endless run whose store is damaged after three steps."""
    store = lab.make_store(name, 64, 3)
    run = lab.folder / "runs" / name
    process = lab.start(name, f"data.train={store}", "run.num_epochs=100000", "run.max_steps=null",
                        ranks=ranks)
    lines = run / "metrics.jsonl"
    while not (lines.exists() and lines.read_text().count("\n") >= 3):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    damage(store / "part-00000.safetensors")
    code, _, err = lab.finish(process)
    return code, err


def write_in_place(path):
    with path.open("r+b") as stream:
        stream.seek(-8, os.SEEK_END)
        stream.write(bytes(8))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name, damage, message", [
    # Either is seen first: the new time, or an example that is another.
    ("written", write_in_place, r"part-00000\.safetensors: was written to while it was in use|"
                                r"written-\d: example \d+ was changed after the store was opened"),
    # Either is seen first: the new size, or a page that is gone.
    ("cut", lambda path: os.truncate(path, 0), r"part-00000\.safetensors: .* while it was in use"),
])
def test_a_store_that_changes_under_a_run_stops_all_ranks(lab, ranks, name, damage, message):
    code, err = damage_while_training(lab, f"{name}-{ranks}", ranks, damage)
    assert code == 65, err
    assert re.search(message, err), err
    assert "put new ones in place by renaming" in err


def test_a_store_may_be_replaced_by_renaming_under_a_run(lab):
    store = lab.make_store("renamed", 64, 3)
    wanted = runs.losses(lab.run("renamed-before", f"data.train={store}", "run.max_steps=10"))
    process = lab.start("renamed-after", f"data.train={store}", "run.max_steps=10")
    part = store / "part-00000.safetensors"
    lines = lab.folder / "runs" / "renamed-after" / "metrics.jsonl"
    while not lines.exists():
        assert process.poll() is None or lines.exists(), process.communicate()
        time.sleep(0.01)
    part.with_suffix(".new").write_bytes(b"another store")
    part.with_suffix(".new").rename(part)
    code, _, err = lab.finish(process)
    assert code == 0, err
    assert runs.losses(lab.folder / "runs" / "renamed-after") == wanted


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_rank_reports_the_bad_lines_that_were_skipped(lab, ranks):
    source = lab.folder / f"some-bad-{ranks}.jsonl"
    good = [json.dumps({"input_ids": list(range(1, 9))})] * 20
    source.write_text("\n".join([*good, "{", '{"input_ids": [600]}', *good]) + "\n")
    store = lab.folder / f"some-bad-{ranks}"
    prepare = [runs.PROGRAM, "prepare", "--pretokenized", str(source), "--vocab-size", "512",
               "--out", str(store)]
    refused = subprocess.run(prepare, capture_output=True, text=True, check=False)
    assert refused.returncode == 65
    assert f"{source}:21: is no valid JSON" in refused.stderr
    assert f"(the line begins at byte {20 * (len(good[0]) + 1)})" in refused.stderr
    done = subprocess.run([*prepare, "--overwrite", "--skip-bad-lines", "--max-bad-fraction", "0.05"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"skipped 2 bad lines: see {store}/bad-lines.jsonl" in done.stdout
    name = f"some-bad-{ranks}"
    process = lab.start(name, f"data.train={store}", "run.max_steps=2", ranks=ranks)
    code, _, err = lab.finish(process)
    assert code == 0, err
    assert "2 bad lines were left out" in err


def change_token(store, example, token, new_id):
    """An id of one token becomes another; all else stays."""
    path = store / "part-00000.safetensors"
    columns = load_file(path)
    columns["input_ids"][columns["offsets"][example] + token] = new_id
    save_file(columns, path)


def verify_data(*stores):
    return subprocess.run([runs.PROGRAM, "verify", "--data", *map(str, stores)],
                          capture_output=True, text=True)


@pytest.mark.parametrize("ranks", [1, 3])
def test_an_example_that_is_damaged_is_named_when_it_is_trained(lab, ranks):
    store = lab.make_store(f"damaged-{ranks}", 48, 3)
    change_token(store, 11, 2, 512)
    code, _, err = lab.finish(lab.start(f"damaged-{ranks}", f"data.train={store}",
                                        "batch.global_batch_size=16", "run.max_steps=3", ranks=ranks))
    assert code == 65, err
    assert re.search(r"part-00000\.safetensors: example 11, token 2: id 512 is outside the vocabulary",
                     err), err
    assert "packtrain verify --data" in err


def test_verify_reads_every_byte_of_a_store(lab):
    good, bad = lab.make_store("whole", 48, 3), lab.make_store("flipped", 48, 3)
    done = verify_data(good)
    assert done.returncode == 0 and "as it was written" in done.stdout, done.stderr
    ids = load_file(bad / "part-00000.safetensors")["input_ids"]
    change_token(bad, 0, 0, (ids[0] + 1) % 512)
    done = verify_data(good, bad)
    assert done.returncode == 65
    assert re.search(r"flipped/part-00000\.safetensors: its digest is \w{32}, wanted", done.stderr)
    assert "prepare" in done.stderr


def test_other_tokens_of_the_same_lengths_are_other_data(lab):
    store = lab.make_store("tokens", 48, 3)
    constant = ["schedule.name=constant", "schedule.warmup_ratio=0", "schedule.warmup_steps=null"]
    lab.run("tokens", f"data.train={store}", "run.max_steps=4", *constant)
    lines = [{"input_ids": (load["input_ids"][begin:end] % 511 + 1).tolist(),
              "loss_mask": load["loss_mask"][begin:end].tolist()}
             for load in [load_file(store / "part-00000.safetensors")]
             for begin, end in zip(load["offsets"][:-1], load["offsets"][1:])]
    source = lab.folder / "tokens.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = lab.folder / "other-tokens"
    subprocess.run([runs.PROGRAM, "prepare", "--pretokenized", str(source), "--vocab-size", "512",
                    "--out", str(other)], check=True, capture_output=True)
    code, _, err = lab.finish(lab.start("tokens", f"data.train={other}", "run.max_steps=6", *constant))
    assert code == 66, err
    assert re.search(r"data\.train: tokens and masks of digest \w+, this run has tokens and masks", err)
    # A store without a digest is not compared, as in older versions.
    manifest = json.loads((other / "store.json").read_text())
    for shard in manifest["shards"]:
        del shard["digest"]
    (other / "store.json").write_text(json.dumps(manifest))
    lab.run("tokens", f"data.train={other}", "run.max_steps=6", *constant)
