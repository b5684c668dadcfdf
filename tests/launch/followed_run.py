"""A run's folder with metrics, and `packtrain follow` of it, for tests."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

from event_reader import scalars

REPO = pathlib.Path(__file__).resolve().parents[2]
TOOL = [sys.executable, str(REPO / "launch" / "python" / "follow.py")]


def step_line(step, loss):
    return {"step": step, "loss": loss, "grad_norm": 1.0, "step_time_s": 0.5, "fill": 0.75,
            "peak_memory_bytes": 2**31, "num_failed_saves": 0, "slowest_phase": "data", "expert_tokens": [1, 2],
            "loss_by_source": {"web": loss and loss + 1}, "objective": {"reward_margin": 0.5},
            "adapters": {"de": {"loss": loss, "grad_norm": 2.0, "learning_rate": 0.5, "num_tokens": 9}}}


COMMAND = {"step": 1, "evaluate_command": {"accuracy": 0.25}}  # comes after lines of later steps
EVALUATION = {"step": 2, "validation_loss": 2.5, "validation_perplexity": 12.25, "validation_set": "code",
              "validation_objective": {"reward_accuracy": 0.75},
              "validation_sets": {"code": {"loss": 2.5, "perplexity": 12.25, "num_tokens": 7,
                                           "objective": {"reward_accuracy": 0.75}}}}


class Run:
    def __init__(self, folder, lines=()):
        self.folder = folder / "flan"
        self.folder.mkdir()
        self.events = folder / "events"
        self.append(*lines)

    def append(self, *lines):
        with (self.folder / "metrics.jsonl").open("a") as stream:
            for line in lines:
                stream.write(json.dumps(line) + "\n")

    def replace(self, *lines):
        """Replaces the file as a run does that resumes from a checkpoint."""
        new = self.folder / "metrics.new"
        new.write_text("".join(json.dumps(line) + "\n" for line in lines))
        new.replace(self.folder / "metrics.jsonl")

    def follow(self, *arguments, code=0, **environment):
        words = [*TOOL, str(self.folder), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == code, done.stderr
        return done.stderr

    def start(self, *arguments):
        # A pipeline of CI may ignore SIGINT.
        return subprocess.Popen([*TOOL, str(self.folder), "--poll", "0.05", *arguments],
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))

    def found(self):
        (path,) = (self.events / "flan").iterdir()
        return scalars(path)

    def losses(self):
        return [(step, values["train/loss"]) for step, _, values in self.found() if "train/loss" in values]

    def wait_for_losses(self, wanted):
        deadline = time.monotonic() + 100
        while True:
            try:
                if self.losses() == wanted:
                    return
            except (AssertionError, OSError, ValueError, KeyError, IndexError, struct.error):
                pass  # not there yet, between two files, or half written
            assert time.monotonic() < deadline, f"no {wanted}"
            time.sleep(0.05)
