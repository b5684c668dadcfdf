"""Runs of packtrain in folders of their own: kept when they are finished, continued when they were stopped."""

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator, Mapping

DONE = "done"  # an empty file of a finished run's folder


def read_lines(folder: str) -> list[dict]:
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def is_done(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, DONE))


def mark_done(folder: str) -> None:
    with open(os.path.join(folder, DONE), "w", encoding="utf-8"):
        pass


@contextlib.contextmanager
def claim(folder: str) -> Iterator[bool]:
    """False: another process has it. The lock ends with the process."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def start(words: list[str], log: str, environment: Mapping[str, str] | None = None,
          seconds: float | None = None) -> int:
    """The exit code. After `seconds` the run is asked to stop: it saves a checkpoint and ends with 75."""
    with (open(log, "a", encoding="utf-8") as stream,
          subprocess.Popen(words, stdout=stream, stderr=stream, env=environment) as process):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            return process.wait()
