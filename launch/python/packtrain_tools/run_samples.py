"""samples.jsonl of a run: the generated continuations of prompts, decoded."""

import json
import os

from packtrain_tools.errors import ToolError
from packtrain_tools.showing import Decoders

NAME = "samples.jsonl"


def has_samples(run: str) -> bool:
    return os.path.isfile(os.path.join(run, NAME))


def read_samples(run: str) -> list[dict]:
    """Samples in the order of steps; empty where the run took none. An unfinished last line is left out."""
    if not has_samples(run):
        return []
    path = os.path.join(run, NAME)
    with open(path, encoding="utf-8") as stream:
        lines = [line for line in stream if line.endswith("\n")]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ToolError(f"{path}: has a line that is no JSON: {error}") from None


def text_of(sample: dict, part: str, decoders: Decoders) -> str:
    """Decodes with the tokenizer of the prompt's store. `part`: prompt, continuation, without_adapter, reference or
    rejected."""
    return decoders.of(sample["store"])(sample[part])


def answers_of(sample: dict) -> dict[str, str]:
    """The parts that have the example's own answers, by what they are."""
    if "rejected" in sample:
        return {"chosen": "reference", "rejected": "rejected"}
    return {"the example itself": "reference"}


def title(sample: dict) -> str:
    part = f" of {sample['set']}" if "set" in sample else ""
    return f"example {sample['example']:,}{part}"
