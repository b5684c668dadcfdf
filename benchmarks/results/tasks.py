"""The trainings of docs/results.md: one `packtrain compare` each."""

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
    alone: bool = False  # nothing else runs at the same time, because its speed is reported


def store_info(stores: str, distribution: str) -> dict:
    path = os.path.join(stores, distribution, "train", "store.json")
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def mean_length(stores: str, distribution: str) -> float:
    info = store_info(stores, distribution)
    return info["num_tokens"] / info["num_examples"]


def strategies(stores: str, epochs: int) -> list[Task]:
    """The paper's table: every strategy with default settings, and fixed_length and multipack also with
    the others' tokens a step."""
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
    """In fp32, on CPU ranks: equal batches and equal losses."""
    exact = {"precision.compute": "fp32", "precision.reduce": "fp32", "parallel.backend": "mpi",
             "batch.global_batch_size": 32, "batch.micro_batch_size": 4, "run.max_steps": 60,
             "run.num_epochs": 10, "run.evaluate_steps": 60}
    return [Task("equality", f"equality-{distribution}", distribution, SAME_BATCHES, exact,
                 on_cpu=True, num_ranks=2) for distribution in ("fortunes", "wordnet")]


def density(stores: str, epochs: int) -> list[Task]:
    """Few to many tokens a step, on every distribution. Runs have equal epochs with one learning rate, or
    with one that grows with the root of the batch, or equal steps. Longest first."""
    return [task for kind in (equal_epochs, scaled_rate, equal_steps) for tokens in DENSITIES
            for name in DISTRIBUTIONS for task in kind(stores, name, tokens, epochs)]


def batch_of(stores: str, distribution: str, tokens: int) -> dict:
    return {"batch.global_batch_size": max(1, round(tokens / mean_length(stores, distribution)))}


def equal_epochs(stores: str, distribution: str, tokens: int, epochs: int) -> list[Task]:
    settings = {**batch_of(stores, distribution, tokens), "run.num_epochs": epochs}
    return [Task("density", f"epochs-{distribution}-{tokens}", distribution,
                 ("balanced", "multipack", "fixed_length"), settings, equal_tokens=True)]


def scaled_rate(stores: str, distribution: str, tokens: int, epochs: int) -> list[Task]:
    if tokens == BASE_DENSITY:
        return []  # this is the run at equal epochs
    settings = {**batch_of(stores, distribution, tokens), "run.num_epochs": epochs,
                "optimizer.learning_rate": BASE_RATE * math.sqrt(tokens / BASE_DENSITY)}
    return [Task("density", f"scaled-{distribution}-{tokens}", distribution,
                 ("balanced", "multipack"), settings, equal_tokens=True)]


def equal_steps(stores: str, distribution: str, tokens: int, epochs: int) -> list[Task]:
    """Tasks with as many steps as the middle density takes for all epochs."""
    if tokens == BASE_DENSITY:
        return []
    steps = round(epochs * store_info(stores, distribution)["num_tokens"] / BASE_DENSITY)
    settings = {**batch_of(stores, distribution, tokens), "run.max_steps": steps,
                "run.num_epochs": 64 * epochs}
    return [Task("density", f"steps-{distribution}-{tokens}", distribution,
                 ("balanced", "multipack"), settings, equal_tokens=True)]


PARTS = {"strategies": strategies, "equality": equality, "density": density}
