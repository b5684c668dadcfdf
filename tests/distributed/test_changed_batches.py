"""A run that resumes with other batches continues after the trained examples. Tests its length and intervals too."""

import collections
import json

import pytest
from runs import losses, steps, take_checkpoint

ONE_EPOCH = ["run.max_steps=null", "run.num_epochs=1", "data.validation=", "metrics.example_losses=true", "checkpoint.keep=10",
             "schedule.warmup_steps=0", "checkpoint.save_steps=5"]
EXAMPLES = 240


def allowed(*keys):
    return f"checkpoint.allow_changed=[{','.join(keys)}]"


def visits(run, last_step):
    """In how many steps each example was trained, up to one."""
    lines = [json.loads(line) for path in sorted((run / "examples").glob("rank-*.jsonl")) for line in path.open()]
    trained = {(line["step"], line["example"]) for line in lines}  # fixed_length has a line for each piece
    return collections.Counter(example for step, example in trained if step <= last_step)


def refusal(lab, name, *settings):
    code, _, err = lab.finish(lab.start(name, *settings))
    assert code == 66, err
    return err


@pytest.fixture(scope="module")
def sixteen(lab):
    return lab.run("sixteen", *ONE_EPOCH)


@pytest.fixture(scope="module")
def eight(lab, sixteen):
    take_checkpoint(sixteen, 5, lab.folder / "runs" / "eight")
    assert "global_batch_size: 16, this run has 8" in refusal(lab, "eight", *ONE_EPOCH, "batch.global_batch_size=8")
    return lab.run("eight", *ONE_EPOCH, "batch.global_batch_size=8", allowed("batch.global_batch_size"))


def test_a_smaller_batch_trains_each_example_of_the_epoch_once(sixteen, eight):
    trained = visits(sixteen, 5) + visits(eight, 100)
    assert len(trained) == EXAMPLES and set(trained.values()) == {1}
    assert sorted(steps(eight)) == list(range(6, 26)), "5 steps of 16, 20 of 8"


def test_the_learning_rate_continues_by_share_of_the_run(sixteen, eight):
    before, after = ({step: line["learning_rate"] for step, line in steps(run).items()} for run in (sixteen, eight))
    for step in range(6, 16):  # the two steps of the same 16 examples
        assert after[2 * step - 6] >= before[step] >= after[2 * step - 5], step
    assert all(after[step] > after[step + 1] for step in range(6, 25)) and before[5] > after[6]


def test_a_resume_after_it_is_bit_equal_and_may_change_batches_again(lab, sixteen, eight):
    take_checkpoint(eight, 15, lab.folder / "runs" / "eight-again")
    again = lab.run("eight-again", *ONE_EPOCH, "batch.global_batch_size=8")
    assert losses(again) == losses(eight)[10:]
    take_checkpoint(eight, 15, lab.folder / "runs" / "in-packs")
    packs = lab.run("in-packs", *ONE_EPOCH, "batch.strategy=multipack", "batch.global_batch_size=2", allowed(
        "batch.strategy", "batch.global_batch_size", "batch.global_batch_tokens"), ranks=2)
    trained = visits(sixteen, 5) + visits(eight, 15) + visits(packs, 100)
    assert len(trained) == EXAMPLES and set(trained.values()) == {1}


def test_what_would_be_trained_twice_is_said_and_refused_until_it_is_allowed(lab):
    rows = [*ONE_EPOCH, "batch.strategy=fixed_length", "batch.global_batch_size=4", "checkpoint.save_steps=2", "data.max_length=300"]
    before = lab.run("rows", *rows)
    take_checkpoint(before, 2, lab.folder / "runs" / "rows-cut")
    changed = [*ONE_EPOCH, "data.max_length=300", "data.too_long=split", allowed(
        "batch.strategy", "batch.global_batch_size", "batch.global_batch_tokens", "data.too_long")]
    err = refusal(lab, "rows-cut", *changed)
    assert "1 example of epoch 1 was cut" in err and "checkpoint.allow_repeated: true" in err, err
    whole = lab.run("rows-cut", *changed, "checkpoint.allow_repeated=true")
    first, rest = set(visits(before, 2)), visits(whole, 100)
    assert len(first | set(rest)) == EXAMPLES and len(first & set(rest)) == 1 and set(rest.values()) == {1}


def test_other_data_restart_the_epoch_where_that_is_allowed(lab, sixteen):
    other = lab.make_store("foreign", EXAMPLES, 99)
    settings = [*ONE_EPOCH, f"data.train={other}", allowed("data.train")]
    take_checkpoint(sixteen, 5, lab.folder / "runs" / "foreign-data")
    assert "epoch 1 begins again" in refusal(lab, "foreign-data", *settings)
    run = lab.run("foreign-data", *settings, "checkpoint.allow_repeated=true")
    assert sorted(steps(run)) == list(range(6, 21)), "behind 5 steps one epoch"
    take_checkpoint(sixteen, 15, lab.folder / "runs" / "other-epoch")
    run = lab.run("other-epoch", *settings[:-1], "run.num_epochs=2", allowed("data.train", "run.num_epochs"))
    assert sorted(steps(run)) == list(range(16, 31)), "at the end of an epoch nothing is trained again"


def test_a_maximum_of_steps_repeats_epochs_as_more_epochs_would(lab):
    common = ["data.validation=", "schedule.warmup_steps=2", "schedule.name=constant"]
    repeated = lab.run("repeated", *common, "run.num_epochs=1", "run.max_steps=20")
    epochs = lab.run("two-epochs", *common, "run.num_epochs=2", "run.max_steps=20")
    assert len(steps(repeated)) == 20 and losses(repeated) == losses(epochs)
    assert {line["epoch"] for line in steps(repeated).values()} == {0, 1}
    code, out, _ = lab.finish(lab.start("planned", "run.num_epochs=1", "run.max_steps=20", command="plan"))
    assert code == 0 and "20 steps = 1.333 epochs of 15 steps (run.max_steps; run.num_epochs: 1 does not count)" in out, out


def evaluations(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if "validation_loss" in line]


def test_evaluates_at_the_start_and_by_share_and_saves_by_epoch(lab):
    settings = ["run.evaluate_at_start=true", "run.evaluate_steps=0.25", "checkpoint.save_steps=epoch", "checkpoint.keep_best=1",
                "optimizer.learning_rate=0", "schedule.warmup_steps=0"]
    run = lab.run("intervals", *settings)
    assert evaluations(run) == [0, 5, 10, 15, 20]
    saved = {int(path.name[5:]) for path in (run / "checkpoints").glob("step-*")}
    assert saved == {5, 15, 20}, "the first of equally good ones, an epoch's end, the run's end; not step 0"
    assert lab.run("intervals", *settings) == run and evaluations(run) == [0, 5, 10, 15, 20]
    _, out, _ = lab.finish(lab.start("planned", *settings, command="plan"))
    assert "at the start, after steps 5, 10, 15, 20" in out and "after steps 15, 20" in out, out


def test_a_stable_run_is_resumed_bit_equal_and_made_longer(lab):
    settings = ["schedule.name=warmup_stable_decay", "schedule.warmup_steps=2", "schedule.decay_steps=5", "schedule.decay_shape=1-sqrt",
                "data.validation=", "checkpoint.save_steps=7", "checkpoint.keep=10"]
    whole = lab.run("stable", *settings)
    take_checkpoint(whole, 14, lab.folder / "runs" / "stable-resumed")
    take_checkpoint(whole, 14, lab.folder / "runs" / "stable-longer")
    assert losses(lab.run("stable-resumed", *settings)) == losses(whole)[14:]
    longer = steps(lab.run("stable-longer", *settings, "run.max_steps=25"))
    assert [longer[step]["learning_rate"] for step in (15, 20)] == [3e-3, 3e-3] and longer[25]["learning_rate"] == pytest.approx(3e-4)
