"""What a model card says of a run: its data, its configuration and its losses."""

import hashlib
import json
import os
import re
from dataclasses import dataclass

import yaml

from packtrain_tools.errors import CONFIG, DATA, ToolError
from packtrain_tools.prepare.store import MANIFEST
from packtrain_tools.run_config import NAME, read_run, section, stores_of
from packtrain_tools.run_figures import History, figures, read_history
from packtrain_tools.svg_plot import Panel, Series, render

CACHED = re.compile(r"models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)")  # a folder of the hub's cache
MOST_POINTS = 500  # of a curve


@dataclass(frozen=True)
class StoreFacts:
    role: str  # training or validation
    sources: list[str]
    num_examples: int
    num_tokens: int
    num_loss_tokens: int
    digest: str


@dataclass(frozen=True)
class RunFacts:
    folder: str
    config: dict
    history: History
    stores: list[StoreFacts]
    gone: list[str]  # stores that are not there any more

    @property
    def figures(self) -> dict[str, float]:
        return figures(self.history)

    @property
    def base(self) -> str:
        return str(section(self.config, "model").get("path") or "")


def find_run(folder: str, given: str | None) -> str | None:
    """The run that made the folder: the given one, or the folder `run` next to it, as `packtrain tune` writes."""
    if given is not None:
        if not os.path.isfile(os.path.join(given, NAME)):
            raise ToolError(f"{given}: is no folder of a run: it has no config.yaml", exit_code=CONFIG)
        return given
    neighbour = os.path.join(os.path.dirname(os.path.abspath(folder)), "run")
    return neighbour if os.path.isfile(os.path.join(neighbour, NAME)) else None


def _read_store(folder: str, role: str) -> StoreFacts:
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as stream:
            info = json.load(stream)
        digests = [shard["digest"] for shard in info["shards"]]
        sources = [source if source.startswith("hf:") else os.path.basename(source.rstrip("/"))
                   for source in info["sources"]]
        return StoreFacts(role, sources, info["num_examples"], info["num_tokens"], info["num_loss_tokens"],
                          hashlib.sha256("\n".join(digests).encode()).hexdigest())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{path}: is no description of a store: {error}", exit_code=DATA) from None


def _validation_of(config: dict) -> list[str]:
    value = section(config, "data").get("validation")
    values = value.values() if isinstance(value, dict) else [value]
    return [path for path in values if isinstance(path, str) and path]


def read_facts(folder: str) -> RunFacts:
    config = read_run(folder)
    stores, gone = [], []
    for role, paths in (("training", stores_of(config)), ("validation", _validation_of(config))):
        for path in dict.fromkeys(paths):
            if os.path.isfile(os.path.join(path, MANIFEST)):
                stores.append(_read_store(path, role))
            else:
                gone.append(os.path.basename(path.rstrip("/")))
    return RunFacts(folder, config, read_history(folder), stores, gone)


def public_name(path: str) -> str:
    """A hub's name, or the last part of a path: folders of the machine stay private."""
    if path.startswith("hf:"):
        return path.removeprefix("hf:").partition("@")[0]
    found = CACHED.search(path)
    if found:
        return f"{found['owner']}/{found['name']}"
    return os.path.basename(path.rstrip("/")) if path.startswith(("/", "~", "..")) else path


def public_config(config: dict) -> str:
    """The resolved configuration as YAML, without folders of the machine."""
    def clean(value):
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        return public_name(value) if isinstance(value, str) else value

    return yaml.safe_dump(clean(config), sort_keys=False, allow_unicode=True)


def curves(history: History) -> str:
    """Training and validation loss by step, as SVG; empty without a step."""
    every = max(1, len(history.steps) // MOST_POINTS)
    loss = Panel("loss", "optimizer steps", "loss")
    loss.series.append(Series("training", [(one["step"], one["loss"]) for one in history.steps[::every]]))
    evaluated = [(one["step"], one["validation_loss"]) for one in history.evaluations]
    if evaluated:
        loss.series.append(Series("validation", evaluated, markers=True))
    rate = Panel("learning rate", "optimizer steps", "learning rate")
    rate.series.append(Series("learning rate", [(one["step"], one["learning_rate"]) for one in history.steps[::every]]))
    return render([loss, rate]) if history.steps else ""

