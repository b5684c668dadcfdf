"""What is trained for docs/results.md: one `packtrain compare` each."""

import json
import math
import os
from dataclasses import dataclass, field

DISTRIBUTIONS = ("fortunes", "wordnet", "long", "bimodal")
ALL = ("padding", "padding_free", "fixed_length", "multipack", "balanced")
SAME_BATCHES = ("padding", "padding_free", "balanced")
DENSITIES = (1024, 4096, 16384)  # tokens a step
BASE_DENSITY = 4096
BASE_RATE = 2e-3  # learning rate, model.yaml


@dataclass
class Task:
    part: str
    name: str
    distribution: str
    strategies: tuple[str, ...]
    overrides: dict[str, object] = field(default_factory=dict)
    equal_tokens: bool = False
    on_cpu: bool = False
    num_ranks: int = 1
    alone: bool = False  # its speed is reported: nothing else runs beside it


def mean_length(stores: str, distribution: str) -> float:
    with open(os.path.join(stores, distribution, "train", "store.json"), encoding="utf-8") as stream:
        info = json.load(stream)
    return info["num_tokens"] / info["num_examples"]


def strategies(stores: str, epochs: int) -> list[Task]:
    """The paper's table: every strategy as a user gets it who switches nothing else, and with
    fixed_length and multipack at as many tokens a step as the others."""
    tasks = []
    for distribution in ("fortunes", "wordnet"):
        batch = {"batch.global_batch_size": 64, "batch.micro_batch_size": 32,
                 "run.num_epochs": epochs}
        tasks.append(Task("strategies", f"strategies-{distribution}", distribution, ALL, batch,
                          alone=True))
        tasks.append(Task("strategies", f"equal-tokens-{distribution}", distribution,
                          ("fixed_length", "multipack"), batch, equal_tokens=True, alone=True))
    return tasks


def equality(stores: str, epochs: int) -> list[Task]:
    """In fp32, on CPU ranks: the same batches, the same losses."""
    exact = {"precision.compute": "fp32", "precision.reduce": "fp32", "parallel.backend": "mpi",
             "batch.global_batch_size": 32, "batch.micro_batch_size": 4, "run.max_steps": 60,
             "run.num_epochs": 10, "run.evaluate_steps": 60}
    return [Task("equality", f"equality-{distribution}", distribution, SAME_BATCHES, exact,
                 on_cpu=True, num_ranks=2) for distribution in ("fortunes", "wordnet")]


def density(stores: str, epochs: int) -> list[Task]:
    """Tokens a step from few to many, on every distribution: at equal epochs with one learning
    rate and with one that grows with the root of the batch, and at equal steps."""
    tasks = []
    for distribution in DISTRIBUTIONS:
        length = mean_length(stores, distribution)
        for tokens in DENSITIES:
            batch = {"batch.global_batch_size": max(1, round(tokens / length))}
            epoch = {**batch, "run.num_epochs": epochs}
            name = f"{distribution}-{tokens}"
            tasks.append(Task("density", f"epochs-{name}", distribution,
                              ("balanced", "multipack", "fixed_length"), epoch, equal_tokens=True))
            if tokens == BASE_DENSITY:
                continue
            rate = BASE_RATE * math.sqrt(tokens / BASE_DENSITY)
            tasks.append(Task("density", f"scaled-{name}", distribution, ("balanced", "multipack"),
                              {**epoch, "optimizer.learning_rate": rate}, equal_tokens=True))
    return tasks + equal_steps(stores, epochs)


def equal_steps(stores: str, epochs: int) -> list[Task]:
    """Every density for as many steps as the middle one takes for all epochs."""
    tasks = []
    for distribution in DISTRIBUTIONS:
        length = mean_length(stores, distribution)
        with open(os.path.join(stores, distribution, "train", "store.json"),
                  encoding="utf-8") as stream:
            steps = epochs * json.load(stream)["num_tokens"] // BASE_DENSITY
        for tokens in DENSITIES:
            if tokens == BASE_DENSITY:
                continue  # the run at equal epochs
            batch = {"batch.global_batch_size": max(1, round(tokens / length)),
                     "run.max_steps": steps, "run.num_epochs": 64 * epochs}
            tasks.append(Task("density", f"steps-{distribution}-{tokens}", distribution,
                              ("balanced", "multipack"), batch, equal_tokens=True))
    return tasks


PARTS = {"strategies": strategies, "equality": equality, "density": density}
