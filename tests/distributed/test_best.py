"""The checkpoints of the lowest validation loss, kept on request."""

import json
import shutil
import subprocess

from runs import PROGRAM, assert_bit_equal

# A learning rate that is much too high, after some steps: the validation loss falls, then rises.
SETTINGS = ["run.max_steps=20", "run.evaluate_steps=2", "checkpoint.save_steps=5", "checkpoint.keep=2",
            "checkpoint.keep_best=2", "schedule.name=linear", "schedule.warmup_steps=20",
            "optimizer.learning_rate=0.2", "optimizer.max_grad_norm=0"]


def validation_losses(run):
    """Returns them by step."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def saved(run):
    return {int(path.name[5:]) for path in (run / "checkpoints").glob("step-*")}


def state(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())["state"]


def assert_best_are_kept(run):
    found = validation_losses(run)
    best = sorted(found, key=found.get)[:2]
    assert saved(run) == {*best, *sorted(saved(run))[-2:]}
    assert max(best) < 18, "the test wants them to be older than the newest two"
    for step in best:
        assert state(run, step)["validation_loss"] == found[step]
    assert state(run, 20)["best_losses"] == sorted(found.values())[:2]


def test_the_last_line_names_the_best(lab):
    code, _, err = lab.finish(lab.start("best-named", *SETTINGS))
    found = validation_losses(lab.folder / "runs" / "best-named")
    assert code == 0 and f"the best checkpoint is step {min(found, key=found.get)} (" in err, err
    assert "--best" in err.splitlines()[-1]


def test_the_best_are_kept_together_with_the_newest(lab):
    run = lab.run("best", *SETTINGS, ranks=2)
    assert_best_are_kept(run)


def test_export_of_the_best_says_that_a_better_one_is_gone(lab):
    run = lab.run("best-gone", *SETTINGS)
    export = [PROGRAM, "export", str(run), "--best", "--out"]
    whole = subprocess.run([*export, str(lab.folder / "best-whole")], capture_output=True, text=True, check=True)
    assert "is gone" not in whole.stderr
    found = validation_losses(run)
    shutil.rmtree(run / "checkpoints" / f"step-{min(found, key=found.get)}")
    left = subprocess.run([*export, str(lab.folder / "best-left")], capture_output=True, text=True, check=True)
    assert "whose folder is gone or cannot be used" in left.stderr


def test_a_run_that_was_broken_off_keeps_the_same(lab):
    whole = lab.run("best-whole", *SETTINGS, ranks=2)
    process = lab.start("best-broken", *SETTINGS, "fault.kind=abort", "fault.step=13", ranks=2)
    code, _, _ = lab.finish(process)
    assert code not in (0, 75)
    broken = lab.run("best-broken", *SETTINGS, ranks=2)
    assert_bit_equal(broken, whole)
    assert validation_losses(broken) == validation_losses(whole)
    assert_best_are_kept(broken)


def test_an_evaluation_that_is_no_better_saves_nothing(lab):
    run = lab.run("no-better", *SETTINGS, "checkpoint.save_steps=0", "checkpoint.save_final=false",
                  "checkpoint.keep=10")
    found = validation_losses(run)
    best_so_far = [step for step in found if sorted(list(found.values())[:list(found).index(step) + 1])
                   .index(found[step]) < 2]
    assert saved(run) == set(best_so_far)


def test_the_best_are_of_the_set_that_decides_now(lab):
    sets = {"learned": str(lab.train_store), "other": str(lab.validation_store)}
    common = [f"data.validation={json.dumps(sets)}", "run.evaluate_steps=2", "checkpoint.save_steps=2",
              "checkpoint.keep=1", "checkpoint.keep_best=1", "schedule.name=constant"]
    lab.run("best-of-set", *common, "run.max_steps=10", "checkpoint.best_by=learned")
    run = lab.run("best-of-set", *common, "run.max_steps=20", "checkpoint.best_by=other")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {line["step"]: line["validation_sets"]["other"]["loss"] for line in lines
             if "validation_sets" in line and line["step"] > 10}
    assert saved(run) == {min(found, key=found.get), 20}
    assert min(found, key=found.get) < 20, "the test wants a best one before the end"
