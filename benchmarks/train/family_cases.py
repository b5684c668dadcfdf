"""The models of configs/families as settings that setting_bench measures."""

import dataclasses
import json
import os

import programs
from paper_cases import LENGTHS, LONGEST, SAME_BATCHES
from programs import ROOT, call

FOLDER = os.path.join(ROOT, "configs", "families")
VOCAB_SIZE = 32000  # of the store: the smallest of all models, so one serves them
MOST_ON_ONE_GPU = 2.5e9  # parameters; larger ones are measured on several
STRATEGIES = SAME_BATCHES


@dataclasses.dataclass(frozen=True)
class FamilySetting:
    model: str  # a file's name
    num_gpus: int
    lengths: str = "flan"

    @property
    def name(self):
        return f"{self.model}-x{self.num_gpus}"

    @property
    def config(self):
        return os.path.join(FOLDER, f"{self.model}.yaml")

    @property
    def peer_options(self):
        return ["--config", self.config, "--compile", "layers"]

    @property
    def store_vocab_size(self):
        return VOCAB_SIZE

    def store_arguments(self):
        return f"lognormal:{LENGTHS[self.lengths]},8,{LONGEST}", 12000, self.store_vocab_size

    def overrides(self, _):
        return []  # the files have all that the setting is


def all_models():
    return sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER)
                  if name.endswith(".yaml"))


def num_parameters(model, logs):
    log = os.path.join(logs, f"{model}-memory.json")
    call([programs.PACKTRAIN, "plan", FamilySetting(model, 1).config, "--memory", "--json"], log,
         programs.PREPARE_SECONDS)
    with open(log, encoding="utf-8", errors="replace") as file:
        return json.loads(next(line for line in file if line.startswith("{")))["num_parameters"]


def models_for(num_gpus, logs):
    """Those of about 1B for one GPU, the larger ones for several."""
    return [model for model in all_models()
            if (num_parameters(model, logs) <= MOST_ON_ONE_GPU) == (num_gpus == 1)]
