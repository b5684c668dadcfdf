"""Finds or makes the Hugging Face folders that `packtrain chat` talks to."""

import os
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, DATA, ToolError
from packtrain_tools.json_object import read_object
from packtrain_tools.program import run_program
from packtrain_tools.run_config import read_run, section, stores_of
from packtrain_tools.prepare.store import MANIFEST as STORE_MANIFEST

ADAPTER = "adapter_config.json"
MODEL = "config.json"


@dataclass(frozen=True)
class Folders:
    model: str
    base: str | None  # what it was trained from, where that is known


def has(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def tokenizer_of_run(config: dict) -> str | None:
    """That of the first store, which has the chat template of the data, or else that of the model."""
    for store in stores_of(config):
        if has(store, STORE_MANIFEST) and has(f"{store}/tokenizer", "tokenizer.json"):
            return f"{store}/tokenizer"
    path = section(config, "model").get("path")
    return path if path and has(str(path), "tokenizer.json") else None


def trains_adapter(config: dict) -> bool:
    return section(config, "adapter").get("kind") == "lora" or bool(config.get("adapters"))


def base_of_run(config: dict) -> str | None:
    path = section(config, "model").get("path")
    return path if path and has(str(path), MODEL) else None


def _export(program: str, source: str, adapter: str | None, best: bool, out: str) -> Folders:
    """`source`: a run's folder, or one of its checkpoints."""
    config = read_run(source) or read_run(os.path.dirname(os.path.dirname(os.path.abspath(source))))
    tokenizer = tokenizer_of_run(config)
    words = ["export", source, "--out", out, *(["--best"] if best else [])]
    words += ["--tokenizer", tokenizer] if tokenizer else []
    if trains_adapter(config):
        words += ["--merge", *(["--adapter", adapter] if adapter else [])]
    elif adapter:
        raise ToolError(f"--adapter {adapter}: {source} trains a whole model", exit_code=CONFIG)
    run_program(program, words, quiet=True)
    if not has(out, "tokenizer.json"):
        raise ToolError(f"{source}: neither its stores nor its model have a tokenizer here",
                        "Export it with --tokenizer DIR, and chat with that folder.", DATA)
    return Folders(out, base_of_run(config))


def _merge(program: str, base: str, adapter: str, out: str) -> Folders:
    run_program(program, ["merge", base, adapter, "--out", out], quiet=True)
    return Folders(out, base)


def base_of_adapter(folder: str, given: str | None) -> str:
    if given:
        return given
    base = read_object(os.path.join(folder, ADAPTER), DATA).get("base_model_name_or_path")
    if not isinstance(base, str) or not has(base, MODEL):
        raise ToolError(f"{folder}: is an adapter, and the folder of its model is not here: {base!r}",
                        "Name it with --base DIR.", DATA)
    return base


def find_folders(program: str, source: str, adapter: str | None, base: str | None, best: bool, work: str) -> Folders:
    """`work`: an empty folder for what is made. `adapter`: a PEFT folder, or the name of one of several in a run.
    Raises ToolError."""
    out = os.path.join(work, "model")
    if not os.path.isdir(source):
        raise ToolError(f"{source}: is no folder", "Give a run, or a Hugging Face folder.", CONFIG)
    if has(source, ADAPTER):
        if adapter:
            raise ToolError(f"{source}: is an adapter itself, and --adapter gives another", exit_code=CONFIG)
        return _merge(program, base_of_adapter(source, base), source, out)
    if not has(source, MODEL):
        found = _export(program, source, adapter, best, out)
        return Folders(found.model, base or found.base)
    if best:
        raise ToolError(f"--best is of runs, and {source} is a model", exit_code=CONFIG)
    if adapter:
        return _merge(program, source, adapter, out)
    return Folders(source, base)
