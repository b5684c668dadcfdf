"""The `prepare` commands that the data sets of another trainer become, and data.train and data.validation."""

import os
import re
from dataclasses import dataclass, field

from packtrain_tools.importing.conversion import Conversion

STORES = "stores"
FILE_SUFFIX = re.compile(r"\.(jsonl?|csv|tsv|parquet|arrow|txt)$")
TOO_LONG = {"drop": "drop", "truncate": "truncate", "split": None, "error": None}  # data.too_long: prepare's option


@dataclass
class DataSet:
    """One entry: its source, the options of `prepare`, and the keys of the file that say so."""

    source: str
    options: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    share: float | None = None  # of the examples
    is_validation: bool = False
    command: list[str] | None = None  # another one than that of `prepare SOURCE`
    more: list[str] = field(default_factory=list)  # further files

    def add(self, *words: str):
        self.options += words


def hub_name(path: str, config: str | None = None, revision: str | None = None, split: str | None = None) -> str:
    return (f"hf:{path}" + (f"/{config}" if config else "") + (f"@{revision}" if revision else "")
            + (f":{split}" if split and split != "train" else ""))


LIBRARY_READERS = ("json", "csv", "parquet", "text", "arrow")  # of datasets.load_dataset


def is_local(path: str) -> bool:
    """A file or folder of this machine, or what can only be one."""
    return os.path.exists(path) or path.startswith((".", "/", "~")) or bool(FILE_SUFFIX.search(path))


def folder_name(source: str) -> str:
    if source.startswith("hf:"):  # without the owner
        name = re.split("[@:]", source.removeprefix("hf:"))[0].partition("/")[2]
    else:
        name = FILE_SUFFIX.sub("", source.rstrip("/")).rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "data"


def _unique(name: str, taken: set[str]) -> str:
    number = 1
    while (name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    taken.add(name if number == 1 else f"{name}-{number}")
    return name if number == 1 else f"{name}-{number}"


def convert_model(c: Conversion, key: str, revision_key: str) -> str:
    """Sets model.path and returns it. A name of the hub becomes hf:OWNER/NAME[@REVISION]."""
    name = c.keys.text(key)
    if name is None:
        c.leave("model.path", f"{key} is not there: set model.path")
        return "MODEL"
    if is_local(name) or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        c.write("model.path", name, key)
        return name
    revision = c.keys.text(revision_key)
    name = f"hf:{name}@{revision}" if revision else f"hf:{name}"
    c.write("model.path", name, key, *([revision_key] if revision else []))
    return name


def convert_length(c: Conversion, key: str, default: int | None, too_long: str, because: str = "") -> int | None:
    """Sets data.max_length and data.too_long, and returns the length."""
    length = c.keys.integer(key, 1)
    c.take("data.max_length", length, key, default)
    c.write("data.too_long", too_long, *([because] if because else []))
    return default if length is None else length


def add_lengths(c: Conversion, sets: list[DataSet]):
    """So that conversations are cut with their mask where the other trainer cuts token ids."""
    data = c.settings.get("data", {})
    option = TOO_LONG.get(data.get("too_long", "error"))
    if option and "max_length" in data:
        for one in sets:
            one.add("--max-length", str(data["max_length"]), "--too-long", option)


def set_stores(c: Conversion, sets: list[DataSet], tokenizer: str, held_out: list[str], held_keys: tuple[str, ...]):
    """Adds a command for each data set. `held_out`: options that put a part of each into validation."""
    taken: set[str] = set()
    train: list[tuple[str, DataSet]] = []
    validation: dict[str, str] = {}
    for one in sets:
        name = _unique(folder_name(one.source) + ("-validation" if one.is_validation else ""), taken)
        store = f"{STORES}/{name}"
        words = one.command or ["packtrain", "prepare", one.source, *one.more, "--tokenizer", tokenizer]
        words = [*words, *one.options, "--out", store]
        if one.is_validation:
            validation[name] = store
        else:
            train.append((store, one))
            if held_out and one.command is None:
                aside = _unique(f"{name}-validation", taken)
                words += [*held_out, "--validation-out", f"{STORES}/{aside}"]
                validation[aside] = f"{STORES}/{aside}"
        c.commands.append(words)
        if one.keys:
            c.use(tuple(one.keys), f"prepare {one.source}")
        if one.is_validation:
            held_keys = (*held_keys, *one.keys[:1])
    _set_data(c, train, validation, held_out, held_keys)


def _set_data(c: Conversion, train: list, validation: dict[str, str], held_out: list[str], held_keys: tuple[str, ...]):
    shares = [one.share for _, one in train]
    names = tuple(dict.fromkeys(one.keys[0] for _, one in train if one.keys))
    if train and all(share is not None for share in shares):
        total = sum(share for share in shares if share is not None)
        parts = [{"path": store, "probability": round((one.share or 0) / total, 6)} for store, one in train]
        c.write("data.train", parts, *names)
    elif train:
        stores = [store for store, _ in train]
        c.write("data.train", stores[0] if len(stores) == 1 else stores, *names)
    else:
        c.leave("data.train", "no data set was found: prepare a store and set data.train")
    if validation:
        value = next(iter(validation.values())) if len(validation) == 1 else validation
        c.write("data.validation", value, *held_keys, note=" ".join(held_out))


def held_out_options(size: float | None) -> list[str]:
    """Below 1 it is a share, from 1 on a number of examples."""
    if not size:
        return []
    return ["--validation-fraction", f"{size:g}"] if size < 1 else ["--validation-examples", str(int(size))]
