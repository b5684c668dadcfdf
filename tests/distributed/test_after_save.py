"""checkpoint.after_save: a command on each committed checkpoint."""

import json
import os
import shutil
import signal
import time

import pytest
from checkpoint_programs import Program, ends_of_commands
from runs import PATIENCE_S, assert_bit_equal, slow_from

SETTINGS = ["data.validation=", "run.max_steps=12", "checkpoint.save_steps=4", "checkpoint.keep=10"]
KEY = "checkpoint.after_save"


def saved(run):
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*"))


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_checkpoint_is_passed_once_and_in_order(lab, ranks):
    ranks_variables = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK", "PACKTRAIN_STATUS_FILE")
    program = Program(lab.folder, f"order-{ranks}", f"""
note(step=step, folder=str(folder), files=sorted(os.listdir(folder)), run=os.environ["PACKTRAIN_RUN"],
     checkpoint=os.environ["PACKTRAIN_CHECKPOINT"], words=sys.argv[1:-1],
     of_rank=[name for name in {ranks_variables} if name in os.environ])
print("looked at", step)
""")
    run = lab.run(f"order-{ranks}", *SETTINGS, program.setting(KEY, "a b", "$HOME", "*"), ranks=ranks)
    notes = program.notes()
    assert [note["step"] for note in notes] == [4, 8, 12]
    for note in notes:
        folder = run / "checkpoints" / f"step-{note['step']}"
        assert note["folder"] == note["checkpoint"] == str(folder) and note["run"] == str(run)
        assert "manifest.json" in note["files"] and len(note["files"]) == ranks + 1
        assert note["words"] == ["a b", "$HOME", "*"], "no shell reads them"
        assert note["of_rank"] == []
    assert ends_of_commands(run) == [(KEY, step, True) for step in (4, 8, 12)]
    assert (run / "log" / "after_save.log").read_text() == "looked at 4\nlooked at 8\nlooked at 12\n"


def test_it_changes_no_bit_of_the_run(lab):
    program = Program(lab.folder, "bits", "")
    settings = [*SETTINGS, "checkpoint.keep=1"]
    assert_bit_equal(lab.run("with-command", *settings, program.setting(KEY)), lab.run("without-command", *settings))


def test_a_failure_is_tried_again(lab):
    program = Program(lab.folder, "again", """
note(step=step)
if step == 8 and steps_noted().count(8) < 2:
    sys.exit("the bucket is away")
""")
    process = lab.start("again", *SETTINGS, program.setting(KEY))
    code, _, err = lab.finish(process)
    assert code == 0, err
    assert [note["step"] for note in program.notes()] == [4, 8, 8, 12]
    assert "checkpoint.after_save of step 8 failed (1 of 3 tries): exit code 1: the bucket is away" in err
    assert ends_of_commands(lab.folder / "runs" / "again")[1:3] == [(KEY, 8, False), (KEY, 8, True)]


def test_a_lasting_failure_is_a_warning_and_the_run_continues(lab):
    program = Program(lab.folder, "never", """
note(step=step)
sys.exit(3)
""")
    code, _, err = lab.finish(lab.start("never", *SETTINGS, "checkpoint.save_steps=0", program.setting(KEY)))
    assert code == 0, err
    assert [note["step"] for note in program.notes()] == [12, 12, 12]
    assert "failed (3 of 3 tries): exit code 3. Training continues" in err and "log/after_save.log" in err


def test_a_command_that_takes_too_long_is_ended(lab):
    program = Program(lab.folder, "long", """
note(step=step)
time.sleep(1000)
""")
    begin = time.monotonic()
    code, _, err = lab.finish(lab.start("long", *SETTINGS, "checkpoint.save_steps=0", "run.command_timeout_s=1",
                                        program.setting(KEY)))
    assert code == 0, err
    assert "failed (1 of 3 tries): ended after 1 s (run.command_timeout_s)" in err, err
    assert "checkpoint.after_save of step 12 is not done: it is ended with the run" in err, err
    assert time.monotonic() - begin < 100


def test_a_checkpoint_in_use_stays_and_is_removed_afterwards(lab):
    program = Program(lab.folder, "slow", """
before = sorted(os.listdir(folder))
while step < 12 and not (folder.parent / "step-12").exists():
    time.sleep(0.01)
note(step=step, before=before, after=sorted(os.listdir(folder)))
""")
    run = lab.run("in-use", *SETTINGS, "checkpoint.keep=1", program.setting(KEY))
    notes = program.notes()
    assert [note["step"] for note in notes] == [4, 8, 12]
    assert all(note["before"] == note["after"] and "manifest.json" in note["after"] for note in notes)
    assert saved(run) == [12]


def test_the_manifest_that_is_passed_has_the_validation_loss(lab):
    program = Program(lab.folder, "loss", """
note(step=step, state=json.loads((folder / "manifest.json").read_text())["state"])
""")
    settings = ["run.max_steps=12", "checkpoint.save_steps=6", "run.evaluate_steps=6", "checkpoint.keep=10"]
    lab.run("passed-loss", *settings, program.setting(KEY))
    assert [note["step"] for note in program.notes()] == [6, 12]
    assert all(note["state"]["validation_loss"] > 0 for note in program.notes())


def test_a_stopped_run_passes_its_last_checkpoint_on(lab):
    program = Program(lab.folder, "stop", """
note(step=step)
time.sleep(1)
note(step=step, ended=True)
""")
    process = lab.start("stop", *SETTINGS, *slow_from(3, 9), "checkpoint.save_steps=0", program.setting(KEY))
    folder = lab.folder / "runs" / "stop"
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "metrics.jsonl").exists() or "\n" not in (folder / "metrics.jsonl").read_text():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    code, _, err = lab.finish(process)
    assert code == 75, err
    (step,) = saved(folder)
    assert program.notes() == [{"step": step}, {"step": step, "ended": True}]


def test_what_a_dead_process_left_undone_is_done_by_the_next(lab):
    program = Program(lab.folder, "left", """
note(step=step, pid=os.getpid())
if step == 8 and steps_noted().count(8) < 2:
    time.sleep(1000)
""")
    settings = [*SETTINGS, program.setting(KEY)]
    code, _, _ = lab.finish(lab.start("left", *settings, *slow_from(9, 2, 3), "fault.kind=abort", "fault.step=11"))
    assert code not in (0, 75)
    first = program.notes()
    assert first[0]["step"] == 4
    for note in first:  # an abort runs no code of the run
        if os.path.exists(f"/proc/{note['pid']}"):
            os.kill(note["pid"], signal.SIGKILL)
    lab.run("left", *settings)
    assert [note["step"] for note in program.notes()] == [4, 8, 8, 12]
    lab.run("left", *settings)  # finished before: nothing is left
    assert [note["step"] for note in program.notes()] == [4, 8, 8, 12]


def test_a_program_that_is_missing_is_named_before_the_first_step(lab):
    code, _, err = lab.finish(lab.start("missing", *SETTINGS, f'{KEY}=["no-such-program", "x"]'))
    assert code == 64 and "checkpoint.after_save starts no-such-program, which is no program here" in err, err
    assert not (lab.folder / "runs" / "missing" / "metrics.jsonl").exists()


# The lines of docs/operations.md, with a folder as the storage.
@pytest.mark.parametrize("words", [
    ["cp", "-r", "{checkpoint}", "STORAGE/"],
    ["rsync", "--archive", "{checkpoint}", "STORAGE/"],
    ["rclone", "copy", "{checkpoint}", "STORAGE/step-{step}"],
    ["gsutil", "-m", "cp", "-r", "{checkpoint}", "STORAGE/"],
])
def test_the_examples_of_the_documents_copy_checkpoints(lab, words):
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    name = f"copy-{words[0]}"
    storage = lab.folder / f"storage-{words[0]}"
    storage.mkdir()
    words = [word.replace("STORAGE", str(storage)) for word in words]
    run = lab.run(name, *SETTINGS, f"{KEY}={json.dumps(words)}")
    for step in (4, 8, 12):
        ours, theirs = run / "checkpoints" / f"step-{step}", storage / f"step-{step}"
        assert {path.name: path.read_bytes() for path in ours.iterdir()} == \
            {path.name: path.read_bytes() for path in theirs.iterdir()}
    # Another run continues from the copy.
    again = lab.run(f"{name}-again", *SETTINGS, "run.max_steps=16", f"checkpoint.resume={storage / 'step-12'}",
                    "checkpoint.allow_changed=[run.max_steps]")
    assert saved(again)[-1] == 16
