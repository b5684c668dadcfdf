"""Starts the measured programs with time limits, and reads their output."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))  # of a checkout or of a bundle
PEERS = os.path.join(ROOT, "benchmarks", "peers")
WHEELS = os.path.join(PEERS, "wheels")  # written by benchmarks/peers/fetch_wheels
IN_BUNDLE = os.path.exists(os.path.join(ROOT, "packtrain-run"))
LAUNCHER = os.path.join(ROOT, "packtrain-run" if IN_BUNDLE else "launch/packtrain-run")
PACKTRAIN = os.path.join(ROOT, "packtrain" if IN_BUNDLE else "build/bin/packtrain")
NUM_WARM_UPS = 3
PREPARE_SECONDS = 120
STOP_SECONDS = 40  # torchrun gives its processes 30
ERROR_NAME = r"[A-Z]\w*(Error|Exit)\b: "  # of Python, and what it says


class Failure(Exception):
    """A program failed or ran out of time; `rows` that it had printed before."""

    rows = ()


def end_of(path, num_lines=4):
    """The reason of a failure from a log. It is the last line that begins with the name of a Python error. Without
    one it is the first that names one, or the last lines that are no figures."""
    with open(path, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip() and not line.startswith("{")]
    raised = [line for line in lines if re.match(rf"(\[rank\d+\]:\s*)?([\w.]+\.)?{ERROR_NAME}", line)]
    named = [line for line in lines if re.search(rf"\b{ERROR_NAME}", line)]  # warnings quote errors, too
    return " | ".join(raised[-1:] or named[:1] or lines[-num_lines:])


def stop(job, first_signal):
    """Asks a job to end, and kills it if it does not."""
    job.send_signal(first_signal)
    try:
        job.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def call(command, log, timeout, environment=None, first_signal=signal.SIGTERM):
    """Runs `command` for at most `timeout` seconds, with its output in the file `log`."""
    with open(log, "w", encoding="utf-8") as output:
        job = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        code = job.wait(timeout)
    except subprocess.TimeoutExpired:
        stop(job, first_signal)
        raise Failure(f"took longer than {timeout:.0f} s: {end_of(log)}") from None
    except BaseException:  # interrupted: no process may stay on the GPUs
        stop(job, first_signal)
        raise
    if code != 0:
        raise Failure(f"exit code {code}: {end_of(log)}")


def prepare_store(folder, lengths, num_examples, vocab_size, supervised=1):
    """A token store of random documents, made once."""
    if not os.path.exists(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        call([PACKTRAIN, "prepare", "--synthetic", lengths, "--examples", str(num_examples),
              "--seed", "1", "--vocab-size", str(vocab_size), "--supervised-fraction",
              str(supervised), "--out", folder], folder + ".log", PREPARE_SECONDS)
    return folder


def plan(config, settings, num_gpus, log, num_steps=0):
    """The output of `packtrain plan --json`, with its first `num_steps` steps."""
    command = [PACKTRAIN, "plan", config, *settings, "--ranks", str(num_gpus), "--json"]
    call(command + (["--steps", str(num_steps)] if num_steps else []), log, PREPARE_SECONDS)
    with open(log, encoding="utf-8", errors="replace") as file:
        return json.loads(next(line for line in file if line.startswith("{")))


def read_steps(path):
    """The steps of a run so far; empty before the first."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file if line.endswith("\n")]
    return [record for record in records if "step_time_s" in record]


def train_steps(config, run_folder, num_steps, timeout, settings, num_gpus=1):
    """Records of the steps, as in metrics.jsonl. Runs one more step, because the last one's time is too
    short."""
    os.makedirs(run_folder)
    command = [LAUNCHER, "-n", str(num_gpus), "train", config, "run.num_epochs=1000",
               f"run.max_steps={num_steps + 1}", f"run.output={run_folder}",
               "checkpoint.resume=never", "checkpoint.save_final=false", "metrics.serve=false",
               *settings]
    call(command, run_folder + ".log", timeout, first_signal=signal.SIGQUIT)
    return read_steps(os.path.join(run_folder, "metrics.jsonl"))[:num_steps]


def logged_paths(log):
    """The paths of collectives in a run's log; empty on one GPU."""
    with open(log, encoding="utf-8", errors="replace") as file:
        found = re.search(r"gathers by (.+), reductions by (.+)", file.read())
    return ", ".join(found.groups()) if found else ""


def summarize_steps(steps, num_gpus=1):
    """Figures of a GPU. tok_s is the median step's, tok_s_mean that of all steps."""
    seconds = sum(step["step_time_s"] for step in steps)
    figures = {
        "tok_s": statistics.median(step["tokens_per_second"] for step in steps) / num_gpus,
        "tok_s_mean": sum(step["num_tokens"] for step in steps) / seconds / num_gpus,
        "tokens": statistics.mean(step["num_tokens"] for step in steps) / num_gpus,
        "step_s": statistics.median(step["step_time_s"] for step in steps),
        "tflops": statistics.median(step["model_tflops_per_device"] for step in steps),
        "peak_gib": steps[-1]["peak_memory_bytes"] / 2**30,
        "loss": steps[-1]["loss"],
    }
    for name in ("gather_wait", "reduce_wait"):
        figures[name + "_ms"] = statistics.mean(step[name + "_s"] for step in steps) * 1e3
    return figures


def unpack_wheels(site):
    """Unpacks the wheels; pure Python needs no installation."""
    for name in sorted(os.listdir(WHEELS)):
        with zipfile.ZipFile(os.path.join(WHEELS, name)) as wheel:
            wheel.extractall(site)


def peer_environment(out):
    """The environment of the peers' processes, with the packages of the bundle."""
    environment = os.environ | {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "8"), "HF_HUB_OFFLINE": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTHONUNBUFFERED": "1",
        "TITAN_FOLDER": os.path.join(out, "titan")}
    if not os.path.isdir(WHEELS):
        return environment
    site = os.path.join(out, "site")
    if not os.path.isdir(site):
        unpack_wheels(site)
    folders = [site, *filter(None, [os.environ.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(folders)}


def read_rows(log):
    """The JSON lines that a peer printed."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def start_peer(program, arguments, num_gpus, log, timeout, out):
    """Rows printed by a peer's program, which runs under torchrun on several GPUs."""
    launcher = [sys.executable]
    if num_gpus > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                     str(num_gpus)]
    environment = peer_environment(out)
    try:
        call([*launcher, os.path.join(PEERS, program), *arguments], log, timeout, environment)
    except Failure as failure:
        failure.rows = read_rows(log)
        raise
    rows = read_rows(log)
    if not rows:
        raise Failure(f"printed no figures: {end_of(log)}")
    return rows


def start_chain(arguments, gpu, log, timeout):
    """Rows of the GEMM chain on one GPU."""
    call([sys.executable, os.path.join(PEERS, "gemm_chain.py"), *arguments], log, timeout,
         os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)})
    return read_rows(log)
