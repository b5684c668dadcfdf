"""The faults that a soak chooses from: each one is what happens to real runs, done from outside."""

import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import signal
import time

from watch import NewEntries, checkpoint_folders, parent_of, saved_steps, wait_until


@dataclasses.dataclass
class Outcome:
    ends_job: bool = True
    damaged: set = dataclasses.field(default_factory=set)  # of checkpoint_folders()
    struck_s: float = dataclasses.field(default_factory=time.monotonic)


@dataclasses.dataclass
class Strike:
    name: str
    inject: object  # (run, chance) -> Outcome
    needs_small_disk: bool = False


def signal_one(run, chance, number):
    ranks = run.ranks()
    os.kill(ranks[chance.choice(sorted(ranks))], number)
    return Outcome()


def signal_all(run, number):
    for pid in run.ranks().values():
        with contextlib.suppress(ProcessLookupError):  # the signal before was enough
            os.kill(pid, number)
    return Outcome()


def kill(run, chance):
    return signal_one(run, chance, signal.SIGKILL)


def crash(run, chance):
    return signal_one(run, chance, signal.SIGSEGV)


def stop_for_ever(run, chance):
    return signal_one(run, chance, signal.SIGSTOP)


def stop_for_a_second(run, chance):
    ranks = run.ranks()
    pid = ranks[chance.choice(sorted(ranks))]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(pid, signal.SIGCONT)
    step = run.step()
    wait_until(lambda: run.step() > step, "a step after the pause")
    return Outcome(ends_job=False)


def kill_in_save(run, chance):
    """Finds the rank before the save begins: a save of this model takes two milliseconds."""
    ranks = run.ranks()
    pid = ranks[chance.choice(sorted(ranks))]
    with NewEntries(run.folder / "checkpoints") as entries:
        entries.wait_for(".tmp")
    time.sleep(chance.random() * 0.001)
    os.kill(pid, signal.SIGKILL)
    return Outcome()


def kill_mpirun(run, chance):
    """The process that started the ranks, which live on for some seconds."""
    os.kill(parent_of(run.ranks()[0]), signal.SIGKILL)
    return Outcome()


def kill_in_start(run, chance):
    """Kills once, and the restarted run again before it has made a step."""
    before = set(run.ranks().values())
    kill(run, chance)
    wait_until(lambda: len(run.ranks()) == run.num_ranks and not before & set(run.ranks().values()), "new ranks")
    time.sleep(chance.random())
    return kill(run, chance)


def ask_launcher_to_stop(run, chance):
    run.job.send_signal(chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
    return Outcome()


def ask_one_rank_to_stop(run, chance):
    return signal_one(run, chance, chance.choice([signal.SIGTERM, signal.SIGUSR1]))


def end_all_by_asking_twice(run, chance):
    signal_all(run, signal.SIGTERM)
    return signal_all(run, signal.SIGTERM)


def damage(path, chance):
    """A file as disks leave them: shorter, gone, or with one bit turned."""
    how = chance.choice(["shorter", "gone", "bit"])
    if how == "gone":
        path.unlink()
    elif how == "shorter":
        os.truncate(path, chance.randrange(path.stat().st_size))
    else:
        text = bytearray(path.read_bytes())
        text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
        path.write_bytes(text)


def kill_and_damage_newest(run, chance):
    """Where there are two checkpoints at least: one is to be left. The launcher waits until the damage is done."""
    wait_until(lambda: len(saved_steps(run.folder)) >= 2, "two checkpoints")
    run.job.send_signal(signal.SIGSTOP)
    outcome = signal_all(run, signal.SIGKILL)
    wait_until(lambda: not run.ranks(), "the end of all ranks")
    newest = max(checkpoint_folders(run.folder))
    folder = run.folder / "checkpoints" / f"step-{newest[0]}"
    damage(chance.choice(sorted(path for path in folder.iterdir() if path.suffix == ".safetensors")), chance)
    run.job.send_signal(signal.SIGCONT)
    outcome.damaged = {newest}
    return outcome


def fill(run, chance):
    """The ballast that leaves the disk as much as nothing, or about a checkpoint."""
    checkpoints = run.folder / "checkpoints"
    newest = checkpoints / f"step-{saved_steps(run.folder)[-1]}"
    needed = sum(path.stat().st_size for path in newest.iterdir())
    left = chance.choice([0, needed // 2, needed + 4096])
    ballast = pathlib.Path(checkpoints) / "ballast"
    with open(ballast, "wb") as file:
        while not takes_all_but(left, file, checkpoints):
            pass
    return ballast


def takes_all_but(left, file, folder):
    """Returns False when a save was quicker and took some of the free space that was seen."""
    try:
        os.posix_fallocate(file.fileno(), 0, max(shutil.disk_usage(folder).free - left, 1))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


def fill_disk(run, chance):
    """Fills the disk. Training continues, and saves fail until there is free space again."""
    wait_until(lambda: saved_steps(run.folder), "a checkpoint")
    since = run.log_size()
    ballast = fill(run, chance)
    wait_until(lambda: "training continues" in run.log_since(since) or run.step() >= run.num_steps or
               ballast_is_outgrown(run, since), "a failed save")
    ballast.unlink()
    return Outcome(ends_job=False)


def ballast_is_outgrown(run, since):
    """True where a save just fitted, because it was followed by the removal of old checkpoints."""
    return run.log_since(since).count("saved ") >= 2


def kill_on_full_disk(run, chance):
    wait_until(lambda: saved_steps(run.folder), "a checkpoint")
    ballast = fill(run, chance)
    time.sleep(chance.random())
    outcome = kill(run, chance)
    ballast.unlink()
    return outcome


KINDS = [
    Strike("a rank killed", kill),
    Strike("a rank crashes (SIGSEGV)", crash),
    Strike("a rank stopped for ever (SIGSTOP)", stop_for_ever),
    Strike("a rank stopped for a second", stop_for_a_second),
    Strike("mpirun killed", kill_mpirun),
    Strike("a rank killed while saving", kill_in_save),
    Strike("a rank killed, and again while starting", kill_in_start),
    Strike("the launcher asked to stop", ask_launcher_to_stop),
    Strike("one rank asked to stop", ask_one_rank_to_stop),
    Strike("all ranks asked to stop twice", end_all_by_asking_twice),
    Strike("all ranks killed, the newest checkpoint damaged", kill_and_damage_newest),
    Strike("a full disk", fill_disk, needs_small_disk=True),
    Strike("a rank killed on a full disk", kill_on_full_disk, needs_small_disk=True),
]


class Strikes:
    def __init__(self, kinds, small_disk):
        self.all = [kind for kind in kinds if small_disk or not kind.needs_small_disk]
        self.left = []

    def choose(self, chance):
        """Each kind comes once before any comes again."""
        if not self.left:
            self.left = list(self.all)
            chance.shuffle(self.left)
        return self.left.pop()
