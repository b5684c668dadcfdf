"""The configuration that `packtrain tune` writes."""

import json
import os
import re

import yaml

from packtrain_tools.errors import CONFIG, DATA, ToolError
from packtrain_tools.tuning.stores import Stores

SETTING = re.compile(r"(?P<section>[a-z_]+)\.(?P<key>[A-Za-z_.]+)=(?P<value>.*)", re.DOTALL)
MOST_EXAMPLES = 64  # of a step
STEPS_OF_AN_EPOCH = 32  # at least, where there are enough examples
MOST_TOKENS = 16384  # of a micro-batch; memory.fit takes fewer where they do not fit

Settings = dict[str, dict]


def is_setting(word: str) -> bool:
    return SETTING.fullmatch(word) is not None


def longest_position(model: str) -> int:
    """max_position_embeddings of the model, or of its text part."""
    path = os.path.join(model, "config.json")
    try:
        with open(path, encoding="utf-8") as stream:
            config = json.load(stream)
        config = config.get("text_config") or config
        return int(config.get("max_position_embeddings") or 2**31 - 1)
    except FileNotFoundError:
        raise ToolError(f"{model}: is no model: it has no config.json", "Give a Hugging Face folder, or hf:OWNER/NAME.",
                        CONFIG) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ToolError(f"{path}: is no configuration of a model: {error}", exit_code=DATA) from None


def choose(model: str, stores: Stores, lora: bool, on_gpus: bool, output: str) -> Settings:
    info = stores.read()
    longest = max(shard["lengths"][1] for shard in info["shards"])
    length = min(longest, longest_position(model))
    step = min(MOST_EXAMPLES, max(4, info["num_examples"] // STEPS_OF_AN_EPOCH))
    settings: Settings = {
        "model": {"path": model},
        "data": {"train": stores.train, "validation": stores.validation, "max_length": length,
                 "too_long": "truncate" if longest > length else "error"},
        "batch": {"global_batch_size": step, "max_tokens_per_micro_batch": max(MOST_TOKENS, length)},
        "optimizer": {"learning_rate": 2e-4 if lora else 1e-5, "weight_decay": 0},
        "memory": {"fit": "auto"},
        "checkpoint": {"save_steps": "epoch", "keep": 1, "keep_best": 1},
        "run": {"output": output, "num_epochs": 3, "evaluate_at_start": True, "evaluate_steps": "epoch"},
    }
    if lora:
        settings["adapter"] = {"kind": "lora", "rank": 16, "alpha": 32, "targets": ["all-linear"]}
    if not on_gpus:
        settings["precision"] = {"compute": "fp32", "reduce": "fp32"}
    return settings


def override(settings: Settings, words: list[str]):
    """section.key=value, with YAML's values, as on the command line of `train`."""
    for word in words:
        named = SETTING.fullmatch(word)
        assert named
        try:
            value = yaml.safe_load(named["value"])
        except yaml.YAMLError:
            raise ToolError(f"'{word}': the value is no YAML", exit_code=CONFIG) from None
        *parents, last = named["key"].split(".")
        place = settings.setdefault(named["section"], {})
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ToolError(f"'{word}': {parent} has no keys", exit_code=CONFIG)
        place[last] = value


def to_yaml(settings: Settings) -> str:
    return "# Written by `packtrain tune`; `packtrain train` takes it.\n" + yaml.safe_dump(
        settings, sort_keys=False, default_flow_style=False, allow_unicode=True)


def differences(before: str, after: str) -> list[str]:
    """Keys whose values differ."""
    flat = [{f"{section}.{key}": value for section, values in (yaml.safe_load(text) or {}).items()
             for key, value in values.items()} for text in (before, after)]
    return [key for key in dict.fromkeys([*flat[0], *flat[1]]) if flat[0].get(key) != flat[1].get(key)]
