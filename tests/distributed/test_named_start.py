"""checkpoint.resume names a checkpoint: the run begins there once, then continues its own progress."""

import json
import shutil

import pytest
from runs import losses, steps, take_checkpoint

SAVES = ["checkpoint.save_steps=4", "checkpoint.keep=10", "checkpoint.asynchronous=false"]


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("unbroken", *SAVES)


def named(lab, name, step, *settings):
    """Starts `name` from a checkpoint of the unbroken run that lies elsewhere."""
    elsewhere = lab.folder / "runs" / f"{name}-elsewhere"
    if not elsewhere.exists():
        take_checkpoint(lab.folder / "runs" / "unbroken", step, elsewhere)
    return lab.finish(lab.start(name, *SAVES, f"checkpoint.resume={elsewhere}/checkpoints/step-{step}", *settings))


def crash_at(step):
    return ["fault.kind=abort", f"fault.step={step}"]


def first_step(run):
    return min(steps(run))


def test_the_same_command_continues_the_progress_of_its_own_folder(lab, unbroken):
    run = lab.folder / "runs" / "again"
    code, _, err = named(lab, "again", 4, *crash_at(15))
    assert code != 0 and (run / "checkpoints" / "step-12").exists(), err
    code, _, err = named(lab, "again", 4)
    assert code == 0, err
    assert f"continues from {run}/checkpoints/step-12" in err, err
    assert losses(run) == losses(unbroken)[4:]


def test_the_progress_is_found_when_the_named_checkpoint_is_gone(lab, unbroken):
    run = lab.folder / "runs" / "gone"
    code, _, err = named(lab, "gone", 4, *crash_at(15))
    assert code != 0, err
    shutil.rmtree(lab.folder / "runs" / "gone-elsewhere" / "checkpoints" / "step-4")
    code, _, err = named(lab, "gone", 4)
    assert code == 0, err
    assert losses(run) == losses(unbroken)[4:]


def test_a_damaged_newest_checkpoint_is_passed_over_for_an_older_one_of_the_branch(lab, unbroken):
    run = lab.folder / "runs" / "damaged"
    code, _, err = named(lab, "damaged", 4, *crash_at(15))
    assert code != 0, err
    path = next((run / "checkpoints" / "step-12").glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, _, err = named(lab, "damaged", 4)
    assert code == 0 and "passed over" in err, err
    assert f"resumed from {run}/checkpoints/step-8" in err
    assert losses(run) == losses(unbroken)[4:]


def test_a_branch_in_the_same_folder_is_refused_until_the_newer_checkpoints_are_away(lab, unbroken):
    run = lab.folder / "runs" / "branch"
    shutil.copytree(unbroken, run)
    back = ["branch", *SAVES, f"checkpoint.resume={run}/checkpoints/step-8", "run.seed=5"]
    code, _, err = lab.finish(lab.start(*back))
    assert code == 64, err
    for name in ("step-12", "step-16", "step-20"):
        assert name in err
        assert (run / "checkpoints" / name).exists()
    assert "its own run.output" in err and "checkpoint.resume to auto" in err
    for name in ("step-12", "step-16", "step-20"):
        shutil.move(run / "checkpoints" / name, lab.folder / f"away-{name}")
    code, _, err = lab.finish(lab.start(*back, *crash_at(15)))
    assert code != 0 and (run / "checkpoints" / "step-12").exists(), err
    manifest = json.loads((run / "checkpoints" / "step-12" / "manifest.json").read_text())
    assert [one["step"] for one in manifest["state"]["resumed_from"]] == [8]
    code, _, err = lab.finish(lab.start(*back))
    assert code == 0 and f"continues from {run}/checkpoints/step-12" in err, err
    assert losses(run) == losses(unbroken)
