#!/usr/bin/env python3
"""Trains a model from random weights with each optimizer, and prints its validation loss at equal tokens and at equal
time. A restart keeps finished runs and resumes a run that was stopped. Several processes with one --out share the runs.

    benchmarks/results/run prepare-package-text                    # stores/package-text, on a machine that is built
    benchmarks/results/optimizers.py [--study 125m] [--seeds N] [--recipes muon@2e-3,sophia@1e-3] [--gpu 1]
    benchmarks/results/optimizers.py --study sizes                 # AdamW, three sizes with the same computation
"""

import argparse
import math
import os
import shutil
import sys
import time
from dataclasses import dataclass

import launching
import optimizer_tables
from curves import Curve, read_curve
from optimizer_tables import SIZES

HERE = os.path.dirname(os.path.realpath(__file__))
STOPPED = 75  # saved on request
# A recipe is one of these with a learning rate: muon@2e-3. Sophia has its paper's settings for 125M parameters.
OPTIMIZERS = {
    "adamw": (),
    "muon": ("optimizer.name=muon", "optimizer.momentum=0.95"),
    "sophia": ("optimizer.name=sophia", "optimizer.betas=[0.965,0.99]", "optimizer.epsilon=1e-15",
               "optimizer.gamma=0.05", "optimizer.weight_decay=0.2", "optimizer.hessian_every=10"),
}


@dataclass(frozen=True)
class Study:
    config: str
    recipes: tuple[str, ...]
    seeds: int


STUDIES = {
    "30m": Study("model-30m.yaml", ("adamw@2e-3", "muon@2e-3", "sophia@1.6e-3", "adamw@4e-3", "adamw@1e-3",
                                    "sophia@4e-4"), 3),
    "125m": Study("model-125m.yaml", ("adamw@1e-3", "muon@1e-3", "sophia@8e-4"), 1),
    "sizes": Study("model-30m.yaml", tuple(SIZES), 1),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--study", choices=STUDIES, default="30m")
    parser.add_argument("--recipes", help="OPTIMIZER@RATE,...; default: those of the study")
    parser.add_argument("--seeds", type=int, help="default: 3 of 30m, else 1")
    parser.add_argument("--gpu", type=int, help="the GPU of this process's runs")
    parser.add_argument("--launcher", default="launch/packtrain-run")
    parser.add_argument("--stores", default="stores/package-text")
    parser.add_argument("--out", default="runs/optimizers")
    parser.add_argument("--seconds", type=float, default=math.inf,
                        help="start nothing after this long; what is missing is trained next time")
    parser.add_argument("--stop-after", type=float, default=math.inf, metavar="SECONDS",
                        help="stop the run that trains then, with a checkpoint; it is resumed next time")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of every run")
    return parser.parse_args()


def settings_of(recipe: str) -> list[str]:
    if recipe in SIZES:
        return SIZES[recipe].settings
    name, _, rate = recipe.partition("@")
    if name not in OPTIMIZERS or not rate:
        sys.exit(f"unknown recipe {recipe}: wanted one of {', '.join(OPTIMIZERS)} with a rate, such as muon@2e-3")
    return [*OPTIMIZERS[name], f"optimizer.learning_rate={rate}"]


class Lab:
    def __init__(self, arguments):
        self.arguments = arguments
        self.study = STUDIES[arguments.study]
        self.begin = time.monotonic()
        self.environment = dict(os.environ)
        if arguments.gpu is not None:
            self.environment["CUDA_VISIBLE_DEVICES"] = str(arguments.gpu)

    def folder(self, recipe: str, seed: int) -> str:
        return os.path.join(self.arguments.out, self.arguments.study, f"{recipe}-{seed}")

    def passed(self) -> float:
        return time.monotonic() - self.begin

    def train(self, recipe: str, seed: int) -> None:
        folder = self.folder(recipe, seed)
        with launching.claim(folder) as mine:
            if not mine or launching.is_done(folder) or self.passed() > min(self.arguments.seconds,
                                                                            self.arguments.stop_after):
                return
            if not os.path.isdir(os.path.join(folder, "checkpoints")):
                shutil.rmtree(folder, ignore_errors=True)
            begin = time.monotonic()
            left = self.arguments.stop_after - self.passed()
            code = launching.start([self.arguments.launcher, "-n", "1", "train", os.path.join(HERE, self.study.config),
                                    *self.settings(recipe, seed)], folder + ".log", self.environment,
                                   None if left == math.inf else left)
            if code == 0:
                shutil.rmtree(os.path.join(folder, "checkpoints"), ignore_errors=True)
                launching.mark_done(folder)
            text = "stopped, to be resumed" if code == STOPPED else f"exit code {code}"
            print(f"{recipe}, seed {seed}: {text}, {time.monotonic() - begin:.0f} s", flush=True)

    def settings(self, recipe: str, seed: int) -> list[str]:
        stores = self.arguments.stores
        return [f"data.train={stores}/train", f"data.validation={stores}/validation", f"run.seed={seed}",
                f"run.output={self.folder(recipe, seed)}", *settings_of(recipe), *self.arguments.settings]

    def read(self, recipe: str, seed: int) -> Curve | None:
        folder = self.folder(recipe, seed)
        return read_curve(launching.read_lines(folder)) if launching.is_done(folder) else None


def main() -> int:
    arguments = parse_arguments()
    lab = Lab(arguments)
    recipes = arguments.recipes.split(",") if arguments.recipes else lab.study.recipes
    wanted = [(recipe, seed) for seed in range(1, (arguments.seeds or lab.study.seeds) + 1) for recipe in recipes]
    for recipe in recipes:
        settings_of(recipe)  # an unknown one ends here
    for run in wanted:
        lab.train(*run)
    found = {run: curve for run in wanted if (curve := lab.read(*run))}
    if found:
        print(optimizer_tables.sizes(found) if arguments.study == "sizes" else optimizer_tables.optimizers(found))
    return 0 if len(found) == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
