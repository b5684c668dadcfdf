"""The stores of `packtrain tune`: prepared once for the same data, tokenizer and options."""

import hashlib
import json
import os
from dataclasses import dataclass

from packtrain_tools.errors import DATA, ToolError
from packtrain_tools.prepare.store import FORMAT_VERSION, MANIFEST, TOKENIZER_FILES
from packtrain_tools.program import run_program
from packtrain_tools.sources.files import HUB_PREFIX, list_files

SMALL_BYTES = 1 << 20
BYTES_OF_ONE = 8_000  # of small data: one example is held out for this number of bytes
FRACTION = "0.05"
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


def _digest_source(source: str) -> tuple[list, int]:
    """Digests of its files, and their bytes."""
    if source.startswith(HUB_PREFIX):
        from packtrain_tools.sources.hub import hub_size, open_hub
        return [source, open_hub(source)._fingerprint], hub_size(source)
    files, _ = list_files([source])
    return [[file.path, _digest_file(file.path)] for file in files], sum(file.num_bytes for file in files)


def _held_out(options: list[str], num_bytes: int) -> list[str]:
    """A twentieth is held out. That might be nothing of small data, so there it is a number of examples."""
    if any(word.startswith("--validation-") for word in options):
        return []
    if num_bytes < SMALL_BYTES:
        return ["--validation-examples", str(max(1, num_bytes // BYTES_OF_ONE))]
    return ["--validation-fraction", FRACTION]


def prepare_stores(program: str, sources: list[str], tokenizer: str, options: list[str], folder: str) -> Stores:
    """Uses the stores of an earlier call where data, tokenizer and options are the same."""
    digests, num_bytes = [], 0
    for source in sources:
        found, size = _digest_source(source)
        digests.append(found)
        num_bytes += size
    if num_bytes == 0:
        raise ToolError(f"{', '.join(sources)}: no data is there", exit_code=DATA)
    names = [name for name in TOKENIZER_FILES if os.path.isfile(os.path.join(tokenizer, name))]
    kept = [[name, _digest_file(os.path.join(tokenizer, name))] for name in names]
    options = options + _held_out(options, num_bytes)
    key = hashlib.blake2b(json.dumps([FORMAT_VERSION, digests, kept, options]).encode(), digest_size=6).hexdigest()
    place = os.path.join(folder, key)
    stores = Stores(os.path.join(place, "train"), os.path.join(place, "validation"))
    if not stores.are_there:
        run_program(program, ["prepare", *sources, "--samples", "1", *options, "--tokenizer", tokenizer,
                              "--out", stores.train, "--validation-out", stores.validation])
    return stores
