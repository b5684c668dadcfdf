"""A long run of the tiny model under random faults, restarted by the launcher, against one that nothing disturbs.

    soak.py [--steps 5000] [--ranks 2] [--seed 1] [--folder FOLDER]

Prints for each kind of fault how often it was injected and how often the run resumed from the right step. It also
prints the time from the fault to the first step after the restart. Ends with 0 only when every step's loss
and gradient norm and the final weights equal those of the undisturbed run to the last bit.
FOLDER must not hold an earlier soak.
"""

import argparse
import collections
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "distributed"))

from runs import PROGRAM, REPO, Lab, assert_bit_equal, steps  # the path is set above
from strikes import KINDS, Strikes
from watch import checkpoint_folders, last_step, ranks_of, wait_until

SAVE_STEPS = 20
QUIET_STEPS = 160  # at the end: a run that is through can no longer be struck
SETTINGS = [f"checkpoint.save_steps={SAVE_STEPS}", "checkpoint.keep=3", "checkpoint.max_failed_saves=1000000",
            "guard.step_timeout_s=6", "guard.start_timeout_s=60", "guard.checkpoint_timeout_s=30", "data.validation=",
            "model.config={model_type: llama, hidden_size: 64, intermediate_size: 160, num_hidden_layers: 2, "
            "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, hidden_act: silu, "
            "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}",
            "batch.global_batch_size=4", "data.max_length=512", "batch.max_tokens_per_micro_batch=512"]
DISK_BYTES = 12 << 20  # of the file system that holds the checkpoints: some eight of them


def settings_of(num_steps):
    return [*SETTINGS, f"run.max_steps={num_steps}", f"run.num_epochs={num_steps}"]


def hear_signals():
    """Restores signals: a shell script cannot trap a signal that a background job or nohup ignores."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class DisturbedRun:
    """The run under packtrain-run. When it ends on request, the same command is given again, as a user would."""

    def __init__(self, lab, num_ranks, num_steps, more):
        self.folder = lab.folder / "runs" / "disturbed"
        self.config_file = lab.config("disturbed")
        self.num_ranks = num_ranks
        self.num_steps = num_steps
        self.log = lab.folder / "disturbed.log"
        self.command = [str(REPO / "launch" / "packtrain-run"), "-n", str(num_ranks), "--restarts", "9999", "--program",
                        PROGRAM, "train", str(self.config_file), *settings_of(num_steps), *more]
        self.job = None

    def start(self):
        with open(self.log, "ab") as log:
            self.job = subprocess.Popen(self.command, stderr=log, stdout=log, preexec_fn=hear_signals)

    def ranks(self):
        return ranks_of(self.config_file)

    def log_since(self, offset):
        with open(self.log, "rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def log_size(self):
        return self.log.stat().st_size

    def step(self):
        return last_step(self.folder)

    def has_saved_since_restart(self):
        """packtrain-run gives up a run of which three jobs in a row saved nothing."""
        log = self.log_since(0)
        return log.rfind(": saved ") > log.rfind(": restart ")

    def is_done(self):
        return self.job.poll() == 0

    def wait_for_step(self, step):
        """False when the run ended before."""
        def reached():
            if self.job.poll() not in (None, 0):
                raise AssertionError(f"the launcher ended with {self.job.returncode}:\n{self.log_since(0)[-4000:]}")
            return self.is_done() or (self.step() >= step and len(self.ranks()) == self.num_ranks)
        wait_until(reached, f"step {step}", timeout=600)
        return not self.is_done()

    def wait_for_restart(self, since):
        """Returns the step that the run resumed from, after one more step. `since` is an offset in the log."""
        def end_of_job():
            if self.job.poll() is not None:
                assert self.job.returncode == 75, self.log_since(since)[-4000:]
                self.start()
                return "asked to stop"
            return "packtrain-run: exit code" in self.log_since(since) and "restart"
        wait_until(end_of_job, "the end of the job")
        begin_s = time.time()

        def new_step():
            resumed = resumed_step(self.log_since(since))
            path = self.folder / "metrics.jsonl"
            return path.stat().st_mtime > begin_s and self.step() > resumed and (resumed + 1)
        return wait_until(new_step, "the first step after the restart") - 1


def resumed_step(log):
    """Returns the step of the latest "resumed from .../step-N: ..." in a log, or 0 without one."""
    lines = [line for line in log.splitlines() if "resumed from " in line]
    return int(lines[-1].split("step-")[1].split(":")[0]) if lines else 0


class Soak:
    def __init__(self, run, strikes, chance):
        self.run = run
        self.strikes = strikes
        self.chance = chance
        self.damaged = set()
        self.outcomes = collections.defaultdict(list)  # kind -> [(survived, seconds or None)]

    def go(self):
        self.run.start()
        next_step = 5
        while self.run.wait_for_step(min(next_step, self.run.num_steps)):
            wait_until(lambda: self.run.has_saved_since_restart() or self.run.is_done(), "a save")
            if self.run.step() > self.run.num_steps - QUIET_STEPS:
                self.run.wait_for_step(self.run.num_steps + 1)
                return
            next_step = self.strike_once() + self.chance.randrange(3, 3 * SAVE_STEPS)

    def strike_once(self):
        """Returns the step at which the run is again."""
        strike = self.strikes.choose(self.chance)
        since, saved = self.run.log_size(), checkpoint_folders(self.run.folder)
        print(f"step {self.run.step()}: {strike.name}", file=sys.stderr, flush=True)
        outcome = strike.inject(self.run, self.chance)
        if not outcome.ends_job:
            self.outcomes[strike.name].append((True, None))
            return self.run.step()
        resumed = self.run.wait_for_restart(since)
        seconds = time.monotonic() - outcome.struck_s
        self.damaged |= outcome.damaged
        survived = resumed >= max((step for step, _ in saved - self.damaged), default=0)
        self.outcomes[strike.name].append((survived, seconds))
        print(f"  step {resumed + 1} after {seconds:.1f} s", file=sys.stderr, flush=True)
        return self.run.step()

    def table(self):
        lines = ["| fault | tried | survived | lost | seconds to the next step: median, longest |", "|---|---|---|---|---|"]
        for name, outcomes in sorted(self.outcomes.items()):
            survived = sum(ok for ok, _ in outcomes)
            times = [seconds for _, seconds in outcomes if seconds is not None]
            shown = f"{statistics.median(times):.1f}, {max(times):.1f}" if times else "no restart"
            lines.append(f"| {name} | {len(outcomes)} | {survived} | {len(outcomes) - survived} | {shown} |")
        return "\n".join(lines)

    def num_lost(self):
        return sum(not ok for outcomes in self.outcomes.values() for ok, _ in outcomes)


def mounted(folder):
    """True where a small file system could be mounted there."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "soak", str(folder)]
    return subprocess.run(words, capture_output=True).returncode == 0


def soak(folder, num_steps, num_ranks, seed, more=(), kinds=KINDS):
    """Injects faults until the run has ended and asserts that nothing was lost. Returns the Soak, for its figures.
    `more` holds settings of the faulty run that change no bit, `kinds` the faults to choose from."""
    lab = Lab(folder)
    run = DisturbedRun(lab, num_ranks, num_steps, more)
    checkpoints = run.folder / "checkpoints"
    small_disk = mounted(checkpoints)
    try:
        result = Soak(run, Strikes(kinds, small_disk), random.Random(seed))
        result.go()
        undisturbed = lab.run("undisturbed", *settings_of(num_steps), ranks=num_ranks, timeout=3600)
        assert sorted(steps(run.folder)) == list(range(1, num_steps + 1))
        assert_bit_equal(run.folder, undisturbed)
    finally:
        if run.job is not None and run.job.poll() is None:
            run.job.terminate()
            run.job.wait(timeout=60)
        if small_disk:
            subprocess.run(["umount", "-l", str(checkpoints)], check=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, help="kept; a temporary one otherwise")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    result = soak(folder, arguments.steps, arguments.ranks, arguments.seed)
    print(result.table())
    print(f"{arguments.steps} steps on {arguments.ranks} ranks, seed {arguments.seed}, "
          f"{time.monotonic() - begin:.0f} s: every step and the final weights are the undisturbed run's")
    if arguments.folder is None:
        shutil.rmtree(folder)
    return 1 if result.num_lost() else 0


if __name__ == "__main__":
    sys.exit(main())
