"""Parts of stores: fractional repeats and mixtures, counted exactly, the same on any number of ranks."""

import collections
import json
import re
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps, take_checkpoint

SMALL = ["batch.global_batch_size=8", "data.max_length=400", "run.num_epochs=2", "run.max_steps=null",
         "metrics.example_losses=true"]


@pytest.fixture(scope="session")
def stores(lab):
    return {"first": lab.make_store("shares-first", 21, 41), "second": lab.make_store("shares-second", 12, 42),
            "third": lab.make_store("shares-third", 40, 43)}


def train_on(stores, **keys):
    """{name: "repeats: 2"}"""
    return "data.train=[" + ", ".join(f"{{path: {stores[name]}, {text}}}" for name, text in keys.items()) + "]"


def plan(lab, name, *overrides):
    code, out, err = lab.finish(lab.start(name, *overrides, "--json", command="plan"))
    assert code == 0, err
    return json.loads(out)


def entries(run):
    """Returns how often each (epoch, store, repeat, example) was trained."""
    epochs = {step: line["epoch"] for step, line in steps(run).items()}
    lines = [json.loads(line) for path in (run / "examples").glob("rank-*.jsonl") for line in path.read_text().splitlines()]
    return collections.Counter((epochs[line["step"]], line["store"], line["repeat"], line["example"]) for line in lines)


MIXES = {
    "fractions": (dict(first="repeats: 0.5", second="repeats: 2.25", third="repeats: 1"), [], [11, 27, 40]),
    "probability": (dict(first="probability: 0.5", second="probability: 0.3", third="probability: 0.2"), [], [20, 12, 8]),
    "probability-all": (dict(first="probability: 0.5", second="probability: 0.3", third="probability: 0.2"),
                        ["data.mixture_until=all_exhausted"], [100, 60, 40]),
}


@pytest.mark.parametrize("mix", MIXES)
def test_counts_are_exact_and_known_before_on_any_ranks(lab, stores, mix):
    keys, settings, wanted = MIXES[mix]
    settings = [train_on(stores, **keys), *settings, *SMALL]
    planned = plan(lab, f"planned-{mix}", *settings)["stores"]
    sizes = [21, 12, 40]
    assert [store["num_examples"] for store in planned] == wanted
    assert [store["mean_repeats"] for store in planned] == pytest.approx([w / n for w, n in zip(wanted, sizes)])
    runs = [lab.run(f"{mix}-{ranks}", *settings, ranks=ranks) for ranks in (1, 2)]
    numpy.testing.assert_allclose(losses(runs[1]), losses(runs[0]), rtol=2e-5)
    found = entries(runs[0])
    assert found == entries(runs[1])
    assert set(found.values()) == {1}
    for epoch in (0, 1):
        for name, count, size in zip(keys, wanted, sizes):
            repeats = collections.Counter(e[3] for e in found if e[0] == epoch and e[1] == str(stores[name]))
            assert sum(repeats.values()) == count
            assert set(repeats.values()) <= {count // size, -(-count // size)}
    first, second = ({e[1:] for e in found if e[0] == epoch} for epoch in (0, 1))
    assert first == second


def test_shares_are_of_tokens_and_the_reached_ones_are_reported(lab, stores):
    keys = dict(first="share: 0.2", second="share: 0.2", third="share: 0.6")
    found = plan(lab, "token-shares", train_on(stores, **keys), "data.mixture_until=all_exhausted", *SMALL)
    assert [store["wanted_share"] for store in found["stores"]] == [0.2, 0.2, 0.6]
    assert [store["share"] for store in found["stores"]] == pytest.approx([0.2, 0.2, 0.6], abs=0.03)
    assert sum(store["num_tokens"] for store in found["stores"]) == found["num_tokens"]
    assert min(store["mean_repeats"] for store in found["stores"]) == 1
    code, out, err = lab.finish(lab.start("token-shares-text", train_on(stores, **keys), *SMALL, command="plan"))
    assert code == 0, err
    lines = [line.split() for line in out.splitlines() if line.startswith(str(lab.folder))]
    assert [line[7:9] for line in lines] == [["20.00", "%"], ["20.00", "%"], ["60.00", "%"]]


def test_a_resumed_run_continues_the_mixture_and_notices_a_change(lab, stores):
    settings = [train_on(stores, first="repeats: 0.5", second="repeats: 2"), *SMALL, "checkpoint.save_steps=3",
                "checkpoint.keep=10"]
    whole = lab.run("shares-whole", *settings)

    def resumed(name, *changes):
        take_checkpoint(whole, 3, lab.folder / "runs" / name)
        return lab.start(name, *settings, *changes)

    process = resumed("shares-resumed")
    assert lab.finish(process)[0] == 0
    assert losses(lab.folder / "runs" / "shares-resumed") == losses(whole)[3:]
    process = resumed("shares-spelled", train_on(stores, first="repeats: 0.5", second="repeats: 2.0"))
    assert lab.finish(process)[0] == 0
    for number, change in enumerate([dict(first="repeats: 0.6", second="repeats: 2"),
                                     dict(first="repeats: 0.5", second="repeats: 2.5"),
                                     dict(first="probability: 0.5", second="probability: 0.5")]):
        code, _, err = lab.finish(resumed(f"shares-changed-{number}", train_on(stores, **change), "run.num_epochs=3"))
        assert code == 66 and "data.train" in err and "fingerprint" in err, err


def test_another_end_of_the_mixture_is_another_data_set(lab, stores):
    settings = [train_on(stores, first="probability: 0.5", second="probability: 0.5"), *SMALL, "run.max_steps=4",
                "checkpoint.save_steps=2", "checkpoint.keep=10"]
    whole = lab.run("mixture-whole", *settings)
    take_checkpoint(whole, 2, lab.folder / "runs" / "mixture-changed")
    code, _, err = lab.finish(lab.start("mixture-changed", *settings, "data.mixture_until=all_exhausted"))
    assert code == 66 and "data.train" in err, err


@pytest.mark.parametrize("keys, said", [
    (dict(first="share: 0.5", second="share: 0.6"), "is 1.1 in sum, wanted 1"),
    (dict(first="share: 0.5", second="repeats: 1"), "or none"),
    (dict(first="repeats: 0"), "repeats (a number > 0)"),
    (dict(first="repeats: 0.01"), "0.01 repeats of the 21 examples"),
    (dict(first="share: 0.00001", second="share: 0.99999"), "are no example"),
])
def test_wrong_values_are_refused(lab, stores, keys, said):
    code, _, err = lab.finish(lab.start("wrong-shares", train_on(stores, **keys), *SMALL))
    assert code == 64 and said in err, err


def test_inspect_shows_the_examples_of_a_fraction(lab, stores):
    settings = [train_on(stores, first="repeats: 0.5", second="repeats: 1.5"), *SMALL]
    config = str(lab.config("inspect-shares"))
    step = plan(lab, "inspect-plan", *settings, "--steps=1")["steps"][0]
    done = subprocess.run([PROGRAM, "inspect", config, *settings, "--ids", "--max-chars", "0"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"(\d+) tokens, example (\d+) of (\S+), source", done.stdout)
    pieces = [piece for micro_batch in step["ranks"][0] for piece in micro_batch]
    assert [(int(length), [path, int(number)]) for length, number, path in shown] == \
        [(piece[2], step["origins"][str(piece[0])]) for piece in pieces]
