"""One mpirun with its ranks: start, stop requests, waiting and clean-up."""

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
_STUCK_S = 30.0  # longer than mpirun needs to end a job whose ranks have ended
_LOOK_S = 5.0
_END_S = 20.0  # mpirun needs two seconds to end its ranks
_FORWARD_S = 2.0  # from then on this machine's ranks are asked directly as well


def say(text: str) -> None:
    print(f"packtrain-run: {text}", file=sys.stderr, flush=True)


def _processes_of(session: int) -> dict[int, bool]:
    """The running processes of a session: {process: is it a rank?}."""
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
        except OSError:  # the process has ended
            continue
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class _StuckWatch:
    """mpirun waits without limit for its helper on a lost host after it has sent the helper something.
    When all ranks next to it on this machine have ended, the job has ended, too."""

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
    """Runs mpirun in a session of its own, so that the terminal's Ctrl-C reaches only packtrain-run."""

    def __init__(self, line: list[str], environment: dict[str, str], stop: StopRequests, saves: bool,
                 over_hosts: bool, listener=None, echo: bool = True):
        """`saves`: the ranks save before they stop. `listener` receives every line that the job prints,
        and `echo` repeats it on standard error. Without a listener the job writes to packtrain-run's own
        output."""
        self._stop, self._saves = stop, saves
        self._first_asked_at: float | None = None
        self._asked_at: float | None = None  # the last time
        self._ended_at: float | None = None
        output = subprocess.PIPE if listener else None
        self._process = subprocess.Popen(
            line, env=environment, start_new_session=True, stdout=output,
            stderr=subprocess.STDOUT if listener else None, text=True, errors="replace",
            # mpirun ignores the signal until it can forward it.
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
        """The exit code, or 128 + n where signal n ended mpirun. After `limit_s` seconds, or where mpirun
        waits for a lost host, the job is ended and HANG returned."""
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
        """Repeats a request to save every second. A rank that has no handler yet ignores it, and so does
        an mpirun that has not started its ranks. Under one mpirun a rank trained on as if it got none."""
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
            self._ask_to_save(now)

    def _ask_to_save(self, now: float) -> None:
        if self._first_asked_at is None:
            say("stop requested, waiting for the ranks to save (Ctrl-\\ or SIGQUIT ends them at once)")
            self._first_asked_at = now
        self._asked_at = now
        self._process.send_signal(signal.SIGUSR1)
        if now - self._first_asked_at < _FORWARD_S:
            return
        # One rank is enough: the ranks agree on the step after which they save.
        for pid, is_rank in _processes_of(self._process.pid).items():
            if is_rank:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)

    def _clear_away(self) -> None:
        """Ends remaining ranks. They live some seconds longer than a killed mpirun, and two jobs must not
        write one run."""
        begin = time.monotonic()
        while (left := _processes_of(self._process.pid)) and time.monotonic() - begin < 30:
            if time.monotonic() - begin > 4:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        if self._reader:
            self._reader.join(timeout=5)
