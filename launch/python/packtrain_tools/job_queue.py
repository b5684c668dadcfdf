"""A queue of jobs (programs), some at the same time. It can be stopped, and leaves no process running."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from packtrain_tools.program import end_with_parent

POLL_SECONDS = 0.05


@dataclass
class Job:
    command: list[str]
    log: str  # file for all output
    environment: dict[str, str] = field(default_factory=dict)


def _die_with_parent():
    """Runs in the child: requests SIGTERM, which asks for a save, when the queue's process ends."""
    end_with_parent(signal.SIGTERM)


def start(job: Job) -> subprocess.Popen:
    """Starts in a session of its own, so that a terminal's Ctrl-C reaches only the queue."""
    os.makedirs(os.path.dirname(job.log), exist_ok=True)
    with open(job.log, "wb") as log:
        return subprocess.Popen(job.command, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT, start_new_session=True,
                                env={**os.environ, **job.environment},
                                preexec_fn=_die_with_parent)


class Stopper:
    """The first SIGINT, SIGTERM or SIGHUP asks all jobs to save and stop. The second SIGINT or SIGTERM, or
    SIGQUIT, ends them immediately. Handlers only record the request; the queue acts."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

    def __init__(self):
        self.num_requests = 0
        self.at_once = False

    def _note(self, number, _frame):
        self.num_requests += 1
        self.at_once |= number == signal.SIGQUIT or (self.num_requests > 1
                                                     and number != signal.SIGHUP)

    @contextlib.contextmanager
    def watching(self) -> Iterator["Stopper"]:
        before = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def wanted_signal(self) -> int | None:
        if self.at_once:
            return signal.SIGQUIT
        return signal.SIGTERM if self.num_requests else None


def run_queue(items: list, num_at_once: int, make_job: Callable, stopper: Stopper,
              on_end: Callable) -> None:
    """Starts make_job(item, slot) for each item, slots 0 to num_at_once - 1. Calls on_end(item, exit code,
    seconds) as each ends. Starts no more jobs after a stop was requested."""
    waiting = list(items)
    free = list(range(num_at_once))
    running: list[tuple] = []  # (process, item, slot, begin)
    sent = None
    while running or (waiting and not stopper.num_requests):
        while waiting and free and not stopper.num_requests:
            item, slot = waiting.pop(0), free.pop(0)
            running.append((start(make_job(item, slot)), item, slot, time.monotonic()))
        wanted = stopper.wanted_signal
        if wanted is not None and wanted != sent:
            sent = wanted
            for process, *_ in running:
                process.send_signal(sent)
        for entry in [entry for entry in running if entry[0].poll() is not None]:
            running.remove(entry)
            process, item, slot, begin = entry
            free.append(slot)
            on_end(item, process.returncode, time.monotonic() - begin)
        time.sleep(POLL_SECONDS)
