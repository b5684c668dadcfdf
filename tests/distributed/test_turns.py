"""Conversations whose turns are examples: the losses of examples alone, for any ranks, packing and interruption."""

import functools
import json

import numpy
import pytest
from preference_runs import ADAPTER, STEPS, evaluations, make_store, write_store
from runs import losses, steps, take_checkpoint, weights
from safetensors.numpy import load_file

SAVES = ["checkpoint.save_steps=3", "checkpoint.keep=10"]


class Stores:
    def __init__(self, folder):
        self.folder = folder
        self.train = make_store(folder, "train", "turns", 60, 1)
        self.held = make_store(folder, "held", "turns", 17, 2)

    @functools.cache  # noqa: B019 - one object a session
    def as_plain(self, name):
        """The same examples without groups."""
        lines = (self.folder / f"{name}.jsonl").read_text().splitlines()
        return write_store(self.folder, f"{name}-plain", [turn for line in lines for turn in json.loads(line)["turns"]])


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    return Stores(tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="session")
def words(stores):
    return [f"data.train={stores.train}", f"data.validation={stores.held}", *STEPS,
            "batch.max_tokens_per_micro_batch=1024"]


@pytest.fixture(scope="session")
def one(lab, words):
    return lab.run("turns", *words, *SAVES)


def assert_same(found, wanted):
    numpy.testing.assert_allclose(losses(found), losses(wanted), rtol=3e-5, atol=1e-7)
    first, second = weights(found), weights(wanted)
    assert first.keys() == second.keys()
    for name in first:
        numpy.testing.assert_allclose(first[name], second[name], rtol=0, atol=3e-4, err_msg=name)


@pytest.mark.parametrize("more", [[], ["batch.normalize=examples"]])
def test_shared_rows_change_no_loss_and_no_weight(lab, words, more):
    shared = lab.run("-".join(["shared", *more]), *words, *more)
    whole = lab.run("-".join(["whole", *more]), *words, *more, "batch.share_prefixes=false")
    assert_same(shared, whole)
    assert all(line["num_groups"] == 6 for line in steps(shared).values())
    rows = [sum(line["num_tokens"] for line in steps(run).values()) for run in (shared, whole)]
    assert rows[0] < 0.8 * rows[1]


def test_a_step_of_all_turns_has_the_loss_of_a_plain_store(lab, stores, words):
    """One step of an epoch, so that both have the same examples."""
    def first_step(name, train, size):
        return lab.run(name, *words, f"data.train={train}", "run.max_steps=1", f"batch.global_batch_size={size}")

    plain = stores.as_plain("train")
    number = json.loads((plain / "store.json").read_text())["num_examples"]
    assert_same(first_step("all-turns", stores.train, 60), first_step("all-plain", plain, number))


@pytest.mark.parametrize("more", [[], ["batch.strategy=padding_free", "batch.micro_batch_size=1"],
                                  ["batch.strategy=padding", "batch.micro_batch_size=1",
                                   "batch.max_tokens_per_micro_batch=4096"],
                                  ["parallel.shard_size=1"], ["memory.recompute=full"]])
def test_two_ranks_train_as_one_in_any_arrangement(lab, words, one, more):
    assert_same(lab.run("-".join(["two-turns", *more]), *words, *more, ranks=2), one)


def test_a_resumed_run_continues_as_uninterrupted(lab, words, one):
    take_checkpoint(one, 3, lab.folder / "runs" / "resumed-turns")
    resumed = lab.run("resumed-turns", *words, *SAVES)
    assert sorted(steps(resumed)) == [4, 5]
    assert losses(resumed) == losses(one)[3:]
    found, wanted = weights(resumed), weights(one)
    assert all((found[name] == wanted[name]).all() for name in wanted)


def test_steps_of_tokens_are_not_continued_with_other_rows(lab, words):
    tokens = ["batch.global_batch_size=null", "batch.global_batch_tokens=2048"]
    run = lab.run("turns-in-tokens", *words, *tokens, *SAVES)
    take_checkpoint(run, 3, lab.folder / "runs" / "turns-in-rows")
    again = lab.run("turns-in-rows", *words, *tokens, *SAVES)
    assert losses(again) == losses(run)[3:]
    take_checkpoint(run, 3, lab.folder / "runs" / "turns-unshared")
    code, _, err = lab.finish(lab.start("turns-unshared", *words, *tokens, *SAVES, "batch.share_prefixes=false"))
    assert code != 0 and "batch.share_prefixes" in err, err


def test_an_evaluation_is_that_of_the_examples(lab, stores, words, one):
    (found,) = evaluations(one)
    plain = stores.as_plain("held")
    again = lab.evaluate("turns", *words, f"data.validation={plain}", ranks=2)
    assert again["loss"] == pytest.approx(found["validation_loss"], rel=1e-5)
    assert again["num_examples"] == found["validation_num_examples"]


def test_scores_are_those_of_the_examples(lab, stores, words, tmp_path):
    found = {}
    for name, store in (("turns", stores.held), ("plain", stores.as_plain("held"))):
        out = ["--log-probs", "--out", str(tmp_path / name)]
        code, _, err = lab.finish(lab.start("scored-turns", *words, f"data.validation={store}", *out, command="score"))
        assert code == 0, err
        found[name] = load_file(tmp_path / name)
    assert {name: values.tolist() for name, values in found["turns"].items()} == \
        {name: values.tolist() for name, values in found["plain"].items()}


def test_plain_examples_are_trained_next_to_conversations(lab, stores, words):
    more = [f"data.train=[{{path: {stores.train}, share: 0.5}}, {{path: {lab.train_store}, share: 0.5}}]",
            "metrics.example_losses=true"]
    mixed = lab.run("mixed-turns", *words, *more)
    assert_same(lab.run("mixed-turns-two", *words, *more, ranks=2), mixed)
    lines = [json.loads(line) for line in (mixed / "examples" / "rank-0.jsonl").read_text().splitlines()]
    assert {line["store"] for line in lines} == {str(stores.train), str(lab.train_store)}
    assert {line["role"] for line in lines} == {"turn"}


def test_adapters_of_conversations_and_of_plain_examples_are_trained_together(lab, stores, words):
    entries = [{"name": "chats", "train": str(stores.train)}, {"name": "texts", "train": str(lab.train_store)}]
    together = [*words, *ADAPTER, "data.validation=null", f"adapters={json.dumps(entries)}"]
    run = lab.run("turn-adapters", *together)
    assert_same(lab.run("turn-adapters-two", *together, ranks=2), run)
    alone = lab.run("turn-adapter-alone", *words, *ADAPTER, "adapter.name=chats", "data.validation=null")
    own = [line["adapters"]["chats"]["loss"] for _, line in sorted(steps(run).items())]
    numpy.testing.assert_allclose(own, losses(alone), rtol=3e-5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_verify_finds_nothing(lab, words, ranks):
    code, out, err = lab.finish(lab.start("turns-verified", *words, ranks=ranks, command="verify"))
    assert code == 0, out + err


def test_plan_has_the_conversations_and_what_sharing_saves(lab, words):
    code, out, err = lab.finish(lab.start("turns-planned", *words, "--ranks", "2", "--json", command="plan"))
    assert code == 0, err
    planned = json.loads(out)
    assert planned["num_groups"] == 60 and planned["max_rows_in_group"] > 100
    assert planned["saved_row_fraction"] > 0.2


@pytest.mark.parametrize("more, said", [
    (["data.too_long=truncate"], "data.too_long: truncate cuts examples, but the groups of"),
    (["batch.strategy=fixed_length", "batch.global_batch_tokens=2048", "batch.global_batch_size=null"],
     "batch.strategy: fixed_length cuts examples, but the groups of"),
    (["objective.kind=simpo"], "holds groups of the kind 'turns', but objective.kind: simpo reads")])
def test_what_would_cut_a_conversation_or_compare_its_turns_is_refused(lab, words, more, said):
    code, _, err = lab.finish(lab.start("turns-refused", *words, *more))
    assert code != 0 and said in err, err
