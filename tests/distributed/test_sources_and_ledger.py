"""Losses by source and by example: they add up to the step's, on any number of ranks."""

import collections
import json
import random
import shutil
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps

SMALL = ["batch.global_batch_size=8", "data.max_length=100", "batch.max_tokens_per_micro_batch=256",
         "run.num_epochs=2", "run.max_steps=null", "metrics.example_losses=true"]


def write_source(path, num_examples, seed):
    """Pretokenized lines; the first token and about a third of the others are no labels."""
    draw = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(num_examples):
            ids = [draw.randrange(512) for _ in range(draw.randrange(2, 90))]
            labels = [i if draw.random() < 0.66 else -100 for i in ids[:-1]] + ids[-1:]
            file.write(json.dumps({"input_ids": ids, "labels": labels}) + "\n")
    return str(path)


def prepare(lab, name, files):
    store = lab.folder / name
    subprocess.run([PROGRAM, "prepare", "--pretokenized", *files, "--vocab-size", "512", "--out", str(store)],
                   check=True, capture_output=True, text=True)
    return str(store)


@pytest.fixture(scope="session")
def stores(lab):
    """Two stores of three sources; `books` is in both."""
    files = {name: write_source(lab.folder / f"{name}.jsonl", 12, seed)
             for seed, name in enumerate(["web", "books", "code"])}
    return {"sources": files, "first": prepare(lab, "web-books", [files["web"], files["books"]]),
            "second": prepare(lab, "books-code", [files["books"], files["code"]])}


def train_on_both(stores):
    return f"data.train=[{stores['first']}, {{path: {stores['second']}, repeats: 2, loss_weight: 3.0}}]"


@pytest.fixture(scope="session")
def runs(lab, stores):
    return {ranks: lab.run(f"ledger-{ranks}", train_on_both(stores), *SMALL, ranks=ranks) for ranks in (1, 2)}


def ledger(run_folder):
    """Lines by step."""
    lines = collections.defaultdict(list)
    for path in sorted((run_folder / "examples").glob("rank-*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            lines[line["step"]].append(line)
    return lines


def mean(lines, weight=lambda line: 1.0):
    weights = [weight(line) * line["num_loss_tokens"] for line in lines]
    return numpy.average([line["loss"] for line in lines], weights=weights)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_ledger_holds_every_entry_once_an_epoch(runs, stores, ranks):
    entries = collections.Counter()
    epochs = {step: line["epoch"] for step, line in steps(runs[ranks]).items()}
    for step, lines in ledger(runs[ranks]).items():
        for line in lines:
            assert line["begin"] == 0
            entries[epochs[step], line["store"], line["repeat"], line["example"]] += 1
    wanted = [(epoch, store, repeat, example) for epoch in (0, 1) for store, repeats in
              ((stores["first"], 1), (stores["second"], 2)) for repeat in range(repeats) for example in range(24)]
    assert entries == collections.Counter(wanted)


@pytest.mark.parametrize("ranks", [1, 2])
def test_losses_of_examples_average_to_the_steps(runs, stores, ranks):
    lines = ledger(runs[ranks])
    for step, line in steps(runs[ranks]).items():
        assert sum(entry["num_loss_tokens"] for entry in lines[step]) == line["num_loss_tokens"]
        weighted = mean(lines[step], lambda entry: 3.0 if entry["store"] == stores["second"] else 1.0)
        assert weighted == pytest.approx(line["loss"], rel=1e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_losses_by_source_are_the_unweighted_means_of_the_ledger(runs, stores, ranks):
    files = stores["sources"]
    def source(entry):
        in_first = entry["store"] == stores["first"]
        return files[("web", "books")[entry["example"] // 12] if in_first else ("books", "code")[entry["example"] // 12]]

    lines = ledger(runs[ranks])
    for step, line in steps(runs[ranks]).items():
        by_source = collections.defaultdict(list)
        for entry in lines[step]:
            by_source[source(entry)].append(entry)
        assert line["loss_by_source"].keys() == by_source.keys()
        for name, entries in by_source.items():
            assert line["loss_by_source"][name] == pytest.approx(mean(entries), rel=1e-5)


def test_two_ranks_equal_one(runs):
    numpy.testing.assert_allclose(losses(runs[2]), losses(runs[1]), rtol=2e-5)
    def key(line):
        return (line["store"], line["repeat"], line["example"])
    one, two = ledger(runs[1]), ledger(runs[2])
    for step in one:
        mine, theirs = ({key(line): line["loss"] for line in lines[step]} for lines in (one, two))
        assert mine.keys() == theirs.keys()
        assert mine == pytest.approx(theirs, rel=1e-4)


def test_nothing_of_it_is_written_for_a_single_source(lab):
    run_folder = lab.run("no-ledger", "run.max_steps=2")
    assert not (run_folder / "examples").exists()
    assert "loss_by_source" not in steps(run_folder)[1]


def test_asking_for_it_changes_no_loss(lab, stores, runs):
    plain = lab.run("unasked", train_on_both(stores), *SMALL, "metrics.example_losses=false")
    assert losses(plain) == losses(runs[1])


@pytest.mark.parametrize("asked", [True, False])
def test_a_resumed_run_holds_no_step_twice(lab, stores, runs, asked):
    """Two ranks saved step 4 and trained to the end. One rank resumes from step 4."""
    name = f"ledger-resumed-{asked}"
    saved = lab.run(name, train_on_both(stores), *SMALL, "checkpoint.save_steps=4", "checkpoint.keep=10", ranks=2)
    for folder in (saved / "checkpoints").glob("step-*"):
        if folder.name != "step-4":
            shutil.rmtree(folder)
    before = ledger(saved)
    resumed = ledger(lab.run(name, train_on_both(stores), *SMALL, f"metrics.example_losses={str(asked).lower()}"))
    for step in before:
        if step <= 4:
            assert resumed[step] == before[step]
        else:
            assert len(resumed[step]) == (len(before[step]) if asked else 0)


@pytest.mark.parametrize("overrides", [
    ["batch.strategy=padding"],
    ["data.max_length=40", "data.too_long=split"],
    ["batch.strategy=fixed_length", "data.max_length=64", "data.too_long=split", "batch.cross_example_attention=true"],
], ids=["padding", "split", "rows"])
def test_pieces_of_any_strategy_average_to_the_step(lab, stores, overrides):
    run_folder = lab.run("ledger-" + overrides[-1].replace("=", "-"), f"data.train={stores['first']}", *SMALL,
                         "run.max_steps=3", *overrides, ranks=2)
    lines = ledger(run_folder)
    for step, line in steps(run_folder).items():
        pieces = [entry for entry in lines[step] if entry["loss"] is not None]
        assert sum(entry["length"] for entry in lines[step]) == line["num_tokens"]
        assert sum(entry["num_loss_tokens"] for entry in pieces) == line["num_loss_tokens"]
        assert mean(pieces) == pytest.approx(line["loss"], rel=1e-5)


def test_evaluation_by_source_averages_to_its_loss(lab, stores):
    found = [lab.evaluate("by-source", f"data.validation={stores['second']}", ranks=ranks) for ranks in (1, 2)]
    for evaluation in found:
        by_source = evaluation["loss_by_source"]
        assert set(by_source) == {stores["sources"]["books"], stores["sources"]["code"]}
        assert min(by_source.values()) < evaluation["loss"] < max(by_source.values())
    assert found[0]["loss_by_source"] == pytest.approx(found[1]["loss_by_source"], rel=1e-6)
    assert "loss_by_source" not in lab.evaluate("by-source")
