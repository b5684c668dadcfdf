"""Damaged checkpoints: the run resumes from the newest complete one, and names those that it passed over."""

import json
import os
import shutil

import pytest
from runs import assert_bit_equal, steps, weights

SETTINGS = ["run.max_steps=9", "checkpoint.save_steps=3", "checkpoint.keep=10", "data.validation="]


@pytest.fixture(scope="session")
def whole(lab):
    return lab.run("whole", *SETTINGS, ranks=2)


def copy_of(lab, whole, name):
    run = lab.folder / "runs" / name
    shutil.copytree(whole, run)
    shutil.rmtree(run / "checkpoints" / "step-9")
    return run


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


def a_manifest_of_another_length(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][1]["size"] += 1
    path.write_text(json.dumps(manifest))


def shard(folder, rank):
    return folder / f"rank-0000{rank}-of-00002.safetensors"


def exchanged(folder):
    """This step's shard is that of another step: right size, right header."""
    shutil.copyfile(shard(folder.parent / "step-3", 1), shard(folder, 1))


DAMAGES = {
    "a bit of a weight flipped": lambda folder: flip(shard(folder, 0), -5),
    "a bit of the other rank's header flipped": lambda folder: flip(shard(folder, 1), 40),
    "truncated": lambda folder: os.truncate(shard(folder, 1), 1000),
    "empty": lambda folder: os.truncate(shard(folder, 0), 0),
    "gone": lambda folder: shard(folder, 1).unlink(),
    "longer": lambda folder: shard(folder, 0).write_bytes(shard(folder, 0).read_bytes() + b"x"),
    "of another step": exchanged,
    "a manifest of another length": a_manifest_of_another_length,
    "a manifest cut short": lambda folder: os.truncate(folder / "manifest.json", 500),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage, ranks", [*((damage, 2) for damage in DAMAGES), ("of another step", 1)])
def test_a_damaged_checkpoint_is_passed_over(lab, whole, damage, ranks):
    run = copy_of(lab, whole, f"{damage}-{ranks}".replace(" ", "-").replace("'", ""))
    DAMAGES[damage](run / "checkpoints" / "step-6")
    code, _, err = lab.finish(lab.start(run.name, *SETTINGS, ranks=ranks))
    assert code == 0, err
    assert "checkpoint passed over" in err and "step-6" in err and "resumed from " in err
    assert "step-3: 3 of 9" in err
    if ranks == 2:
        assert_bit_equal(run, whole)
    else:
        assert sorted(steps(run)) == list(range(1, 10)) and weights(run)


def test_a_run_never_starts_over_by_itself(lab, whole):
    run = copy_of(lab, whole, "all-damaged")
    for step in (3, 6):
        flip(shard(run / "checkpoints" / f"step-{step}", 0), -1)
    before = (run / "metrics.jsonl").read_text()
    code, _, err = lab.finish(lab.start("all-damaged", *SETTINGS, ranks=2))
    assert code == 66
    assert "no checkpoint of" in err and "2 were tried" in err, err
    assert (run / "metrics.jsonl").read_text() == before


def test_a_checkpoint_that_was_named_is_not_replaced_by_another(lab, whole):
    run = copy_of(lab, whole, "named")
    flip(shard(run / "checkpoints" / "step-6", 0), -1)
    code, _, err = lab.finish(lab.start("named", *SETTINGS, f"checkpoint.resume={run}/checkpoints/step-6", ranks=2))
    assert code == 66 and "digest" in err, err


def test_names_that_are_not_ours_are_neither_used_nor_touched(lab, whole):
    run = copy_of(lab, whole, "foreign")
    folder = run / "checkpoints"
    for name in ("step-8.bak", "xstep-8", "step-08", "step-7.tmp.tmp"):
        shutil.copytree(folder / "step-6", folder / name)
    (folder / "step-99").symlink_to(folder / "nowhere")
    (folder / "step-7.tmp").mkdir()  # left by a crash of ours
    (folder / "step-7.tmp" / "rank-00000-of-00002.safetensors").write_text("half")
    (folder / "step-5.tmp").mkdir()  # looks like it, but holds somebody's file
    (folder / "step-5.tmp" / "notes.txt").write_text("mine")
    lab.run("foreign", *SETTINGS, "checkpoint.keep=2", ranks=2)
    left = {path.name for path in folder.iterdir()}
    foreign = {"step-8.bak", "xstep-8", "step-08", "step-7.tmp.tmp", "step-99", "step-5.tmp"}
    assert foreign < left
    assert "step-7.tmp" not in left and (folder / "step-5.tmp" / "notes.txt").read_text() == "mine"
    assert left - foreign == {"step-6", "step-9"}
    for path in folder.iterdir():  # what looks like the newest to this test
        if path.name in foreign:
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
    assert_bit_equal(run, whole)
