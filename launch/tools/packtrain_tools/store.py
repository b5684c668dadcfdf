"""Writes token stores, in the format that framework/data/token_store.h describes and
framework/data/store_writer.cpp writes from C++."""

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field

import numpy as np
from safetensors.numpy import save

from packtrain_tools.encoding import Example
from packtrain_tools.errors import ToolError

FORMAT_VERSION = 1
MANIFEST = "store.json"
TOKENIZER_FOLDER = "tokenizer"
MAX_SHARD_TOKENS = 1 << 26
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                   "added_tokens.json", "chat_template.jinja", "vocab.json", "merges.txt",
                   "vocab.txt", "tokenizer.model")
_PART = re.compile(rf"part-\d{{5,}}\.safetensors|{MANIFEST}(\.tmp)?|{TOKENIZER_FOLDER}")


@dataclass
class _Columns:
    """The examples of the shard that is being filled."""

    input_ids: list[np.ndarray] = field(default_factory=list)
    loss_mask: list[np.ndarray] = field(default_factory=list)
    num_loss_tokens: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    num_tokens: int = 0


class StoreWriter:
    """One store; `finish` makes it complete, without it the folder is no store."""

    def __init__(self, folder: str, tokenizer: str, vocab_size: int, sources: list[str],
                 overwrite: bool, max_shard_tokens: int = MAX_SHARD_TOKENS):
        self.folder = folder
        self._max_shard_tokens = max_shard_tokens
        _clear_folder(folder, overwrite)
        self._info = {
            "format_version": FORMAT_VERSION,
            "tokenizer": TOKENIZER_FOLDER,
            "tokenizer_name": _as_text(tokenizer),
            "tokenizer_hash": _copy_tokenizer(tokenizer, os.path.join(folder, TOKENIZER_FOLDER)),
            "vocab_size": vocab_size,
            "sources": [_as_text(source) for source in sources],
            "num_examples": 0,
            "num_tokens": 0,
            "num_loss_tokens": 0,
            "shards": [],
        }
        self._columns = _Columns()
        self._lengths: list[np.ndarray] = []

    def add(self, example: Example):
        columns = self._columns
        columns.input_ids.append(example.input_ids)
        columns.loss_mask.append(example.loss_mask)
        # The first token of an example has no predecessor and never counts.
        columns.num_loss_tokens.append(int(np.count_nonzero(example.loss_mask[1:])))
        columns.source.append(example.source)
        columns.num_tokens += len(example.input_ids)
        if columns.num_tokens >= self._max_shard_tokens:
            self._write_shard()

    def _write_shard(self):
        columns = self._columns
        lengths = np.array([len(ids) for ids in columns.input_ids], np.int64)
        tensors = {
            "input_ids": np.concatenate(columns.input_ids, dtype=np.int32),
            "offsets": np.concatenate([[0], np.cumsum(lengths)], dtype=np.int64),
            "loss_mask": np.concatenate(columns.loss_mask, dtype=np.uint8),
            "num_loss_tokens": np.array(columns.num_loss_tokens, np.int32),
            "source": np.array(columns.source, np.int16),
        }
        name = f"part-{len(self._info['shards']):05}.safetensors"
        _write_synced(os.path.join(self.folder, name), save(tensors))
        self._info["shards"].append(
            {"file": name, "num_examples": len(lengths), "num_tokens": columns.num_tokens})
        self._info["num_examples"] += len(lengths)
        self._info["num_tokens"] += columns.num_tokens
        self._info["num_loss_tokens"] += sum(columns.num_loss_tokens)
        self._lengths.append(lengths)
        self._columns = _Columns()

    def finish(self) -> dict:
        """Writes store.json last and returns what a summary prints."""
        if self._columns.source:
            self._write_shard()
        if not self._lengths:
            raise ToolError(f"{self.folder}: no example was left to put into it")
        path = os.path.join(self.folder, MANIFEST)
        _write_synced(path + ".tmp", (json.dumps(self._info, indent=2) + "\n").encode())
        os.replace(path + ".tmp", path)
        _sync_folder(self.folder)
        lengths = np.concatenate(self._lengths)
        return {
            "path": self.folder,
            "num_examples": self._info["num_examples"],
            "num_tokens": self._info["num_tokens"],
            "num_loss_tokens": self._info["num_loss_tokens"],
            "vocab_size": self._info["vocab_size"],
            "length": {
                "min": int(lengths.min()),
                "median": float(np.median(lengths)),
                "mean": float(lengths.mean()),
                "p99": float(np.percentile(lengths, 99)),
                "max": int(lengths.max()),
            },
        }


def _as_text(path: str) -> str:
    """A path may be any bytes; store.json is UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _clear_folder(folder: str, overwrite: bool):
    """Leaves `folder` existing and empty; removes a store, or what is left of one, only."""
    os.makedirs(folder, exist_ok=True)
    names = sorted(os.listdir(folder))
    if names and not overwrite:
        raise ToolError(f"{folder}: exists and is not empty",
                        "Give another folder, or --overwrite to replace the store in it.")
    for name in names:
        if not _PART.fullmatch(name):
            raise ToolError(f"{folder}: holds '{name}', which is no part of a token store",
                            "Only a folder that holds nothing but a store can be overwritten.")
    # The manifest first: a folder half removed is no store.
    for name in sorted(names, key=lambda name: name != MANIFEST):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _copy_tokenizer(source: str, folder: str) -> str:
    """Returns the SHA-256 of tokenizer.json."""
    os.makedirs(folder)
    for name in TOKENIZER_FILES:
        path = os.path.join(source, name)
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                _write_synced(os.path.join(folder, name), stream.read())
    _sync_folder(folder)
    with open(os.path.join(folder, "tokenizer.json"), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_synced(path: str, data: bytes):
    with open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: str):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
