#!/usr/bin/env python3
"""Hands the metrics of a run to TensorBoard or Weights & Biases, while it trains or afterwards. Reads
metrics.jsonl of the run's folder and nothing else; the run does not know of it. A follower that is
started again writes nothing twice."""

import argparse
import json
import os
import sys
import time
from typing import Any

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.event_file import EventFile
from packtrain_tools.follow_file import FollowedFile
from packtrain_tools.metrics_scalars import scalars_of
from packtrain_tools.sweep_runs import write_atomically

PROGRAM = "packtrain follow"
WANDB_STATE = "wandb.json"  # in the run's folder


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run (run.output); it may come later")
    parser.add_argument("--tensorboard", metavar="DIR",
                        help="write event files to DIR/NAME, for `tensorboard --logdir DIR`")
    parser.add_argument("--wandb", metavar="PROJECT",
                        help="log to this project of Weights & Biases (needs `pip install wandb`)")
    parser.add_argument("--once", action="store_true",
                        help="end when all that is there was read; else with Ctrl-C")
    parser.add_argument("--poll", type=float, default=2.0, metavar="SECONDS",
                        help="how often to look for new lines (default: 2)")
    arguments = parser.parse_args()
    if not arguments.tensorboard and not arguments.wandb:
        parser.error("wanted --tensorboard DIR, --wandb PROJECT or both")
    if arguments.poll <= 0:
        parser.error(f"--poll: got {arguments.poll:g}, wanted a number above 0")
    return arguments


def run_name(folder: str) -> str:
    return os.path.basename(os.path.abspath(folder))


class TensorBoard:
    """Starts from the beginning with each follower, and when the run has gone back, so that no step is
    written twice."""

    def __init__(self, folder: str):
        self._folder = folder
        self._file = EventFile(folder)

    def restart(self):
        self._file.close()
        self._file = EventFile(self._folder)

    def add(self, wall_time: float, step: int, scalars: dict):
        self._file.add(wall_time, step, scalars)

    def close(self):
        self._file.close()


class Wandb:
    """The step can only increase there: steps that a run repeats after a restart are not logged again. The
    last logged step is saved in the run's folder."""

    def __init__(self, run: str, project: str):
        try:
            import wandb
        except ImportError:
            raise ToolError("there is no Python package wandb",
                            f"Install it where this runs: {sys.executable} -m pip install wandb",
                            CONFIG) from None
        self._state_path = os.path.join(run, WANDB_STATE)
        self._state: dict[str, Any] = {"id": None, "step": -1}
        if os.path.exists(self._state_path):
            with open(self._state_path, encoding="utf-8") as stream:
                self._state = json.load(stream)
        self._next: dict = {}  # scalars of the latest step, to which an evaluation is added
        self._next_step = -1
        self._run = wandb.init(project=project, name=run_name(run), id=self._state["id"],
                               resume="allow", config=read_config(run))
        self._state["id"] = self._run.id

    def restart(self):
        pass

    def add(self, _wall_time: float, step: int, scalars: dict):
        if step != self._next_step:
            self.flush()
        self._next_step = step
        self._next.update(scalars)

    def flush(self):
        if self._next and self._next_step > self._state["step"]:
            self._run.log(self._next, step=self._next_step)
            self._state["step"] = self._next_step
            write_atomically(self._state_path, json.dumps(self._state) + "\n")
        self._next = {}

    def close(self):
        self.flush()
        self._run.finish()


def read_config(run: str) -> dict:
    """The resolved configuration as text, because no YAML parser is among the required packages."""
    path = os.path.join(run, "config.yaml")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as stream:
        return {"config_yaml": stream.read()}


class Clock:
    """Computes when a step's line was written. Lines have the duration of steps, but not their time."""

    def __init__(self):
        self._begin = None  # of the run
        self._elapsed = 0.0

    def times(self, lines: list[dict]) -> list[float]:
        elapsed = []
        for line in lines:
            self._elapsed += line.get("step_time_s") or 0.0
            elapsed.append(self._elapsed)
        now = time.time()
        if self._begin is None:  # the last of these lines is the newest of the file
            self._begin = now - self._elapsed
        return [min(self._begin + seconds, now) for seconds in elapsed]


def hand_over(lines: list[dict], clock: Clock, targets: list):
    for line, wall_time in zip(lines, clock.times(lines), strict=True):
        scalars = scalars_of(line)
        for target in targets:
            target.add(wall_time, line["step"], scalars)


def follow(arguments: argparse.Namespace, targets: list):
    file = FollowedFile(os.path.join(arguments.run, "metrics.jsonl"))
    clock = Clock()
    while True:
        cut, lines = file.poll()
        if cut:
            clock = Clock()
            for target in targets:
                target.restart()
        hand_over(lines, clock, targets)
        if arguments.once:
            return
        time.sleep(arguments.poll)


def main():
    arguments = parse_arguments()
    if arguments.once and not os.path.exists(os.path.join(arguments.run, "metrics.jsonl")):
        raise ToolError(f"{arguments.run} holds no metrics.jsonl", "Name the folder of a run.", CONFIG)
    targets: list[TensorBoard | Wandb] = []
    try:
        if arguments.wandb:
            targets.append(Wandb(arguments.run, arguments.wandb))
        if arguments.tensorboard:
            targets.append(TensorBoard(os.path.join(arguments.tensorboard, run_name(arguments.run))))
        follow(arguments, targets)
    except KeyboardInterrupt:
        pass
    finally:
        for target in targets:
            target.close()


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
