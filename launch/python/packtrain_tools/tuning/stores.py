"""The stores of `packtrain tune`: prepared once for the same data, tokenizer and options."""

import hashlib
import json
import os
from dataclasses import dataclass

from packtrain_tools.errors import DATA, ToolError
from packtrain_tools.prepare.store import FORMAT_VERSION, MANIFEST, TOKENIZER_FILES
from packtrain_tools.program import run_program
from packtrain_tools.sources.files import HUB, SourceFile, list_files
from packtrain_tools.sources.hub import open_hub
from packtrain_tools.sources.readers import Reader

SMALL_BYTES = 1 << 20
HELD_OUT = 20  # one of this number of examples
CHUNK = 1 << 20


@dataclass(frozen=True)
class Stores:
    train: str
    validation: str

    def read(self) -> dict:
        with open(os.path.join(self.train, MANIFEST), encoding="utf-8") as stream:
            return json.load(stream)

    @property
    def are_there(self) -> bool:
        return all(os.path.isfile(os.path.join(store, MANIFEST)) for store in (self.train, self.validation))


def _digest_file(path: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _digest(files: list[SourceFile]) -> list:
    """The path of each file with its digest. A data set of the hub has one of its own."""
    return [[file.path, open_hub(file.path)._fingerprint if file.kind == HUB else _digest_file(file.path)]
            for file in files]


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
    files, _ = list_files(sources)
    if sum(file.num_bytes for file in files) == 0:
        raise ToolError(f"{', '.join(sources)}: no data is there", exit_code=DATA)
    names = [name for name in TOKENIZER_FILES if os.path.isfile(os.path.join(tokenizer, name))]
    kept = [[name, _digest_file(os.path.join(tokenizer, name))] for name in names]
    options = options + _held_out(options, files)
    description = json.dumps([FORMAT_VERSION, _digest(files), kept, options])
    place = os.path.join(folder, hashlib.blake2b(description.encode(), digest_size=6).hexdigest())
    stores = Stores(os.path.join(place, "train"), os.path.join(place, "validation"))
    if not stores.are_there:
        run_program(program, ["prepare", *sources, "--samples", "1", *options, "--tokenizer", tokenizer,
                              "--out", stores.train, "--validation-out", stores.validation])
    return stores
