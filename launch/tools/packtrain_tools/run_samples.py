"""samples.jsonl of a run: what the model wrote after beginnings of examples, decoded."""

import json
import os

from packtrain_tools.errors import ToolError
from packtrain_tools.showing import load_decoder

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


class SampleTexts:
    """Decodes by the tokenizers of the stores that prompts are from; keeps them."""

    def __init__(self, as_ids: bool = False):
        self._as_ids = as_ids
        self._decoders: dict[str, object] = {}

    def text(self, sample: dict, part: str) -> str:
        """`part`: prompt, continuation or reference. Ids where there is no tokenizer."""
        store = sample["store"]
        if store not in self._decoders:
            self._decoders[store] = None if self._as_ids else load_decoder(store)
        decode = self._decoders[store]
        ids = sample[part]
        return decode(ids) if decode else " ".join(map(str, ids)) + " "


def title(sample: dict) -> str:
    part = f" of {sample['set']}" if "set" in sample else ""
    return f"example {sample['example']:,}{part}"
