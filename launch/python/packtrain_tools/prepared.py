"""Stores that are made once for the same data, tokenizer and options."""

import hashlib
import json
import os

from packtrain_tools.errors import DATA, ToolError
from packtrain_tools.prepare.store import FORMAT_VERSION, MANIFEST, TOKENIZER_FILES
from packtrain_tools.program import run_program
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.hub import open_hub
from packtrain_tools.sources.source_file import HUB, SourceFile


def is_store(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, MANIFEST))


def files_of(sources: list[str]) -> list[SourceFile]:
    files, _ = list_files(sources)
    if sum(file.num_bytes for file in files) == 0:
        raise ToolError(f"{', '.join(sources)}: no data is there", exit_code=DATA)
    return files


def _digest_file(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _digest(files: list[SourceFile]) -> list:
    """The path of each file with its digest. A data set of the hub has one of its own."""
    return [[file.path, open_hub(file.path)._fingerprint if file.kind == HUB else _digest_file(file.path)]
            for file in files]


def prepared_folder(files: list[SourceFile], tokenizer: str, options: list[str], folder: str) -> str:
    """The folder in `folder` for the stores of this data, tokenizer (a folder) and options, with the contents of
    files that options name."""
    names = [name for name in TOKENIZER_FILES if os.path.isfile(os.path.join(tokenizer, name))]
    kept = [[name, _digest_file(os.path.join(tokenizer, name))] for name in names]
    values = [option.partition("=")[2] if option.startswith("--") else option for option in options]
    named = [[value, _digest_file(value)] for value in values if os.path.isfile(value)]
    description = json.dumps([FORMAT_VERSION, _digest(files), kept, options, *([named] if named else [])])
    return os.path.join(folder, hashlib.blake2b(description.encode(), digest_size=6).hexdigest())


def prepare(program: str, sources: list[str], tokenizer: str, options: list[str], outputs: list[str]):
    """Starts `packtrain prepare`. `outputs`: its options that name stores. Raises ToolError."""
    run_program(program, ["prepare", *sources, "--samples", "1", *options, "--tokenizer", tokenizer, *outputs])
