#!/usr/bin/env python3
"""Trains a model with each recipe of precision and several seeds. Prints the differences of their validation losses,
paired by seed and by validation example. A restart keeps finished runs.

    benchmarks/results/run prepare-dictionary      # stores/dictionary, on a machine that is built
    benchmarks/results/run prepare [GEMMA]         # stores/results, and stores/results-gemma
    benchmarks/results/precision.py [--study 1b] [--recipes bf16,fp8_tensor,fp8_block] [--seeds N] [--by-example]
    benchmarks/results/precision.py --study gemma --gemma GEMMA --by-example    # a folder of Gemma-3-270M
"""

import argparse
import concurrent.futures
import math
import os
import shutil
import statistics
import sys
import time
from dataclasses import dataclass

import launching
import paired

HERE = os.path.dirname(os.path.realpath(__file__))
FIRST = "bf16"
RECIPES = {
    "bf16": (),
    "fp8_tensor": ("precision.linear=fp8_tensor", "precision.weight_gradient=fp8"),
    "fp8_block": ("precision.linear=fp8_block", "precision.weight_gradient=fp8_block"),
}
NUM_BEFORE, SPIKE = 50, 5.0  # a spike: standard deviations above the mean of the steps before


@dataclass(frozen=True)
class Study:
    config: str
    stores: str  # holds train and validation
    seeds: int
    settings: tuple[str, ...]


# As `packtrain compare` trained these models for docs/results.md.
SMALL = ("batch.strategy=balanced", "batch.global_batch_size=64", "run.num_epochs=2")
# A trained model, further on the texts and at the middle rate of adapters.py.
TUNING = ("model.config=null", "batch.strategy=balanced", "batch.global_batch_size=32", "run.num_epochs=1",
          "batch.max_tokens_per_micro_batch=8192", "data.max_length=256", "optimizer.learning_rate=3.0e-5",
          "optimizer.weight_decay=0")
STUDIES = {
    "1b": Study("model-1b.yaml", "stores/dictionary", 3, ("run.max_steps=2000",)),
    "fortunes": Study("model.yaml", "stores/results/fortunes", 5, SMALL),
    "wordnet": Study("model.yaml", "stores/results/wordnet", 5, SMALL),
    "gemma": Study("model.yaml", "stores/results-gemma/definitions", 3, TUNING),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--study", choices=STUDIES, default="1b")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", type=int, help="default: 5 of small models, else 3")
    parser.add_argument("--by-example", action="store_true", help="keep the loss of each validation example too")
    parser.add_argument("--gemma", metavar="FOLDER", help="Gemma-3-270M as a Hugging Face folder, for the study gemma")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time on the GPU")
    parser.add_argument("--launcher", default="launch/packtrain-run")
    parser.add_argument("--stores", help="default: those of the study, below stores/")
    parser.add_argument("--out", default="runs/precision")
    parser.add_argument("--seconds", type=float, default=math.inf,
                        help="start nothing after this long; what is missing is trained next time")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of every run")
    return parser.parse_args()


def num_spikes(losses: list[float]) -> int:
    count = 0
    for i in range(NUM_BEFORE, len(losses)):
        before = losses[i - NUM_BEFORE:i]
        bound = statistics.mean(before) + SPIKE * statistics.stdev(before)
        count += not losses[i] <= bound  # a loss that is no number is one too
    return count


@dataclass(frozen=True)
class Run:
    validation: dict[int, float]  # by step
    spikes: int
    examples: paired.ExampleLosses | None

    @property
    def last(self) -> float:
        return self.validation[max(self.validation)]


class Lab:
    def __init__(self, arguments):
        self.arguments = arguments
        self.study = STUDIES[arguments.study]
        self.begin = time.monotonic()

    def folder(self, recipe: str, seed: int) -> str:
        return os.path.join(self.arguments.out, self.arguments.study, f"{recipe}-{seed}")

    def is_done(self, folder: str) -> bool:
        return launching.is_done(folder) and (not self.arguments.by_example or paired.find_scores(folder) is not None)

    def call(self, log: str, *words: str) -> int:
        return launching.start([self.arguments.launcher, "-n", "1", *words], log)

    def train(self, recipe: str, seed: int) -> None:
        folder = self.folder(recipe, seed)
        if self.is_done(folder) or time.monotonic() - self.begin > self.arguments.seconds:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        begin = time.monotonic()
        code = self.call(folder + ".log", "train", os.path.join(HERE, self.study.config), *self.settings(recipe, seed))
        if code == 0 and self.arguments.by_example:
            scores = os.path.join(folder, "log-probs.safetensors")
            code = self.call(folder + ".log", "score", folder, "--log-probs", "--out", scores)
            shutil.rmtree(os.path.join(folder, "checkpoints"))
        if code == 0:
            launching.mark_done(folder)
        print(f"{recipe}, seed {seed}: exit code {code}, {time.monotonic() - begin:.0f} s", flush=True)

    def settings(self, recipe: str, seed: int) -> list[str]:
        stores = self.arguments.stores or self.study.stores
        model = [f"model.path={self.arguments.gemma}"] if self.arguments.gemma else []
        return [f"data.train={stores}/train", f"data.validation={stores}/validation", f"run.seed={seed}",
                f"run.output={self.folder(recipe, seed)}", "checkpoint.save_steps=0",
                f"checkpoint.save_final={str(self.arguments.by_example).lower()}", *self.study.settings, *model,
                *RECIPES[recipe], *self.arguments.settings]

    def read(self, recipe: str, seed: int) -> Run | None:
        folder = self.folder(recipe, seed)
        if not self.is_done(folder):
            return None
        lines = launching.read_lines(folder)
        validation = {line["step"]: line["validation_loss"] for line in lines
                      if line.get("validation_loss") is not None}
        losses = [line["loss"] for line in lines if "step_time_s" in line]
        return Run(validation, num_spikes(losses), paired.find_scores(folder))


def differences(first: list[Run], second: list[Run]) -> str:
    text = str(paired.by_seed([b.last - a.last for a, b in zip(first, second, strict=True)]))
    examples = [[run.examples for run in runs if run.examples] for runs in (first, second)]
    if len(examples[0]) != len(first) or len(examples[1]) != len(second):
        return f"{text} | | "
    found = paired.by_example(*examples)
    assert found.half_interval is not None
    return f"{text} | {found.mean - found.half_interval:+.4f} to {found.mean + found.half_interval:+.4f}" \
           f" | {found.smallest_found:.4f}"


def report(runs: dict[tuple[str, int], Run], recipes: list[str]) -> None:
    print(f"| recipe | seeds | validation loss | minus that of {FIRST} | by seed | smallest found | by example "
          "| smallest found | spikes |")
    print("|---|---|---|---|---|---|---|---|---|")
    for recipe in recipes:
        seeds = [seed for of, seed in runs if of == recipe]
        if not seeds:
            continue
        both = [seed for seed in seeds if (FIRST, seed) in runs]
        text = " | | | | "
        if both and recipe != FIRST:
            text = differences([runs[FIRST, seed] for seed in both], [runs[recipe, seed] for seed in both])
        mean = statistics.mean(runs[recipe, seed].last for seed in seeds)
        spikes = sum(runs[recipe, seed].spikes for seed in seeds)
        print(f"| {recipe} | {len(seeds)} | {mean:.4f} | {text} | {spikes} |")
    for (recipe, seed), run in runs.items():
        print(f"{recipe} {seed}: " + " ".join(f"{loss:.4f}" for _, loss in sorted(run.validation.items())))


def main() -> int:
    arguments = parse_arguments()
    recipes = arguments.recipes.split(",")
    if unknown := set(recipes) - set(RECIPES):
        sys.exit(f"unknown recipe {unknown.pop()}: wanted of {', '.join(RECIPES)}")
    if (arguments.study == "gemma") != bool(arguments.gemma):
        sys.exit("--study gemma and --gemma FOLDER belong together")
    lab = Lab(arguments)
    seeds = range(1, (arguments.seeds or lab.study.seeds) + 1)
    wanted = [(recipe, seed) for seed in seeds for recipe in recipes]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda run: lab.train(*run), wanted))
    found = {run: lab.read(*run) for run in wanted}
    report({key: run for key, run in found.items() if run}, recipes)
    return 1 if None in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
