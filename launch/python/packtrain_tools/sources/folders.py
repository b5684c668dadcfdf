"""The files of a folder that may be data: those below it, and those of `datasets` data sets."""

import json
import os
import re

from packtrain_tools.errors import ToolError

# Files next to the data in folders made by `datasets`, Spark and similar programs, which are no data.
ABOUT = re.compile(r"(README|LICENSE|CHANGELOG)(\.(md|rst|te?xt|html))?|dataset_infos?\.json|state\.json|"
                   r"_(SUCCESS|metadata|common_metadata|(committed|started)_\w+)", re.I)


def saved_dataset(folder: str) -> list[str] | None:
    """The files of a `datasets` data set from save_to_disk, or None for another folder."""
    splits_path = os.path.join(folder, "dataset_dict.json")
    if os.path.isfile(splits_path):
        splits = _read_json(splits_path).get("splits", [])
        raise ToolError(f"{folder}: holds the splits {', '.join(map(str, splits))}",
                        f"Name one, such as {os.path.join(folder, str(splits[0]))}."
                        if splits else "")
    state_path = os.path.join(folder, "state.json")
    if not os.path.isfile(state_path):
        return None
    names = _listed_files(state_path)
    if names is None:
        raise ToolError(f"{state_path}: lists no data files, as `datasets` writes it")
    return names


def _listed_files(state_path: str) -> list[str] | None:
    try:
        return [os.path.basename(file["filename"]) for file in _read_json(state_path)["_data_files"]]
    except (KeyError, TypeError):
        return None


def _own_files(folder: str, names: list[str]) -> list[str]:
    """The names in a folder, or of a saved data set only those of its data: the others are caches of it."""
    listed = _listed_files(os.path.join(folder, "state.json")) if {"state.json", "dataset_info.json"} <= set(names) \
        else None
    return names if listed is None else listed


def _is_store(folder: str, written: set[str]) -> bool:
    """True for a folder of tokens, finished or not."""
    return os.path.realpath(folder) in written or \
        (os.path.isdir(os.path.join(folder, "tokenizer")) and
         any(os.path.isfile(os.path.join(folder, name)) for name in ("store.json", "unfinished.json")))


def _read_json(path: str):
    with open(path, encoding="utf-8") as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ToolError(f"{path}: is no valid JSON: {error}") from None


def files_below(folder: str, written: set[str]) -> list[str]:
    """Files below a folder and links to nothing, except those of hidden folders and of token stores. Follows links
    to folders, and enters each folder once."""
    def refuse(error: OSError):
        raise error

    paths = []
    entered = {os.path.realpath(folder)}
    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = [name for name in sorted(folders) if not name.startswith(".") and
                      not _is_store(os.path.join(parent, name), written) and
                      _is_new(os.path.join(parent, name), entered)]
        paths += [os.path.join(parent, name) for name in _own_files(parent, names) if not name.startswith(".")]
    return sorted(path for path in paths if os.path.isfile(path) or not os.path.exists(path))


def _is_new(folder: str, entered: set[str]) -> bool:
    """Notes the folder."""
    path = os.path.realpath(folder)
    is_new = path not in entered
    entered.add(path)
    return is_new
