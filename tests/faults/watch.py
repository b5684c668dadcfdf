"""Looking at a run from outside: its processes, its steps, its checkpoints."""

import ctypes
import json
import os
import re
import select
import struct
import time

from runs import PATIENCE_S, steps


def ranks_of(config_file):
    """Process ids of the run's ranks, by rank. `config_file`: the whole path that it was started with."""
    wanted = str(config_file).encode()
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
        except OSError:
            continue
        if not environment:  # it ended between the two
            continue
        if words[0].endswith(b"packtrain") and wanted in words:
            found[int(environment.get(b"OMPI_COMM_WORLD_RANK", b"0"))] = int(entry)
    return found


def parent_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rsplit(b")", 1)[1].split()[1])


def wait_until(condition, what, timeout=PATIENCE_S):
    """Returns the first true value of `condition`."""
    deadline = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s in vain for {what}"
        time.sleep(0.01)


IN_CREATE = 0x100  # of <sys/inotify.h>


class NewEntries:
    """Records new files in a folder by inotify(7). Polling would miss files that exist for milliseconds only."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.events = libc.inotify_init1(os.O_CLOEXEC)
        if self.events < 0 or libc.inotify_add_watch(self.events, os.fsencode(folder), IN_CREATE) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.events)

    def wait_for(self, suffix, timeout=PATIENCE_S):
        """The name of the first one that ends with `suffix`."""
        deadline = time.monotonic() + timeout
        while True:
            readable = select.select([self.events], [], [], max(deadline - time.monotonic(), 0))[0]
            assert readable, f"waited {timeout:.0f} s in vain for a new *{suffix}"
            for name in names_of_events(os.read(self.events, 1 << 16)):
                if name.endswith(suffix):
                    return name


def names_of_events(events):
    """Fields of struct inotify_event: watch, mask, cookie, the name's length with its padding, the name."""
    while events:
        length = struct.unpack_from("iIII", events)[3]
        yield os.fsdecode(events[16:16 + length].rstrip(b"\0"))
        events = events[16 + length:]


def wait_for_step(run, step):
    wait_until(lambda: (run / "metrics.jsonl").exists() and len(steps(run)) >= step, f"step {step} of {run}")


def silences_s(errors):
    """Returns how long each rank had waited when it gave up, from its message. The end of mpirun does not count."""
    return [float(seconds) for seconds in re.findall(r"no progress for ([0-9.]+) s at step", errors)]


def assert_missed_in_time(errors, limit_s):
    """The watchdog looks every second, and a busy machine lets it wait for some more."""
    assert silences_s(errors) and all(limit_s <= seconds < limit_s + 10 for seconds in silences_s(errors)), errors


def saved_steps(run):
    """Returns the steps of the run's checkpoints, ascending."""
    folders = (run / "checkpoints").glob("step-*")
    return sorted(int(path.name[5:]) for path in folders if path.name[5:].isdigit())


def checkpoint_folders(run):
    """{(step, inode)}: a step that is saved again is another folder."""
    found = set()
    for step in saved_steps(run):
        try:
            found.add((step, (run / "checkpoints" / f"step-{step}").stat().st_ino))
        except FileNotFoundError:  # removed for newer ones
            pass
    return found


def last_step(run):
    """Returns the last step in metrics.jsonl, or 0 without one."""
    try:
        with open(run / "metrics.jsonl", "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return json.loads(lines[-1])["step"] if lines else 0
