#!/usr/bin/env python3
"""Trains the tasks of benchmarks/results/tasks.py and writes OUT/results.json, from which the tables and
plots of docs/results.md are made. Needs no package. A restart keeps finished runs."""

import argparse
import concurrent.futures
import csv
import json
import os
import shutil
import subprocess
import sys
import time

from tasks import DISTRIBUTIONS, PARTS, Task

HERE = os.path.dirname(os.path.realpath(__file__))
CONFIG = os.path.join(HERE, "model.yaml")
VERIFY_FAILED = 74
# Without a GPU: a smaller model in fp32, one epoch.
ON_CPU = ("model.config={model_type: llama, hidden_size: 128, intermediate_size: 344, "
          "num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 4096, "
          "max_position_embeddings: 4096, rms_norm_eps: 1.0e-5, tie_word_embeddings: true}",
          "precision.compute=fp32", "precision.reduce=fp32")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--launcher", default="launch/packtrain-run",
                        help="packtrain-run, of this checkout or of a bundle")
    parser.add_argument("--stores", default="stores/results")
    parser.add_argument("--out", default="runs/results", help="for results.json")
    parser.add_argument("--runs", default="runs/results/runs",
                        help="for run folders: continued when they are there")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="at once, of those whose speed does not count (default: 6 on a GPU)")
    parser.add_argument("--epochs", type=int, help="default: 2 on a GPU, else 1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="start nothing after this long; what is missing is trained next time")
    parser.add_argument("--only", default="", metavar="TEXT", help="tasks whose name holds TEXT")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part {unknown.pop()}")
    return arguments


def gpu_name() -> str | None:
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                               capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        return None
    return found[0] or None


class Lab:
    """Starts packtrain, with one folder for each task."""

    def __init__(self, arguments, gpu: str | None):
        self.arguments, self.gpu = arguments, gpu
        self.epochs = arguments.epochs or (2 if gpu else 1)
        self.begin = time.monotonic()

    def folder(self, task: Task) -> str:
        return os.path.join(self.arguments.runs, task.name)

    def overrides(self, task: Task) -> list[str]:
        store = os.path.join(self.arguments.stores, task.distribution)
        settings = {"data.train": f"{store}/train", "data.validation": f"{store}/validation",
                    **task.overrides}
        small = ON_CPU if task.on_cpu or not self.gpu else ()
        return [*small, *(f"{key}={value}" for key, value in settings.items())]

    def start(self, task: Task, command: str, *words: str) -> subprocess.CompletedProcess:
        """packtrain-run COMMAND with the task's settings; messages go to its log."""
        os.makedirs(self.folder(task), exist_ok=True)
        line = [self.arguments.launcher, "-n", str(task.num_ranks), command, CONFIG,
                *self.overrides(task), *words]
        cores = len(os.sched_getaffinity(0))
        threads = max(1, cores // task.num_ranks if task.alone else 2)
        environment = {**os.environ, "OMP_NUM_THREADS": str(min(threads, 8))}
        with open(os.path.join(self.folder(task), f"{command}.log"), "a", encoding="utf-8") as log:
            return subprocess.run(line, stdout=subprocess.PIPE, stderr=log, text=True,
                                  env=environment, check=False)

    def compare(self, task: Task) -> dict | None:
        """The results of a task, or None when it failed or when too little time was left to start it."""
        if time.monotonic() - self.begin > self.arguments.seconds:
            print(f"not started: {task.name}", flush=True)
            return None
        begin = time.monotonic()
        words = ["--out", self.folder(task), "--strategies", ",".join(task.strategies),
                 "--seeds", str(self.arguments.seeds)]
        words += ["--equal-tokens"] if task.equal_tokens else []
        done = self.start(task, "compare", *words)
        seconds = time.monotonic() - begin
        print(f"{task.name}: exit code {done.returncode}, {seconds:.1f} s", flush=True)
        if done.returncode != 0:
            print(f"  see {self.folder(task)}/compare.log", flush=True)
            return None
        return summarize(task, self.folder(task))

    def verify(self) -> list[dict]:
        """Runs packtrain verify with separate examples, and with cross_example_attention."""
        results = []
        for distribution in ("fortunes", "wordnet"):
            for crosses in (False, True):
                settings = {"batch.strategy": "fixed_length", "batch.global_batch_size": 4,
                            "batch.cross_example_attention": str(crosses).lower(),
                            "precision.compute": "fp32", "precision.reduce": "fp32",
                            "parallel.backend": "mpi"}
                name = f"verify-{distribution}-{'crossing' if crosses else 'apart'}"
                task = Task("equality", name, distribution, (), settings, on_cpu=True)
                done = self.start(task, "verify", "--json")
                print(f"{name}: exit code {done.returncode}", flush=True)
                checks = json.loads(done.stdout)["checks"] if done.stdout else []
                results.append({"distribution": distribution, "cross_example_attention": crosses,
                                "exit_code": done.returncode,
                                "failed": [c["name"] for c in checks if not c["ok"]],
                                "failures": [f for c in checks for f in c["failures"]][:3]})
        return results


def read_steps(folder: str) -> list[dict]:
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    return [line for line in lines if "grad_norm" in line]


def summarize(task: Task, folder: str) -> dict:
    """The comparison without its large parts, and figures of its runs' steps."""
    with open(os.path.join(folder, "compare.json"), encoding="utf-8") as stream:
        comparison = json.load(stream)
    losses = {}
    for run in comparison["runs"]:
        steps = read_steps(run["folder"])
        for key in ("examples", "tokens"):
            run[f"{key}_per_step"] = sum(step[f"num_{key}"] for step in steps) / len(steps)
        run["fill"] = sum(step["fill"] for step in steps) / len(steps)
        losses[run["strategy"], run["seed"]] = [step["loss"] for step in steps]
    with open(os.path.join(folder, "compare.md"), encoding="utf-8") as stream:
        table = stream.read()
    return {"part": task.part, "name": task.name, "distribution": task.distribution,
            "overrides": task.overrides, "comparison": comparison, "table": table,
            "differences": differences(losses)}


def differences(losses: dict) -> dict:
    """Largest and mean relative difference of training losses from the strategy `balanced` with the same
    seed, at equal steps with the same examples."""
    found = {}
    for (strategy, seed), values in losses.items():
        reference = losses.get(("balanced", seed))
        if strategy not in ("padding", "padding_free") or reference is None:
            continue
        relative = [abs(a - b) / b for a, b in zip(values, reference, strict=True)]
        entry = found.setdefault(strategy, {"max": 0.0, "mean": []})
        entry["max"] = max(entry["max"], *relative)
        entry["mean"].append(sum(relative) / len(relative))
    return {strategy: {"max": entry["max"], "mean": sum(entry["mean"]) / len(entry["mean"])}
            for strategy, entry in found.items()}


def lengths(stores: str, distribution: str) -> dict:
    """The summary of `packtrain prepare` for a training store."""
    with open(os.path.join(stores, f"{distribution}.train.json"), encoding="utf-8") as stream:
        return json.load(stream)["stores"][0]


def write_figures(path: str, tasks: list[dict]):
    """Writes the final figures of every run, one line of CSV each."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "strategy", "seed", "num_steps", "examples_per_step",
                         "tokens_per_step", "device_seconds", "validation_loss"])
        for task in tasks:
            for run in task["comparison"]["runs"]:
                writer.writerow([task["name"], run["strategy"], run["seed"], run["num_steps"],
                                 f"{run['examples_per_step']:.2f}", f"{run['tokens_per_step']:.1f}",
                                 f"{run['device_seconds']:.3f}",
                                 f"{run['evaluations'][-1]['validation_loss']:.5f}"])


def earlier_results(out: str) -> dict:
    """Earlier results of parts that are not trained now."""
    path = os.path.join(out, "results.json")
    if not os.path.exists(path):
        return {"tasks": [], "verify": []}
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def save(lab: Lab, results: dict):
    out = lab.arguments.out
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "results.json")
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(results, stream, indent=1)
    os.replace(path + ".tmp", path)
    write_figures(os.path.join(out, "results.csv"), results["tasks"])


def keep_logs(lab: Lab, tasks: list[Task]):
    folder = os.path.join(lab.arguments.out, "logs")
    os.makedirs(folder, exist_ok=True)
    for task in tasks:
        log = os.path.join(lab.folder(task), "compare.log")
        if os.path.exists(log):
            shutil.copy(log, os.path.join(folder, f"{task.name}.log"))


def run_all(lab: Lab, tasks: list[Task]) -> list[dict | None]:
    """Runs tasks whose speed counts one after another, and several of the others at a time."""
    found = [lab.compare(task) for task in tasks if task.alone]
    jobs = lab.arguments.jobs or (6 if lab.gpu else 1)
    rest = [task for task in tasks if not task.alone]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return found + list(pool.map(lab.compare, rest))


def main() -> int:
    arguments = parse_arguments()
    gpu = gpu_name()
    lab = Lab(arguments, gpu)
    parts = arguments.parts or list(PARTS)
    tasks = [task for part in parts for task in PARTS[part](arguments.stores, lab.epochs)
             if arguments.only in task.name]
    found = run_all(lab, tasks)
    results = earlier_results(arguments.out)
    names = {task.name for task in tasks}
    results["tasks"] = [task for task in results["tasks"] if task["name"] not in names]
    results["tasks"] += [task for task in found if task]
    if "equality" in parts:
        results["verify"] = lab.verify()
    results |= {"device": gpu or "CPU", "epochs": lab.epochs, "seeds": arguments.seeds,
                "lengths": {name: lengths(arguments.stores, name) for name in DISTRIBUTIONS}}
    save(lab, results)
    keep_logs(lab, tasks)
    print(f"{arguments.out}/results.json: {len(results['tasks'])} tasks, "
          f"{time.monotonic() - lab.begin:.0f} s")
    bad_verify = any((v["exit_code"] == VERIFY_FAILED) != v["cross_example_attention"]
                     for v in results["verify"])
    return 1 if None in found or bad_verify else 0


if __name__ == "__main__":
    sys.exit(main())
