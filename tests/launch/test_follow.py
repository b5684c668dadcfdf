"""packtrain follow: what it hands to TensorBoard and Weights & Biases, of files as runs write them."""

import json
import math
import os
import signal
import sys
import time

import pytest
from followed_run import COMMAND, EVALUATION, REPO, Run, step_line

sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain_tools.errors import ToolError  # the path is set above
from packtrain_tools.folder_lock import alone_in

# Stands in for the package, whose other end is a server: keeps what it is given.
WANDB = """
import json, os
class Run:
    def __init__(self, id):
        self.id = id or "made-up"
    def log(self, values, step=None):
        self._write({"step": step, **values})
    def define_metric(self, name, step_metric):
        self._write({"defined": name, "by": step_metric})
    def finish(self):
        self._write({"finished": True})
    def _write(self, entry):
        with open(os.environ["WANDB_LOG"], "a") as log:
            log.write(json.dumps(entry) + "\\n")
def init(**options):
    run = Run(options["id"])
    run._write({"init": options["project"], "id": options["id"], "config": options["config"]})
    return run
"""


def stop(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=100) == 0


def test_every_number_of_a_line_is_a_scalar_of_its_step(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, None), EVALUATION])
    run.follow("--tensorboard", str(run.events), "--once")
    first, second, evaluation = run.found()
    assert first[0] == 1 and first[2] == {
        "train/loss": 3.5, "train/grad_norm": 1.0, "speed/step_time_s": 0.5, "batch/fill": 0.75,
        "memory/peak_memory_bytes": 2**31, "run/num_failed_saves": 0, "train/loss_by_source/web": 4.5,
        "objective/reward_margin": 0.5,
        "adapters/de/loss": 3.5, "adapters/de/grad_norm": 2.0, "adapters/de/learning_rate": 0.5}
    assert second[0] == 2 and math.isnan(second[2]["train/loss"])
    assert evaluation[0] == 2 and evaluation[2] == {
        "validation/loss": 2.5, "validation/perplexity": 12.25, "validation/code/loss": 2.5,
        "validation/code/perplexity": 12.25, "validation/reward_accuracy": 0.75,
        "validation/code/reward_accuracy": 0.75}
    assert second[1] - first[1] == pytest.approx(0.5), "the time that the step took"


def test_lines_are_handed_over_as_they_come_but_never_half_of_one(tmp_path):
    run = Run(tmp_path)
    (run.folder / "metrics.jsonl").unlink()
    process = run.start("--tensorboard", str(run.events))
    run.append(step_line(1, 3.5))
    run.wait_for_losses([(1, 3.5)])
    with (run.folder / "metrics.jsonl").open("a") as stream:
        text = json.dumps(step_line(2, 3.25))
        stream.write(text[:20])
        stream.flush()
        time.sleep(0.3)
        assert run.losses() == [(1, 3.5)]
        stream.write(text[20:] + "\n")
    run.wait_for_losses([(1, 3.5), (2, 3.25)])
    stop(process)


def test_a_follower_that_is_started_again_writes_nothing_twice(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25)])
    run.follow("--tensorboard", str(run.events), "--once")
    run.append(step_line(3, 3.0))
    run.follow("--tensorboard", str(run.events), "--once")
    assert run.losses() == [(1, 3.5), (2, 3.25), (3, 3.0)]


def test_a_run_that_goes_back_to_a_checkpoint_has_each_step_once(tmp_path):
    run = Run(tmp_path, [step_line(step, 4 - step / 4) for step in range(1, 6)])
    process = run.start("--tensorboard", str(run.events))
    run.wait_for_losses([(step, 4 - step / 4) for step in range(1, 6)])
    run.replace(step_line(1, 3.75), step_line(2, 3.5))
    run.append(step_line(3, 1.5))
    run.wait_for_losses([(1, 3.75), (2, 3.5), (3, 1.5)])
    run.append(step_line(4, 1.25))
    run.wait_for_losses([(1, 3.75), (2, 3.5), (3, 1.5), (4, 1.25)])
    stop(process)


def test_tensorboard_reads_what_is_written(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator",
                                      reason="the package tensorboard is not there")
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25), EVALUATION])
    run.follow("--tensorboard", str(run.events), "--once")
    events = accumulator.EventAccumulator(str(run.events / "flan"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 3.5), (2, 3.25)]
    assert [event.value for event in events.Scalars("validation/code/loss")] == [2.5]


def wandb_log(tmp_path, run, **options):
    package = tmp_path / "packages"
    package.mkdir(exist_ok=True)
    (package / "wandb.py").write_text(WANDB)
    log = tmp_path / "wandb.log"
    run.follow("--wandb", "project", "--once", PYTHONPATH=str(package), WANDB_LOG=str(log), **options)
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_wandb_is_given_each_step_once_with_its_evaluation(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25), EVALUATION])
    (run.folder / "config.yaml").write_text("run: {}\n")
    begin, first, second, end = wandb_log(tmp_path, run)
    assert begin == {"init": "project", "id": None, "config": {"config_yaml": "run: {}\n"}}
    assert first["step"] == 1 and first["train/loss"] == 3.5 and "validation/loss" not in first
    assert second["step"] == 2 and second["train/loss"] == 3.25 and second["validation/loss"] == 2.5
    assert end == {"finished": True}


def test_wandb_continues_the_same_run_with_new_steps(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25)])
    wandb_log(tmp_path, run)
    run.replace(step_line(1, 3.5), step_line(2, 3.125), step_line(3, 3.0))
    entries = wandb_log(tmp_path, run)[4:]
    assert entries[0]["id"] == "made-up"
    assert [entry["step"] for entry in entries if "step" in entry] == [3]


def test_numbers_of_a_command_are_scalars_of_their_own_step(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25), COMMAND])
    run.follow("--tensorboard", str(run.events), "--once")
    assert [(step, values) for step, _, values in run.found()][2] == (1, {"evaluate_command/accuracy": 0.25})


def test_wandb_gets_numbers_of_a_command_once_with_their_step(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5), step_line(2, 3.25), COMMAND, step_line(3, 3.0)])
    entries = wandb_log(tmp_path, run)
    assert {"step": None, "evaluate_command/accuracy": 0.25, "evaluate_command/step": 1} in entries
    assert {"defined": "evaluate_command/*", "by": "evaluate_command/step"} in entries
    assert [entry["step"] for entry in entries if "train/loss" in entry] == [1, 2, 3]
    again = wandb_log(tmp_path, run)[len(entries):]
    assert not any("evaluate_command/accuracy" in entry for entry in again)


def test_a_request_to_end_lets_it_read_what_is_there(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    process = run.start("--tensorboard", str(run.events), "--poll", "1000")
    run.wait_for_losses([(1, 3.5)])
    run.append(step_line(2, 3.25))
    process.terminate()
    assert process.wait(timeout=100) == 0
    assert run.losses() == [(1, 3.5), (2, 3.25)]


def test_it_ends_with_the_process_of_the_run(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    process = run.start("--tensorboard", str(run.events), "--parent", "1")
    assert process.wait(timeout=100) == 0
    assert run.losses() == [(1, 3.5)]


def test_that_of_a_run_begins_when_the_former_one_has_ended(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    former = run.start("--tensorboard", str(run.events), "--poll", "1000")
    run.wait_for_losses([(1, 3.5)])
    run.replace(step_line(1, 3.25))
    process = run.start("--tensorboard", str(run.events), "--parent", str(os.getpid()))
    time.sleep(1)
    assert run.losses() == [(1, 3.5)], "the new one has replaced the file of the former one"
    former.terminate()
    assert former.wait(timeout=100) == 0
    run.append(step_line(2, 3.0))
    run.wait_for_losses([(1, 3.25), (2, 3.0)])
    stop(process)


def test_by_hand_another_one_of_the_same_place_is_refused(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    former = run.start("--tensorboard", str(run.events))
    run.wait_for_losses([(1, 3.5)])
    begin = time.monotonic()
    err = run.follow("--tensorboard", str(run.events), "--once", code=64)
    assert "another `packtrain follow` is at work in this folder" in err and time.monotonic() - begin < 25
    stop(former)


def test_a_folder_in_which_another_process_stays_at_work_is_named(tmp_path):
    begin = time.monotonic()
    with (alone_in(str(tmp_path), "work", "Wait."), pytest.raises(ToolError, match="another work is at work"),
          alone_in(str(tmp_path), "work", "Wait.", wait_s=0.3)):
        pass
    assert time.monotonic() - begin >= 0.3


def test_a_check_starts_nothing(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    run.follow("--tensorboard", str(run.events), "--check")
    assert not run.events.exists()


def test_without_the_package_it_says_what_to_install(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    blocked = tmp_path / "packages"
    blocked.mkdir()
    (blocked / "wandb.py").write_text("raise ImportError('not here')\n")
    err = run.follow("--wandb", "project", "--once", code=64, PYTHONPATH=str(blocked))
    assert "no Python package wandb" in err and "pip install wandb" in err


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "--tensorboard DIR, --wandb PROJECT"),
    (["--tensorboard", "x", "--poll", "0"], "--poll: got 0"),
])
def test_what_cannot_be_is_named(tmp_path, arguments, words):
    assert words in Run(tmp_path).follow(*arguments, code=64)


def test_a_folder_without_metrics_is_named(tmp_path):
    run = Run(tmp_path)
    (run.folder / "metrics.jsonl").unlink()
    assert "holds no metrics.jsonl" in run.follow("--tensorboard", str(run.events), "--once", code=64)


def test_a_line_that_is_none_is_named(tmp_path):
    run = Run(tmp_path, [step_line(1, 3.5)])
    with (run.folder / "metrics.jsonl").open("a") as stream:
        stream.write("not json\n")
    assert "metrics.jsonl: byte " in run.follow("--tensorboard", str(run.events), "--once", code=65)
