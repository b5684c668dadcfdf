"""A job with its restarts: doctor and mpirun, repeated while the job makes progress."""

import contextlib
import os
import re
import signal
import sys
import tempfile
import time

from packtrain_tools.errors import CONFIG, ToolError

from packtrain_launch.arguments import Settings
from packtrain_launch.command import DEVICE, Command
from packtrain_launch.fitness import SOUND, STOPPED, make_fit
from packtrain_launch.hosts import Host
from packtrain_launch.job import HANG, Job, say
from packtrain_launch.stop import StopRequests

REPLICAS_DIFFER, GIVE_UP = 73, 93
_KILLED_BY_REQUEST = 128 + signal.SIGUSR1
_MOST_FRUITLESS = 3
# A job that mpirun cannot start fails within seconds; a host that is lost later is detected after 25.
_START_LIMIT_S = 20.0
_MOST_WORDS = 60  # lines
_TRIES = 3  # to hear why MPI does not start
_NUMBER = re.compile(r"\d+")  # attempts to get MPI's reason for a failed start


def _is_packtrains(status: int) -> bool:
    """True unless the exit code is mpirun's own, for a host that it cannot reach or has lost."""
    return status == 0 or CONFIG <= status < 128 or status - 128 in signal.valid_signals()


def _signal_of(status: int) -> str:
    return signal.Signals(status - 128).name


def doctor_limit_s(settings: Settings, num_ranks: int) -> float:
    """The time limit of doctor, also without `--limit` (launch/doctor/probe_watch.cpp)."""
    return settings.doctor_limit_s or 60 + num_ranks / 20


class Runner:
    def __init__(self, settings: Settings, command: Command, stop: StopRequests, status_file: str):
        self._settings, self._command, self._stop = settings, command, stop
        self._status_file = status_file
        self._requeues = int(command.environment.get("SLURM_RESTART_COUNT", "0"))
        self._environment = {**command.environment, "PACKTRAIN_STATUS_FILE": status_file}

    def run(self) -> int:
        """Returns the exit code of the last job. Each new checkpoint restores the budget of restarts."""
        restarts = since_save = 0
        saved = ""
        while True:
            self._environment["PACKTRAIN_RESTARTS"] = str(self._requeues + restarts)
            status = self._examine()
            if status != SOUND:
                return status
            status = self._run_job()
            if not self._is_worth_a_restart(status):
                return status
            newest = self._newest_save()
            if newest != saved:
                since_save = 0
            saved = newest
            if since_save >= self._settings.max_restarts:
                return status
            if since_save >= _MOST_FRUITLESS:
                say(f"three restarts in a row saved nothing (last exit code {status}): not again")
                return GIVE_UP
            restarts += 1
            since_save += 1
            say(f"exit code {status}: restart {since_save} of at most {self._settings.max_restarts} "
                f"({newest or 'nothing saved yet'})")
            self._wait_before_restart(since_save - 1)
            if self._stop.asked:
                return STOPPED

    def _examine(self) -> int:
        """Runs doctor if requested; any result but SOUND ends the run."""
        if not self._settings.doctor or not self._settings.trains:
            return SOUND
        return make_fit(self._settings.roster, self._look)

    def _run_job(self) -> int:
        settings = self._settings
        hosts = settings.roster.used if settings.roster else None
        line = self._command.line(settings.arguments, hosts, keeps_signal=settings.saves_when_stopped)
        job = Job(line, self._environment, self._stop, settings.saves_when_stopped, hosts is not None)
        begin = time.monotonic()
        status = self._explain(job.wait(), hosts, time.monotonic() - begin)
        if job.was_ended_at_once and status != 0:  # mpirun itself returns 1 then
            say(f"ended at once by {signal.Signals(self._stop.number).name}, {self._what_is_kept()}")
            return 128 + self._stop.number
        # A request in the moment in which mpirun starts a rank kills it; the rank has done nothing yet.
        return STOPPED if job.was_asked_to_save and status == _KILLED_BY_REQUEST else status

    def _look(self, hosts: list[Host] | None, aloud: bool) -> tuple[int, str]:
        lines: list[str] = []
        settings = self._settings
        limit = ["--limit", str(settings.doctor_limit_s)] if settings.doctor_limit_s else []
        num_ranks = sum(host.num_ranks for host in hosts) if hosts else settings.num_local_ranks
        line = self._command.line(["doctor", *limit, *settings.arguments[1:]], hosts)
        job = Job(line, self._environment, self._stop, saves=False, over_hosts=hosts is not None,
                  listener=lines.append, echo=aloud)
        begin = time.monotonic()
        # mpirun gets the same time again to reach the hosts.
        status = self._explain(job.wait(2 * doctor_limit_s(settings, num_ranks)), hosts, time.monotonic() - begin)
        return (STOPPED if self._stop.asked else status), "".join(lines)

    def _explain(self, status: int, hosts: list[Host] | None, lasted_s: float) -> int:
        if not self._stop.asked and not _is_packtrains(status) and lasted_s < _START_LIMIT_S:
            self._repeat_aloud(status, hosts)
        if hosts is not None and not self._stop.asked and not _is_packtrains(status):
            say(f"mpirun could not reach a host or lost it (its exit code {status}; the line that --dry-run prints, "
                "without --quiet, has it say more)")
            return DEVICE
        if status > 128 and not self._stop.asked and _is_packtrains(status):
            say(f"a rank was ended by {_signal_of(status)} (exit code {status})")
        return status

    def _repeat_aloud(self, status: int, hosts: list[Host] | None) -> None:
        """Repeats a start that failed before a rank could report (MPI_Init, mpirun itself), with ranks
        that only join. The repetition prints the reason, which `--quiet` has suppressed."""
        words: list[str] = []
        for _ in range(_TRIES):  # Open MPI 4.1 sometimes loses messages of ranks that end quickly
            line = self._command.line(["train", "--help"], hosts, quiet=False)
            job = Job(line, self._environment, self._stop, saves=False, over_hosts=hosts is not None,
                      listener=words.append, echo=False)
            again = job.wait(_START_LIMIT_S)
            if again == 0:
                break
        if again == 0 or not any(word.strip() for word in words):
            say(f"mpirun ended with exit code {status} and no rank said why; its ranks can be started: look at the log "
                "of the rank that ended first (run.output/log)")
            return
        say(f"mpirun started no rank (exit code {status}), nothing was trained. In MPI's own words "
            "(docs/troubleshooting.md, mpirun, says more):")
        different: dict[str, str] = {}
        for word in words:
            different.setdefault(_NUMBER.sub("", word), word)
        sys.stderr.write("".join(f"  {word}" for word in list(different.values())[:_MOST_WORDS]))
        sys.stderr.flush()

    def _is_worth_a_restart(self, status: int) -> bool:
        """True when a rank or host died without a request to stop."""
        return (self._settings.trains and not self._stop.asked and
                (status in (DEVICE, HANG, REPLICAS_DIFFER) or status > 128))

    def _newest_save(self) -> str:
        """The newest checkpoint, which rank 0 writes to $PACKTRAIN_STATUS_FILE. A new one counts as
        progress."""
        with open(self._status_file, encoding="utf-8") as file:
            lines = file.read().splitlines()
        return lines[-1] if lines else ""

    def _what_is_kept(self) -> str:
        if not self._settings.saves_when_stopped:
            return "nothing was saved"
        newest = self._newest_save().removeprefix("saved ")
        return f"the steps after {newest} are lost" if newest else "this start had saved no checkpoint"

    def _wait_before_restart(self, fruitless: int) -> None:
        """Waits 1, 2, 4 ... 60 seconds, or until a signal."""
        end = time.monotonic() + min(2 ** min(fruitless, 6), 60)
        while time.monotonic() < end and not self._stop.asked:
            time.sleep(0.1)


def _make_status_file(settings: Settings) -> str:
    # Rank 0 may be on any host. All hosts share the job's working folder.
    folder = os.getcwd() if settings.roster else None
    try:
        handle, path = tempfile.mkstemp(prefix=".packtrain-run-", dir=folder)
    except OSError as error:
        raise ToolError(f"{error.filename}: {error.strerror}",
                        "Start it in a folder that can be written, and that all hosts share.", CONFIG) from None
    os.close(handle)
    return path


def run_with_restarts(settings: Settings, command: Command, stop: StopRequests) -> int:
    path = _make_status_file(settings)
    try:
        return Runner(settings, command, stop, path).run()
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
