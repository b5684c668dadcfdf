"""The models of configs/families as settings that setting_bench measures."""

import dataclasses
import json
import os
import re

import programs
from paper_cases import LENGTHS, LONGEST, SAME_BATCHES
from programs import ROOT, call

FOLDER = os.path.join(ROOT, "configs", "families")
VOCAB_SIZE = 32000  # of the store: the smallest vocabulary of all models, so one store serves all
MOST_ON_ONE_GPU = 2.5e9  # parameters; larger models are measured on several GPUs
STRATEGIES = SAME_BATCHES


@dataclasses.dataclass(frozen=True)
class FamilySetting:
    model: str  # a file's name
    num_gpus: int
    layers: int | None = None  # instead of the file's
    folder: str = ""  # where the file's copy with `layers` layers is
    lengths: str = "flan"

    @property
    def label(self):
        return f"{self.model}, {self.layers} layers" if self.layers else self.model

    @property
    def name(self):
        layers = f"-{self.layers}-layers" if self.layers else ""
        return f"{self.model}{layers}-x{self.num_gpus}"

    @property
    def config(self):
        path = os.path.join(FOLDER, f"{self.model}.yaml")
        return with_layers(path, self.layers, self.folder) if self.layers else path

    @property
    def peer_options(self):
        return ["--config", self.config, "--compile", "layers"]

    @property
    def store_vocab_size(self):
        return VOCAB_SIZE

    def store_arguments(self):
        return f"lognormal:{LENGTHS[self.lengths]},8,{LONGEST}", 12000, self.store_vocab_size

    def overrides(self, _):
        return []  # the files already have this setting


def with_layers(path, layers, folder):
    """Path of a copy in `folder` with `layers` layers."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"num_hidden_layers: \d+", f"num_hidden_layers: {layers}", file.read())
    copy = os.path.join(folder, f"{layers}-layers-{os.path.basename(path)}")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return copy


def all_models():
    return sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER)
                  if name.endswith(".yaml"))


def measured_settings(out, folder):
    """The settings that have figures in `out`, by model, fewer GPUs first."""
    pattern = re.compile(r"(.+?)(?:-(\d+)-layers)?-x(\d+)\.json")
    found = [pattern.fullmatch(name) for name in sorted(os.listdir(out))]
    settings = [FamilySetting(model, int(gpus), int(layers) if layers else None, folder)
                for model, layers, gpus in (match.groups() for match in found if match)
                if model in all_models()]
    return sorted(settings, key=lambda one: (one.num_gpus, one.layers or 0, one.model))


def num_parameters(model, logs):
    log = os.path.join(logs, f"{model}-memory.json")
    call([programs.PACKTRAIN, "plan", FamilySetting(model, 1).config, "--memory", "--json"], log,
         programs.PREPARE_SECONDS)
    with open(log, encoding="utf-8", errors="replace") as file:
        return json.loads(next(line for line in file if line.startswith("{")))["num_parameters"]


def models_for(num_gpus, logs):
    """The models of about 1B for one GPU, the larger ones for several."""
    return [model for model in all_models()
            if (num_parameters(model, logs) <= MOST_ON_ONE_GPU) == (num_gpus == 1)]
