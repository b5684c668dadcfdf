"""samples.jsonl of a run: what the model wrote after beginnings of examples, decoded."""

import json
import os

from packtrain_tools.errors import ToolError
from packtrain_tools.showing import Decoders

NAME = "samples.jsonl"


def has_samples(run: str) -> bool:
    return os.path.isfile(os.path.join(run, NAME))


def read_samples(run: str) -> list[dict]:
    """In the order of steps; nothing where the run took no samples. A line that is still being
    written is left out."""
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
    """`part`: prompt, continuation or reference; by the tokenizer of the store that the prompt is from."""
    return decoders.of(sample["store"])(sample[part])


def title(sample: dict) -> str:
    part = f" of {sample['set']}" if "set" in sample else ""
    return f"example {sample['example']:,}{part}"
