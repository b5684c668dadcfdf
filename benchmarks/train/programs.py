"""Runs one side of a case: ours, the peer or the GEMM chain. Each returns its figures."""

import json
import os
import signal
import statistics
import subprocess
import sys

from cases import LONGEST_DOCUMENT

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))  # of a checkout or of a bundle
PEERS = os.path.join(ROOT, "benchmarks", "peers")
IN_BUNDLE = os.path.exists(os.path.join(ROOT, "packtrain-run"))
LAUNCHER = os.path.join(ROOT, "packtrain-run" if IN_BUNDLE else "launch/packtrain-run")
PACKTRAIN = os.path.join(ROOT, "packtrain" if IN_BUNDLE else "build/bin/packtrain")
NUM_WARM_UPS = 3


class Failure(Exception):
    """A program that failed or ran out of time."""


def end_of(path, num_lines=4):
    with open(path, encoding="utf-8", errors="replace") as log:
        return " | ".join(line.strip() for line in log.readlines()[-num_lines:])


def call(command, log, timeout):
    with open(log, "w", encoding="utf-8") as output:
        try:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=timeout,
                           check=True)
        except subprocess.TimeoutExpired:
            raise Failure(f"took longer than {timeout} s: {end_of(log)}") from None
        except subprocess.CalledProcessError as error:
            raise Failure(f"exit code {error.returncode}: {end_of(log)}") from None


def prepare_store(case, folder, log):
    """The case's token store, made once."""
    name = f"short-{case.vocab_size}" + ("-completions" if case.completions else "")
    store = os.path.join(folder, name)
    if not os.path.exists(store):
        fraction = "0.5" if case.completions else "1"
        call([PACKTRAIN, "prepare", "--synthetic", f"lognormal:5.3,0.9,8,{LONGEST_DOCUMENT}",
              "--examples", "12000", "--seed", "1", "--vocab-size", str(case.vocab_size),
              "--supervised-fraction", fraction, "--out", store], log, 60)
    return store


def read_steps(path):
    with open(path, encoding="utf-8") as file:
        return [record for line in file if "step_time_s" in (record := json.loads(line))]


def stop(job):
    """SIGQUIT ends the job within a second, and saves nothing."""
    job.send_signal(signal.SIGQUIT)
    try:
        job.wait(20)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def train_steps(case, run_folder, store, num_steps, timeout, settings):
    """Records of the steps, as in metrics.jsonl. One more is run: the last one's time is too short."""
    os.makedirs(run_folder)
    command = [LAUNCHER, "-n", "1", "train", os.path.join(ROOT, "configs", case.config),
               f"data.train={store}", "run.num_epochs=1000", f"run.max_steps={num_steps + 1}",
               f"run.output={run_folder}", "checkpoint.resume=never", "checkpoint.save_final=false",
               "metrics.serve=false", *settings]
    log = run_folder + ".log"
    with open(log, "w", encoding="utf-8") as output:
        job = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        code = job.wait(timeout)
    except subprocess.TimeoutExpired:
        stop(job)
        raise Failure(f"took longer than {timeout} s: {end_of(log)}") from None
    if code != 0:
        raise Failure(f"exit code {code}: {end_of(log)}")
    return read_steps(os.path.join(run_folder, "metrics.jsonl"))[:num_steps]


def run_ours(case, run_folder, store, num_steps, timeout, settings):
    settings = [*case.overrides(), *settings]
    steps = train_steps(case, run_folder, store, num_steps, timeout, settings)
    return summarize_steps(steps[NUM_WARM_UPS:])


def summarize_steps(steps):
    seconds = sum(step["step_time_s"] for step in steps)
    return {
        "tok_s": statistics.median(step["tokens_per_second"] for step in steps),
        "tok_s_mean": sum(step["num_tokens"] for step in steps) / seconds,
        "tokens": statistics.mean(step["num_tokens"] for step in steps),
        "step_s": statistics.median(step["step_time_s"] for step in steps),
        "tflops": statistics.median(step["model_tflops_per_device"] for step in steps),
        "peak_gib": steps[-1]["peak_memory_bytes"] / 2**30,
        "loss": steps[-1]["loss"],
    }


def run_python(program, arguments, log, timeout):
    """The last JSON line that a peer prints."""
    call([sys.executable, os.path.join(PEERS, program), *arguments], log, timeout)
    with open(log, encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("{")]
    if not rows:
        raise Failure(f"printed no figures: {end_of(log)}")
    return json.loads(rows[-1])


def run_peer(case, log, num_steps, timeout):
    counts = ["--warm-up", str(NUM_WARM_UPS + 1), "--steps", str(num_steps - NUM_WARM_UPS)]
    return run_python("hf.py", case.shape_arguments() + case.peer_arguments() + counts, log,
                      timeout)


def run_chain(case, log, timeout):
    return run_python("gemm_chain.py", case.shape_arguments(), log, timeout)
