#!/usr/bin/env python3
"""Trains all weights and adapters from the same models, and writes OUT/adapters.json for docs/results.md. Needs no
package. The first model is trained here on the texts `base`. --gemma adds Gemma-3-270M. All are trained further on
the texts `definitions`. A restart keeps finished runs."""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

from train import CONFIG, ON_CPU, gpu_name

ADAPTER = {"adapter.kind": "lora", "adapter.alpha": 32, "adapter.targets": "[all-linear]"}
SMALL_RANK = {**ADAPTER, "adapter.rank": 16}
TUNING = {"batch.global_batch_size": 32, "batch.max_tokens_per_micro_batch": 4096, "optimizer.weight_decay": 0,
          "data.max_length": 256, "checkpoint.save_final": "false"}
FULL = "all weights"
STABLE = "LoRA, rank 256, rsLoRA"
# Times the rate of all weights. The scale of rsLoRA is 16 times as large: 32 / sqrt(256).
FACTORS = {FULL: 1, STABLE: 1}
FACTOR_OF_ADAPTERS = 10


@dataclass(frozen=True)
class Model:
    name: str
    folder: str
    stores: str  # holds definitions/train and definitions/validation
    rates: tuple[float, ...]  # learning rates of all weights
    num_epochs: int
    large_rank: dict  # settings of rank 256, or of each matrix' largest

    @property
    def methods(self) -> dict[str, dict]:
        large = {**ADAPTER, **self.large_rank}
        return {FULL: {}, "LoRA, rank 16": SMALL_RANK, "LoRA, rank 256": large,
                STABLE: {**large, "adapter.use_rslora": "true"}, "QLoRA, rank 16": {**SMALL_RANK, "model.base": "nf4"}}


@dataclass(frozen=True)
class Tuning:
    model: Model
    method: str
    rate: float
    seed: int

    @property
    def name(self) -> str:
        method = self.method.replace(",", "").replace(" ", "-")
        return f"{self.model.name}-{method}-{self.rate:g}-{self.seed}"

    @property
    def settings(self) -> dict:
        return {**TUNING, **self.model.methods[self.method], "optimizer.learning_rate": self.rate,
                "run.seed": self.seed, "run.num_epochs": self.model.num_epochs}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/bin/packtrain")
    parser.add_argument("--stores", default="stores/results", help="has base and definitions")
    parser.add_argument("--gemma", metavar="FOLDER", help="Gemma-3-270M as a Hugging Face folder")
    parser.add_argument("--gemma-stores", metavar="FOLDER", default="stores/results-gemma",
                        help="has definitions, with Gemma's tokenizer")
    parser.add_argument("--out", default="runs/results", help="for adapters.json")
    parser.add_argument("--runs", default="runs/results/adapters", help="for run folders")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at the same time (default: 6 on a GPU, else 1)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-steps", type=int, metavar="N", help="of each run, for a trial")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="start nothing after this long; what is missing is trained next time")
    parser.add_argument("--run-seconds", type=float, default=180, help="limit of each run")
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose name holds TEXT")
    return parser.parse_args()


class Lab:
    def __init__(self, arguments, gpu: str | None):
        self.arguments, self.gpu = arguments, gpu
        self.begin = time.monotonic()

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.begin > self.arguments.seconds

    def packtrain(self, name: str, *words: str) -> str | None:
        """Runs the program. Returns its output, or None when it failed; messages go to the log."""
        os.makedirs(self.arguments.runs, exist_ok=True)
        log = os.path.join(self.arguments.runs, f"{name}.log")
        environment = {"OMP_NUM_THREADS": "2", **os.environ}
        begin = time.monotonic()
        with open(log, "a", encoding="utf-8") as stream:
            try:
                done = subprocess.run([self.arguments.program, *words], stdout=subprocess.PIPE, stderr=stream,
                                      text=True, env=environment, timeout=self.arguments.run_seconds, check=False)
            except subprocess.TimeoutExpired:
                print(f"{name}: took more than {self.arguments.run_seconds:g} s, see {log}", flush=True)
                return None
        print(f"{name}: exit code {done.returncode}, {time.monotonic() - begin:.1f} s", flush=True)
        return done.stdout if done.returncode == 0 else None

    def train(self, name: str, settings: dict) -> dict | None:
        """The last evaluation of a run, trained where it is not finished."""
        folder = os.path.join(self.arguments.runs, name)
        found = last_evaluation(folder)
        if found is None and not self.is_late:
            shutil.rmtree(folder, ignore_errors=True)
            limit = {"run.max_steps": self.arguments.max_steps} if self.arguments.max_steps else {}
            settings = {**settings, **limit, "run.output": folder}
            if self.packtrain(name, "train", CONFIG, *overrides(settings)) is not None:
                found = last_evaluation(folder)
        return found

    def train_base(self) -> str:
        """The folder of the first model."""
        folder = os.path.join(self.arguments.runs, "llama-base")
        store = os.path.join(self.arguments.stores, "base")
        settings = {"data.train": f"{store}/train", "data.validation": f"{store}/validation",
                    "batch.global_batch_size": 64, "run.num_epochs": 2, "run.seed": 1}
        small = {} if self.gpu else dict(entry.split("=", 1) for entry in ON_CPU)
        done = self.train("llama-base-run", {**small, **settings})
        if done is None:
            sys.exit("the base model was not trained: see its log, llama-base-run.log")
        if not os.path.exists(os.path.join(folder, "config.json")):
            run = os.path.join(self.arguments.runs, "llama-base-run")
            if self.packtrain("llama-base-export", "export", run, "--out", folder, "--dtype", "float32") is None:
                sys.exit("the base model was not exported: see llama-base-export.log")
        return folder

    def models(self) -> list[Model]:
        large = {"adapter.rank": 256, "adapter.rank_pattern": "{k_proj: 128, v_proj: 128}"}
        found = [Model("llama", self.train_base(), self.arguments.stores, (5e-4, 1e-3, 2e-3), 2,
                       large if self.gpu else {"adapter.rank": 128})]
        if self.arguments.gemma:
            found.append(Model("gemma-3-270m", self.arguments.gemma, self.arguments.gemma_stores, (1e-5, 3e-5, 1e-4), 1,
                               {"adapter.rank": 256}))
        return found

    def settings_of(self, model: Model) -> dict:
        store = os.path.join(model.stores, "definitions")
        precision = {} if self.gpu else {"precision.compute": "fp32", "precision.reduce": "fp32"}
        return {"model.config": "null", "model.path": model.folder, "data.train": f"{store}/train",
                "data.validation": f"{store}/validation", **precision}

    def evaluate(self, model: Model) -> float | None:
        """The validation loss before training."""
        settings = {**self.settings_of(model), "data.max_length": 256}
        output = self.packtrain(f"{model.name}-before", "evaluate", CONFIG, *overrides(settings), "--json")
        return json.loads(output)["loss"] if output else None

    def tune(self, tuning: Tuning) -> dict | None:
        found = self.train(tuning.name, {**self.settings_of(tuning.model), **tuning.settings})
        if found is None or found["validation_loss"] is None:  # failed, or not finite
            return None
        return {"model": tuning.model.name, "method": tuning.method, "rate": tuning.rate, "seed": tuning.seed,
                "num_steps": found["step"], "validation_loss": found["validation_loss"]}


def overrides(settings: dict) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def last_evaluation(folder: str) -> dict | None:
    """Runs evaluate at their end alone."""
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream if line.endswith("\n")]
    found = [line for line in lines if "validation_loss" in line]
    return found[-1] if found else None


def tunings(model: Model, num_seeds: int) -> list[Tuning]:
    found = []
    for method in model.methods:
        factor = FACTORS.get(method, FACTOR_OF_ADAPTERS)
        rates = [float(f"{factor * rate:g}") for rate in model.rates]
        found += [Tuning(model, method, rate, seed) for rate in rates for seed in range(num_seeds)]
    return found


def save(arguments, results: dict):
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, "adapters.json")
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(results, stream, indent=1)
    os.replace(path + ".tmp", path)
    print(f"{path}: {len(results['runs'])} runs")


def main() -> int:
    arguments = parse_arguments()
    lab = Lab(arguments, gpu_name())
    models = lab.models()
    results = {"device": lab.gpu or "CPU", "before": {model.name: lab.evaluate(model) for model in models}, "runs": []}
    chosen = [tuning for model in models for tuning in tunings(model, arguments.seeds) if arguments.only in tuning.name]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs or (6 if lab.gpu else 1)) as pool:
        found = list(pool.map(lab.tune, chosen))
    results["runs"] = [run for run in found if run]
    save(arguments, results)
    return 1 if None in found else 0


if __name__ == "__main__":
    sys.exit(main())
