"""Writes token stores, in the format that framework/data/token_store.h describes and
framework/data/store_writer.cpp writes from C++."""

import hashlib
import os
import re
import shutil

import numpy as np

from packtrain_tools.sources import bad_lines
from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.examples import Examples, hashes_of_ids
from packtrain_tools.prepare.loss_weights import WEIGHTED, weight_table
from packtrain_tools.prepare.shard_file import (read_contents, read_lengths, read_shard, sync_folder,
                                        write_json, write_shard, write_synced,
                                        write_unselected)

FORMAT_VERSION = 1
MANIFEST = "store.json"
UNFINISHED = "unfinished.json"  # preparation.py
GROUPS = "groups"  # of store.json; its readers must know it
TOKEN_COLUMNS = "token_columns"  # names of float columns, in store.json; its readers must know it
TOKENIZER_FOLDER = "tokenizer"
MAX_SHARD_TOKENS = 1 << 26
CHAT_TEMPLATE = "chat_template.jinja"
MORE_TEMPLATES = "additional_chat_templates"  # a folder, as transformers saves it
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                   "added_tokens.json", CHAT_TEMPLATE, "vocab.json", "merges.txt",
                   "vocab.txt", "tokenizer.model")
_UNFINISHED_PART = re.compile(r"unfinished(-\w+\.safetensors|\.json(\.tmp)?)")
# `packtrain score` keeps log-probabilities of the store in it.
_SCORES = r"log-probs-\w+\.safetensors(\.tmp|\.part-\d+-\d+)?"
_FINISHED = re.compile(rf"part-\d{{5,}}\.safetensors|{_SCORES}|{MANIFEST}(\.tmp)?")
_PART = re.compile(rf"{_FINISHED.pattern}|{TOKENIZER_FOLDER}|{bad_lines.NAME}|"
                   rf"{_UNFINISHED_PART.pattern}")


class StoreWriter:
    """Writes one store. `finish` completes it; without it the folder is no store."""

    def __init__(self, folder: str, info: dict, max_shard_tokens: int = MAX_SHARD_TOKENS,
                 keep_hashes: bool = False):
        """`info`: the content of store.json, from new_store or an earlier `state`. `keep_hashes`: for
        `count_overlaps`, 8 bytes of memory an example."""
        self.folder = folder
        self._max_shard_tokens = max_shard_tokens
        self._info = info
        self._waiting: list[Examples] = []  # for the shard that is being filled
        self._num_waiting_tokens = 0
        self._lengths: list[np.ndarray] = []
        self._hashes: list[np.ndarray] | None = [] if keep_hashes else None
        self._has_weights = False

    def add(self, examples: Examples):
        """A shard ends at the example that fills it, or its group, independent of how examples arrive.
        `examples` are whole groups."""
        while self._num_waiting_tokens + examples.num_tokens >= self._max_shard_tokens:
            ends = self._num_waiting_tokens + np.cumsum(examples.lengths, dtype=np.int64)
            first_after = 1 + int(np.searchsorted(ends, self._max_shard_tokens))
            while first_after < examples.num_examples and not examples.begins[first_after]:
                first_after += 1  # no shard divides a group
            is_before = np.arange(examples.num_examples) < first_after
            self._keep(examples.take(is_before))
            self._write_shard()
            examples = examples.take(~is_before)
        self._keep(examples)

    def _keep(self, examples: Examples):
        if examples.num_examples:
            self._waiting.append(examples)
            self._num_waiting_tokens += examples.num_tokens

    def _write_shard(self):
        name = f"part-{len(self._info['shards']):05}.safetensors"
        groups = self._info.get(GROUPS)
        digest = write_shard(os.path.join(self.folder, name), self._waiting, groups)
        lengths = np.concatenate([examples.lengths for examples in self._waiting])
        for examples in self._waiting:
            self._note_ids(examples.input_ids, examples.lengths)
            self._has_weights |= bool((examples.loss_mask > 1).any())
        labels = [int(bound(examples.num_loss_tokens)) for bound in (np.min, np.max)
                  for examples in self._waiting]
        self._info["shards"].append({
            "file": name, "num_examples": len(lengths), "num_tokens": self._num_waiting_tokens,
            "lengths": [int(lengths.min()), int(lengths.max())],
            "labels": [min(labels), max(labels)],
            "mask_bytes": count_bytes([examples.loss_mask for examples in self._waiting]),
            "digest": digest})
        if groups is not None:
            num_groups = sum(examples.num_groups for examples in self._waiting)
            self._info["shards"][-1]["num_groups"] = num_groups
            groups["num_groups"] += num_groups
        self._info["num_examples"] += len(lengths)
        self._info["num_tokens"] += self._num_waiting_tokens
        self._info["num_loss_tokens"] += sum(int(examples.num_loss_tokens.sum())
                                             for examples in self._waiting)
        self._lengths.append(lengths)
        self._waiting, self._num_waiting_tokens = [], 0

    def _note_ids(self, input_ids: np.ndarray, lengths: np.ndarray):
        if self._hashes is not None:
            self._hashes.append(hashes_of_ids(input_ids, lengths))

    def save(self, number: int) -> dict:
        """Writes all added examples to disk and returns the input of `restore`. `number`: of the save."""
        waiting = save_examples(self.folder, f"waiting{number}", self._waiting)
        sync_folder(self.folder)
        return {"info": self._info, "has_weights": self._has_weights, "waiting": waiting}

    def restore(self, state: dict):
        """Restores the result of `save` of another process."""
        self._info, self._has_weights = state["info"], state["has_weights"]
        remove_files(self.folder, [shard["file"] for shard in self._info["shards"]], _FINISHED)
        for shard in self._info["shards"]:
            path = os.path.join(self.folder, shard["file"])
            if self._hashes is None:
                self._lengths.append(read_lengths(path))
                continue
            input_ids, lengths = read_contents(path)
            self._lengths.append(lengths)
            self._note_ids(input_ids, lengths)
        for examples in restore_examples(self.folder, state["waiting"]):
            self._keep(examples)

    @property
    def is_empty(self) -> bool:
        return not self._lengths and not self._waiting

    def write_rest(self):
        """Writes the waiting examples, when no more will come."""
        if self._waiting:
            self._write_shard()
        if not self._lengths:
            raise ToolError(f"{self.folder}: no example was left to put into it",
                            "Check the sources, and the options that select examples.")

    def count_overlaps(self, other: "StoreWriter") -> int:
        """Number of examples here whose ids also occur there. Call it when both are complete."""
        return int(np.isin(np.concatenate(self._hashes), np.concatenate(other._hashes)).sum())

    def finish(self, num_bad_lines: int = 0, optional: dict | None = None) -> dict:
        """Writes store.json last and returns the values of a summary. `num_bad_lines`: lines of the
        sources that were left out. `optional`: more keys of store.json."""
        self.write_rest()
        self._info["num_bad_lines"] = num_bad_lines
        self._info |= optional or {}
        if self._has_weights:
            self._info |= {WEIGHTED: weight_table()}
        requires = [name for name in (WEIGHTED, GROUPS, TOKEN_COLUMNS) if name in self._info]
        if requires:
            self._info["requires"] = requires
        write_json(self.folder, MANIFEST, self._info)
        lengths = np.concatenate(self._lengths)
        return {
            "path": self.folder,
            "num_examples": self._info["num_examples"],
            "num_tokens": self._info["num_tokens"],
            "num_loss_tokens": self._info["num_loss_tokens"],
            "vocab_size": self._info["vocab_size"],
            **({GROUPS: self._info[GROUPS]} if GROUPS in self._info else {}),
            "length": {
                "min": int(lengths.min()),
                "median": float(np.median(lengths)),
                "mean": float(lengths.mean()),
                "p99": float(np.percentile(lengths, 99)),
                "max": int(lengths.max()),
            },
            "histogram": histogram(lengths),
        }


def count_bytes(masks: list[np.ndarray]) -> list[int]:
    """The number of occurrences of each value, up to the largest."""
    counts = np.zeros(256, np.int64)
    for mask in masks:
        counts += np.bincount(mask, minlength=256)
    return np.trim_zeros(counts, "b").tolist()


def histogram(lengths: np.ndarray) -> list[dict]:
    """Bins of doubling width, as in `packtrain plan`."""
    bins = []
    exponents = np.frexp(lengths)[1]  # of 1: 1, of 2 and 3: 2, ...
    for exponent in range(int(exponents.min()), int(exponents.max()) + 1):
        inside = exponents == exponent
        bins.append({"min_tokens": 1 << exponent >> 1, "max_tokens": (1 << exponent) - 1,
                     "num_examples": int(inside.sum()),
                     "num_tokens": int(lengths[inside].sum(dtype=np.int64))})
    return bins


def save_examples(folder: str, name: str, parts: list[Examples]) -> str:
    """Returns the file's name, or "" without examples."""
    if not parts:
        return ""
    file = f"unfinished-{name}.safetensors"
    write_unselected(os.path.join(folder, file), parts)
    return file


def restore_examples(folder: str, file: str) -> list[Examples]:
    return [read_shard(os.path.join(folder, file))] if file else []


def new_store(folder: str, tokenizer: str, vocab_size: int, sources: list[str], overwrite: bool,
              chat_template: str | None = None, groups: dict | None = None) -> dict:
    """Makes the folder with the tokenizer and returns the `info` of a StoreWriter. `chat_template`: a file
    that replaces the tokenizer's template. `groups`: `kind`, `has_margins` and
    `token_columns` of a store of groups."""
    _clear_folder(folder, overwrite)
    return {
        "format_version": FORMAT_VERSION,
        "tokenizer": TOKENIZER_FOLDER,
        "tokenizer_name": _as_text(tokenizer),
        "tokenizer_hash": _copy_tokenizer(tokenizer, os.path.join(folder, TOKENIZER_FOLDER),
                                          chat_template),
        "vocab_size": vocab_size,
        "sources": [_as_text(source) for source in sources],
        "num_examples": 0,
        "num_tokens": 0,
        "num_loss_tokens": 0,
        "num_bad_lines": 0,
        **({GROUPS: {"kind": groups["kind"], "num_groups": 0, "has_margins": groups["has_margins"]}}
           if groups else {}),
        **({TOKEN_COLUMNS: sorted(groups[TOKEN_COLUMNS])} if groups and groups[TOKEN_COLUMNS] else {}),
        "shards": [],
    }


def _as_text(path: str) -> str:
    """Converts a path to UTF-8 for store.json; a path may be any bytes."""
    return os.fsencode(path).decode(errors="replace")


def _clear_folder(folder: str, overwrite: bool):
    """Makes `folder` exist and empty. Removes only a store, or the rest of one."""
    os.makedirs(folder, exist_ok=True)
    names = sorted(os.listdir(folder))
    # A folder with only a list of bad lines is from an attempt with too many of them.
    if names and names != [bad_lines.NAME] and not overwrite:
        raise ToolError(f"{folder}: exists and is not empty",
                        "Give another folder, or --overwrite to replace the store in it.")
    for name in names:
        if not _PART.fullmatch(name):
            raise ToolError(f"{folder}: holds '{name}', which is no part of a token store",
                            "Only a folder that holds nothing but a store can be overwritten.")
    remove_files(folder, [], _PART)


def discard(folder: str):
    """Removes the files of a failed attempt, except its list of bad lines."""
    remove_files(folder, [bad_lines.NAME], _PART)


def remove_unfinished(folder: str, keep: list[str]):
    remove_files(folder, keep, _UNFINISHED_PART)


def remove_files(folder: str, keep: list[str], only: re.Pattern):
    """Removes the manifest first, so that a partly removed folder is no store."""
    names = [name for name in os.listdir(folder) if only.fullmatch(name) and name not in keep]
    for name in sorted(names, key=lambda name: (name != MANIFEST, name != UNFINISHED)):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _copy_tokenizer(source: str, folder: str, chat_template: str | None) -> str:
    """Returns the SHA-256 of tokenizer.json."""
    os.makedirs(folder)
    for name in TOKENIZER_FILES:
        path = os.path.join(source, name)
        if name == CHAT_TEMPLATE and chat_template:
            path = chat_template
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                write_synced(os.path.join(folder, name), stream.read())
    if not chat_template:
        _copy_templates(os.path.join(source, MORE_TEMPLATES), os.path.join(folder, MORE_TEMPLATES))
    sync_folder(folder)
    with open(os.path.join(folder, "tokenizer.json"), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _copy_templates(source: str, folder: str):
    """Templates for other uses, such as tools, which an export with the store's tokenizer also needs."""
    names = [name for name in sorted(os.listdir(source)) if name.endswith(".jinja")] if os.path.isdir(source) else []
    if names:
        os.makedirs(folder)
    for name in names:
        with open(os.path.join(source, name), "rb") as stream:
            write_synced(os.path.join(folder, name), stream.read())
