#!/usr/bin/env python3
"""Trains a model of 1 billion parameters with each recipe of precision and several seeds. Prints the
differences of their validation losses, paired by seed. A restart keeps finished runs.

    benchmarks/results/run prepare-dictionary      # stores/dictionary, on a machine that is built
    benchmarks/results/precision.py [--recipes bf16,fp8_tensor,fp8_block] [--seeds 3] [--steps 2000] [--seconds S]
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CONFIG = os.path.join(HERE, "model-1b.yaml")
FIRST = "bf16"
RECIPES = {
    "bf16": (),
    "fp8_tensor": ("precision.linear=fp8_tensor", "precision.weight_gradient=fp8"),
    "fp8_block": ("precision.linear=fp8_block", "precision.weight_gradient=fp8_block"),
}
# Quantiles of Student's t with 1, 2, ... degrees of freedom.
TWO_SIDED_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
ONE_SIDED_80 = (1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883)
NUM_BEFORE, SPIKE = 50, 5.0  # a spike: standard deviations above the mean of the steps before


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--launcher", default="launch/packtrain-run")
    parser.add_argument("--stores", default="stores/dictionary")
    parser.add_argument("--out", default="runs/precision")
    parser.add_argument("--seconds", type=float, default=math.inf,
                        help="start nothing after this long; what is missing is trained next time")
    return parser.parse_args()


def read_lines(folder: str) -> list[dict]:
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def validation_losses(folder: str) -> dict[int, float]:
    return {line["step"]: line["validation_loss"] for line in read_lines(folder)
            if line.get("validation_loss") is not None}


def num_spikes(folder: str) -> int:
    losses = [line["loss"] for line in read_lines(folder) if "step_time_s" in line]
    count = 0
    for i in range(NUM_BEFORE, len(losses)):
        before = losses[i - NUM_BEFORE:i]
        bound = statistics.mean(before) + SPIKE * statistics.stdev(before)
        count += not losses[i] <= bound  # a loss that is no number is one too
    return count


def train(arguments, recipe: str, seed: int, folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    command = [arguments.launcher, "-n", "1", "train", CONFIG, f"data.train={arguments.stores}/train",
               f"data.validation={arguments.stores}/validation", f"run.seed={seed}",
               f"run.max_steps={arguments.steps}", f"run.output={folder}", *RECIPES[recipe]]
    begin = time.monotonic()
    with open(folder + ".log", "w", encoding="utf-8") as log:
        code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    print(f"{recipe}, seed {seed}: exit code {code}, {time.monotonic() - begin:.0f} s", flush=True)


def paired(differences: list[float]) -> str:
    """Mean, 95 % interval, and the true difference that is found with probability 0.8."""
    degrees = len(differences) - 1
    mean = statistics.mean(differences)
    if degrees < 1:
        return f"{mean:+.4f} | | "
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = TWO_SIDED_95[degrees - 1] * error
    found = half + ONE_SIDED_80[degrees - 1] * error
    return f"{mean:+.4f} | {mean - half:+.4f} to {mean + half:+.4f} | {found:.4f}"


def report(arguments, recipes: list[str]) -> None:
    runs = {}
    for recipe in recipes:
        for seed in range(1, arguments.seeds + 1):
            folder = os.path.join(arguments.out, f"{recipe}-{seed}")
            losses = validation_losses(folder)
            if arguments.steps in losses:
                runs[recipe, seed] = (losses, num_spikes(folder))
    print(f"| recipe | seeds | validation loss | minus that of {FIRST} | interval | smallest found | spikes |")
    print("|---|---|---|---|---|---|---|")
    for recipe in recipes:
        seeds = [seed for of, seed in runs if of == recipe]
        if not seeds:
            continue
        last = [runs[recipe, seed][0][arguments.steps] for seed in seeds]
        both = [seed for seed in seeds if (FIRST, seed) in runs]
        text = paired([runs[recipe, seed][0][arguments.steps] - runs[FIRST, seed][0][arguments.steps]
                       for seed in both]) if both and recipe != FIRST else " | | "
        spikes = sum(runs[recipe, seed][1] for seed in seeds)
        print(f"| {recipe} | {len(seeds)} | {statistics.mean(last):.4f} | {text} | {spikes} |")
    for (recipe, seed), (losses, _) in runs.items():
        print(f"{recipe} {seed}: " + " ".join(f"{loss:.4f}" for _, loss in sorted(losses.items())))


def main():
    arguments = parse_arguments()
    recipes = arguments.recipes.split(",")
    if unknown := set(recipes) - set(RECIPES):
        sys.exit(f"unknown recipe {unknown.pop()}: wanted of {', '.join(RECIPES)}")
    begin = time.monotonic()
    for seed in range(1, arguments.seeds + 1):
        for recipe in recipes:
            folder = os.path.join(arguments.out, f"{recipe}-{seed}")
            is_done = arguments.steps in validation_losses(folder)
            if not is_done and time.monotonic() - begin < arguments.seconds:
                train(arguments, recipe, seed, folder)
    report(arguments, recipes)


if __name__ == "__main__":
    main()
