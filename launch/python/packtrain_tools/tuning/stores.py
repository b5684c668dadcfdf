"""The stores of `packtrain tune`: prepared once for the same data, tokenizer and options."""

import json
import os
from dataclasses import dataclass

from packtrain_tools.prepare.store import MANIFEST
from packtrain_tools.prepared import files_of, is_store, prepare, prepared_folder
from packtrain_tools.sources.readers import Reader
from packtrain_tools.sources.source_file import SourceFile

SMALL_BYTES = 1 << 20
HELD_OUT = 20  # one of this number of examples


@dataclass(frozen=True)
class Stores:
    train: str
    validation: str

    def read(self) -> dict:
        with open(os.path.join(self.train, MANIFEST), encoding="utf-8") as stream:
            return json.load(stream)

    @property
    def are_there(self) -> bool:
        return is_store(self.train) and is_store(self.validation)


def _held_out(options: list[str], files: list[SourceFile]) -> list[str]:
    """A share is held out. That might be nothing of small data, so there it is a number of examples."""
    if any(word.startswith("--validation-") for word in options):
        return []
    if sum(file.num_bytes for file in files) > SMALL_BYTES:
        return ["--validation-fraction", f"{1 / HELD_OUT:g}"]
    num_records = sum(len(chunk.records()) for chunk in Reader(files, None).chunks())
    return ["--validation-examples", str(max(1, num_records // HELD_OUT))]


def prepare_stores(program: str, sources: list[str], tokenizer: str, options: list[str], folder: str) -> Stores:
    """Uses the stores of an earlier call where data, tokenizer and options are the same."""
    files = files_of(sources)
    options = options + _held_out(options, files)
    place = prepared_folder(files, tokenizer, options, folder)
    stores = Stores(os.path.join(place, "train"), os.path.join(place, "validation"))
    if not stores.are_there:
        prepare(program, sources, tokenizer, options, ["--out", stores.train, "--validation-out", stores.validation])
    return stores
