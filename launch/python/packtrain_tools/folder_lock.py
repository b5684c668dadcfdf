"""One process at a time works in a folder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from packtrain_tools.errors import CONFIG, ToolError

LOOK_EVERY_S = 0.1
_descriptors: set[int] = set()  # of `alone_in`


def lock(folder: str, what: str, advice: str, waits: bool = False):
    """Makes the folder. The lock lasts as long as the returned file is open. `what`: a name of the work, such as
    sweep. `waits`: until another process has ended its work; without it that is a ToolError."""
    os.makedirs(folder, exist_ok=True)
    stream = open(os.path.join(folder, ".lock"), "w", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        stream.close()
        raise _at_work(folder, what, advice) from None
    return stream


@contextmanager
def alone_in(folder: str, what: str, advice: str, wait_s: float = 0.0) -> Iterator[None]:
    """A lock like `lock` on the folder itself, which gets no file. File systems that cannot lock folders (NFS)
    go without a lock. `wait_s`: how long another process may still be at work."""
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    _descriptors.add(descriptor)
    deadline = time.monotonic() + wait_s
    try:
        while not _lock_now(descriptor):
            if time.monotonic() >= deadline:
                raise _at_work(folder, what, advice)
            time.sleep(LOOK_EVERY_S)
        yield
    finally:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _lock_now(descriptor: int) -> bool:
    """False where another process has the lock."""
    with suppress(OSError):  # the file system has no such locks
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _at_work(folder: str, what: str, advice: str) -> ToolError:
    return ToolError(f"{folder}: another {what} is at work in this folder", advice, CONFIG)


def _close_in_child():
    """A forked worker that dies later than its parent must not keep the lock."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_in_child)
