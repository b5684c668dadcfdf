"""configs/families: packtrain plans each of them, and its model is the one that its name promises."""

import json
import pathlib
import re

import family
import oracle
import program
import pytest
import torch
import yaml
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "configs" / "families"
FILES = sorted(FOLDER.glob("*.yaml"))
PUBLISHED = {  # parameters, as the models' pages say
    "falcon-h1-0.5b": 521_411_104,
    "gemma-3-1b": 999_885_952,
    "gemma-7b": 8_537_680_896,
    "granite-8b-code": 8_054_910_976,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "olmo-1b": 1_176_764_416,
    "olmo-2-1b": 1_484_916_736,
    "olmo-7b": 6_888_095_744,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "pythia-1b": 1_011_781_632,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen3-1.7b": 1_720_574_976,
    "starcoder2-7b": 7_173_923_840,
}


def num_parameters_in_transformers(config):
    kind = CONFIG_MAPPING[config["model_type"]]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(kind.from_dict(config))
    return sum(tensor.numel() for tensor in [*model.parameters(), *oracle.constants_of(model)])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "store"
    return program.make_store(folder, 200, 1, 32000)


def test_the_published_models_are_all_there():
    assert set(PUBLISHED) <= {file.stem for file in FILES}


def test_every_family_has_one():
    types = {yaml.safe_load(file.read_text())["model"]["config"]["model_type"] for file in FILES}
    assert types == set(family.names())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_planned_and_has_the_parameters_of_its_model(file, store):
    out = program.finished("plan", file, f"data.train={store}", "--ranks", "4", "--gpu-gib", "139", "--json")
    plan = json.loads(out)
    text = file.read_text()
    count = num_parameters_in_transformers(yaml.safe_load(text)["model"]["config"])
    assert plan["num_parameters"] == count
    assert PUBLISHED.get(file.stem, count) == count
    assert f"{count:,}" == re.search(r": ([\d,]+) parameters", text)[1]
    assert 0 < plan["predicted_memory_bytes"] < plan["gpu_memory_bytes"]
