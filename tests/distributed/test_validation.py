"""Evaluation sets with names, and runs that end when they no longer get better."""

import json
import shutil

import pytest
from runs import assert_bit_equal, steps

# A learning rate that becomes much too high: the validation loss falls, then rises.
RISING = ["run.max_steps=20", "run.evaluate_steps=2", "schedule.name=linear", "schedule.warmup_steps=20",
          "optimizer.learning_rate=0.2", "optimizer.max_grad_norm=0"]
ENDING = [*RISING, "run.early_stopping_patience=2"]


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def evaluations(run):
    return [line for line in lines(run) if "validation_loss" in line]


def state(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())["state"]


@pytest.fixture(scope="module")
def named(lab):
    """The setting data.validation with two names, and the stores."""
    stores = {"web": lab.validation_store, "code": lab.make_store("code", 17, 77)}
    return f"data.validation={json.dumps({name: str(store) for name, store in stores.items()})}", stores


def first_end(losses, patience):
    """The evaluation after which a run of these losses ends, by the rule in the documents."""
    lowest = since = None
    for number, loss in enumerate(losses):
        if lowest is None or loss < lowest:
            lowest, since = loss, 0
        else:
            since += 1
        if since == patience:
            return number
    raise AssertionError("the losses never rise for long enough")


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_set_has_the_loss_that_it_has_alone(lab, named, ranks):
    setting, stores = named
    run = lab.run(f"named-{ranks}", setting, "run.max_steps=3", "checkpoint.save_steps=3", ranks=ranks)
    (evaluation,) = evaluations(run)
    assert list(evaluation["validation_sets"]) == ["web", "code"]
    assert evaluation["validation_set"] == "web" and evaluation["validation_loss"] == \
        evaluation["validation_sets"]["web"]["loss"]
    for name, store in stores.items():
        alone = lab.evaluate(f"named-{ranks}", f"data.validation={store}", ranks=ranks)
        found = evaluation["validation_sets"][name]
        for key in ("loss", "perplexity", "num_examples", "num_tokens", "num_loss_tokens"):
            assert found[key] == pytest.approx(alone[key], rel=1e-9), (name, key)
    together = lab.evaluate(f"named-{ranks}", setting, "checkpoint.best_by=code", ranks=ranks)
    assert together["set"] == "code" and together["loss"] == together["sets"]["code"]["loss"]
    assert together["sets"]["web"]["loss"] == pytest.approx(evaluation["validation_loss"], rel=1e-9)


def test_one_rank_and_two_have_the_same_losses_of_sets(lab, named):
    runs = [lab.run(f"same-{ranks}", named[0], "run.max_steps=4", "run.evaluate_steps=2", ranks=ranks)
            for ranks in (1, 2)]
    for one, two in zip(evaluations(runs[0]), evaluations(runs[1]), strict=True):
        for name in ("web", "code"):
            assert one["validation_sets"][name]["loss"] == \
                pytest.approx(two["validation_sets"][name]["loss"], rel=1e-5)


def test_the_log_names_each_set(lab, named):
    code, _, err = lab.finish(lab.start("log", named[0], "run.max_steps=1"))
    assert code == 0, err
    assert "validation loss web " in err and "validation loss code " in err


def test_the_named_set_decides_the_best(lab, named):
    run = lab.run("best-by", named[0], *RISING, "checkpoint.best_by=code", "checkpoint.keep_best=1",
                  "checkpoint.save_steps=5", "checkpoint.keep=2")
    by_step = {line["step"]: line["validation_sets"]["code"]["loss"] for line in evaluations(run)}
    best = min(by_step, key=by_step.get)
    assert (run / "checkpoints" / f"step-{best}").is_dir()
    assert state(run, best)["validation_loss"] == by_step[best]
    assert state(run, best)["validation_set"] == "code"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_ends_when_it_no_longer_gets_better(lab, ranks):
    whole = lab.run(f"whole-{ranks}", *RISING, ranks=ranks)
    all_losses = [line["validation_loss"] for line in evaluations(whole)]
    last = first_end(all_losses, patience=2)
    last_step = evaluations(whole)[last]["step"]
    assert last_step < 20, "the test wants a run that ends early"
    code, _, err = lab.finish(lab.start(f"early-{ranks}", *ENDING, ranks=ranks))
    assert code == 0, err
    assert "ended early" in err and "run.early_stopping_patience: 2" in err
    early = lab.folder / "runs" / f"early-{ranks}"
    assert [line["validation_loss"] for line in evaluations(early)] == all_losses[:last + 1]
    assert sorted(steps(early)) == list(range(1, last_step + 1))
    assert (early / "checkpoints" / f"step-{last_step}").is_dir(), "the end is saved"


def test_a_run_that_was_broken_off_ends_where_it_would_have(lab):
    whole = lab.run("ends", *ENDING, "checkpoint.save_steps=1", "checkpoint.keep=30")
    last = max(steps(whole))
    for step in (last - 3, last - 1, last):
        name = f"ends-broken-{step}"
        code, _, _ = lab.finish(lab.start(name, *ENDING, "checkpoint.save_steps=1", "fault.kind=abort",
                                          f"fault.step={step}"))
        assert code not in (0, 75)
        broken = lab.run(name, *ENDING, "checkpoint.save_steps=1")
        assert evaluations(broken) == evaluations(whole)
        assert_bit_equal(broken, whole)
        assert state(broken, last)["early_stopping"] == state(whole, last)["early_stopping"]


def test_a_run_that_ended_early_stays_ended_until_it_is_given_more_patience(lab):
    first = lab.run("stays", *ENDING)
    last = max(steps(first))
    code, _, err = lab.finish(lab.start("stays", *ENDING))
    assert code == 0 and "ended early" in err
    assert max(steps(first)) == last
    lab.run("stays", *RISING, "run.early_stopping_patience=30")
    assert max(steps(first)) == 20


def test_another_set_starts_from_nothing(lab, named):
    settings = [*ENDING, named[0], "checkpoint.keep_best=1"]
    run = lab.run("anew", *settings)
    last = max(steps(run))
    code, _, err = lab.finish(lab.start("anew", *settings, "checkpoint.best_by=code", "run.max_steps=20"))
    assert code == 0, err
    assert "start over" in err and "'web'" in err and "'code'" in err
    assert max(steps(run)) > last


def test_another_set_is_no_news_to_a_run_that_goes_by_none(lab, named):
    code, _, err = lab.finish(lab.start("by-none", named[0], "fault.kind=stop", "fault.step=2"))
    assert code == 75, err
    code, _, err = lab.finish(lab.start("by-none", named[0], "checkpoint.best_by=code"))
    assert code == 0 and "resumed from" in err and "start over" not in err, err


def test_all_ranks_evaluate_the_checkpoint_that_rank_0_finds(lab):
    """Each host sees a folder of its own, as with file caches of different age."""
    run = lab.run("seen", "checkpoint.save_steps=3", "run.max_steps=6", "checkpoint.keep=9", "schedule.warmup_steps=0",
                  "optimizer.learning_rate=0.03")
    first, other = (lab.folder / "seen-by-0", lab.folder / "seen-by-1")
    for folder in (first, other):
        shutil.copytree(run, folder / "run")
    shutil.rmtree(first / "run" / "checkpoints" / "step-6")

    def loss(*folders):
        seen = {rank: {"--chdir": folder} for rank, folder in enumerate(folders)}  # an option of env
        code, out, err = lab.finish(lab.start("seen", "run.output=run", "--json", command="evaluate",
                                              ranks=len(folders), rank_environment=seen))
        assert code == 0, err
        return json.loads(out)["loss"]

    assert loss(first) != pytest.approx(loss(other), abs=1e-4)
    assert loss(first, other) == pytest.approx(loss(first), abs=2e-6)
