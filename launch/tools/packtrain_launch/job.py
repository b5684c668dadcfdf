"""One mpirun and its ranks: started, asked to stop, waited for, cleared away."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO

from packtrain_launch.stop import StopRequests

HANG = 72
_POLL_S = 0.1
_STUCK_S = 30.0  # longer than mpirun takes to end a job whose ranks are gone
_LOOK_S = 5.0
_END_S = 20.0  # mpirun takes two to end its ranks


def say(text: str) -> None:
    print(f"packtrain-run: {text}", file=sys.stderr, flush=True)


def _processes_of(session: int) -> dict[int, bool]:
    """{process: is it a rank?}, without what has ended."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, _, _, of_session = file.read().rsplit(b")", 1)[1].split()[:4]
            if int(of_session) == session and state not in (b"Z", b"X"):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    found[int(entry)] = b"\0OMPI_COMM_WORLD_RANK=" in file.read()
        except OSError:  # it ended meanwhile
            continue
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class _StuckWatch:
    """mpirun waits for ever for its helper on a host that is gone, once it has sent that something. Where it has
    ranks beside it on this machine and all of these have ended, the job has."""

    def __init__(self, session: int):
        self._session = session
        self._ranks: list[int] = []
        self._look_at = time.monotonic() + _LOOK_S
        self._gone_since: float | None = None

    def is_stuck(self) -> bool:
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        if not self._ranks:
            self._ranks = [pid for pid, is_rank in _processes_of(self._session).items() if is_rank]
            return False
        if any(_is_alive(rank) for rank in self._ranks):
            return False
        self._gone_since = self._gone_since or now
        return now - self._gone_since > _STUCK_S


class Job:
    """mpirun in a session of its own, so that the terminal's Ctrl-C reaches packtrain-run alone."""

    def __init__(self, line: list[str], environment: dict[str, str], stop: StopRequests, saves: bool,
                 over_hosts: bool, listener=None, echo: bool = True):
        """`saves`: asked to stop, the ranks save first. `listener` gets every line that the job prints, which `echo`
        repeats on standard error; without a listener they go where packtrain-run's own go."""
        self._stop, self._saves = stop, saves
        self._asked_at: float | None = None
        self._ended_at: float | None = None
        output = subprocess.PIPE if listener else None
        self._process = subprocess.Popen(
            line, env=environment, start_new_session=True, stdout=output,
            stderr=subprocess.STDOUT if listener else None, text=True, errors="replace",
            # mpirun ignores it until it can pass it on.
            preexec_fn=lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN))
        self._watch = _StuckWatch(self._process.pid) if over_hosts else None
        self._reader = None
        if listener:
            self._reader = threading.Thread(target=self._read, args=(self._process.stdout, listener, echo), daemon=True)
            self._reader.start()

    @staticmethod
    def _read(stream: IO[str], listener, echo: bool) -> None:
        for line in stream:
            listener(line)
            if echo:
                sys.stderr.write(line)
                sys.stderr.flush()

    @property
    def was_asked_to_save(self) -> bool:
        return self._asked_at is not None

    @property
    def was_ended_at_once(self) -> bool:
        return self._ended_at is not None

    def wait(self, limit_s: float | None = None) -> int:
        """The exit code, 128 + n where signal n ended mpirun. Ended with HANG after `limit_s` seconds, and where
        mpirun waits for a host that is gone."""
        begin = time.monotonic()
        hangs = False
        while True:
            try:
                status = self._process.wait(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                pass
            self._pass_requests_on()
            too_long = limit_s is not None and time.monotonic() - begin > limit_s
            if not hangs and (too_long or (self._watch and self._watch.is_stuck())):
                hangs = True
                say("mpirun does not come to an end: a host is gone")
                self._process.kill()
        self._clear_away()
        if hangs:
            return HANG
        return status if status >= 0 else 128 - status

    def _pass_requests_on(self) -> None:
        """A request to save is repeated every second: a rank that has not yet set up its handler ignores it, and so
        does an mpirun that has not yet started its ranks."""
        if not self._stop.asked:
            return
        now = time.monotonic()
        if self._stop.at_once or not self._saves:
            if self._ended_at is None:
                self._ended_at = now
                self._process.terminate()
            elif now - self._ended_at > _END_S:
                self._process.kill()
        elif self._asked_at is None or now - self._asked_at >= 1.0:
            if self._asked_at is None:
                say("stop requested, waiting for the ranks to save (Ctrl-\\ or SIGQUIT ends them at once)")
            self._asked_at = now
            self._process.send_signal(signal.SIGUSR1)

    def _clear_away(self) -> None:
        """An mpirun that was killed leaves its ranks some seconds of life: two jobs must not write one run."""
        begin = time.monotonic()
        while (left := _processes_of(self._process.pid)) and time.monotonic() - begin < 30:
            if time.monotonic() - begin > 4:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        if self._reader:
            self._reader.join(timeout=5)
