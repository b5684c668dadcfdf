"""One process at a time works in a folder."""

import fcntl
import os

from packtrain_tools.errors import CONFIG, ToolError


def lock(folder: str, what: str, advice: str, waits: bool = False):
    """Makes the folder. The lock lasts as long as the returned file is open. `what`: a name of the work, such as
    sweep. `waits`: until another process has ended its work; without it that is a ToolError."""
    os.makedirs(folder, exist_ok=True)
    stream = open(os.path.join(folder, ".lock"), "w", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        stream.close()
        raise ToolError(f"{folder}: another {what} is at work in this folder", advice, CONFIG) from None
    return stream
