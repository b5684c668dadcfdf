#!/usr/bin/env python3
"""Hands the metrics of a run to TensorBoard, Weights & Biases or MLflow, while it trains or afterwards. Reads
metrics.jsonl of the run's folder and nothing else. A follower that is started again writes nothing twice.
`metrics.report_to` starts it with the run."""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.folder_lock import alone_in
from packtrain_tools.follow_file import FollowedFile
from packtrain_tools.follow_targets import MLflow, TensorBoard, Wandb, import_package, run_name
from packtrain_tools.metrics_scalars import scalars_of

PROGRAM = "packtrain follow"
FORMER_ENDS_WITHIN_S = 30.0  # the follower of a run that was lost: longer than its interval
ADVICE = "Wait for its end, or name another place."
Target = TensorBoard | Wandb | MLflow


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run (run.output); it may come later")
    parser.add_argument("--tensorboard", metavar="DIR",
                        help="write event files to DIR/NAME, for `tensorboard --logdir DIR`")
    parser.add_argument("--wandb", metavar="PROJECT",
                        help="log to this project of Weights & Biases (needs `pip install wandb`)")
    parser.add_argument("--mlflow", metavar="EXPERIMENT",
                        help="log to this experiment of MLflow (needs `pip install mlflow`)")
    parser.add_argument("--once", action="store_true",
                        help="end when all that is there was read; else with Ctrl-C")
    parser.add_argument("--check", action="store_true", help="only look whether the needed packages are there")
    parser.add_argument("--poll", type=float, default=2.0, metavar="SECONDS",
                        help="how often to look for new lines (default: 2)")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # process of the run: ends with it
    arguments = parser.parse_args()
    if not arguments.tensorboard and not arguments.wandb and not arguments.mlflow:
        parser.error("wanted --tensorboard DIR, --wandb PROJECT, --mlflow EXPERIMENT or several of them")
    if arguments.poll <= 0:
        parser.error(f"--poll: got {arguments.poll:g}, wanted a number above 0")
    return arguments


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


def request_of_end() -> threading.Event:
    """Set by SIGINT and SIGTERM. What was written before them is still read. A run starts its follower with SIGTERM
    blocked, so that none is lost before."""
    ends = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, lambda _number, _frame: ends.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return ends


def follow(arguments: argparse.Namespace, targets: list, ends: threading.Event):
    file = FollowedFile(os.path.join(arguments.run, "metrics.jsonl"))
    clock = Clock()
    while True:
        is_last = ends.is_set() or arguments.once or (arguments.parent not in (None, os.getppid()))
        cut, lines = file.poll()
        if cut:
            clock = Clock()
            for target in targets:
                target.restart()
        hand_over(lines, clock, targets)
        if is_last:
            return
        ends.wait(arguments.poll)


def open_targets(arguments: argparse.Namespace, opened: contextlib.ExitStack) -> list[Target]:
    """One follower at a time writes to a target. The former one of a restarted run ends first, because it may still
    have lines to send and would remove the new event file. Folders of servers are for the lock alone."""
    targets: list[Target] = []
    wait_s = 0.0 if arguments.parent is None else FORMER_ENDS_WITHIN_S

    def add(folder: str, make: Callable[[], Target]):
        opened.enter_context(alone_in(folder, "`packtrain follow`", ADVICE, wait_s))
        targets.append(make())
        opened.callback(targets[-1].close)

    if arguments.wandb:
        add(os.path.join(arguments.run, "log", "wandb"), lambda: Wandb(arguments.run, arguments.wandb))
    if arguments.mlflow:
        add(os.path.join(arguments.run, "log", "mlflow"), lambda: MLflow(arguments.run, arguments.mlflow))
    if arguments.tensorboard:
        events = os.path.join(arguments.tensorboard, run_name(arguments.run))
        add(events, lambda: TensorBoard(events))
    return targets


def main():
    arguments = parse_arguments()
    if arguments.check:
        for package in ("wandb", "mlflow"):
            if getattr(arguments, package):
                import_package(package)
        return
    if arguments.once and not os.path.exists(os.path.join(arguments.run, "metrics.jsonl")):
        raise ToolError(f"{arguments.run} holds no metrics.jsonl", "Name the folder of a run.", CONFIG)
    ends = request_of_end()
    with contextlib.ExitStack() as opened:
        follow(arguments, open_targets(arguments, opened), ends)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
