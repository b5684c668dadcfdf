"""Reads token stores (framework/data/token_store.h) for tools that inspect tokens."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.loss_weights import WEIGHTED
from packtrain_tools.prepare.store import FORMAT_VERSION, GROUPS, MANIFEST, TOKEN_COLUMNS
import itertools

KNOWN_REQUIREMENTS = (WEIGHTED, GROUPS, TOKEN_COLUMNS)


class StoreReader:
    """The examples of a store that `packtrain prepare` finished; one shard in memory at a time."""

    def __init__(self, folder: str):
        path = os.path.join(folder, MANIFEST)
        if not os.path.isfile(path):
            raise ToolError(f"{folder}: has no {MANIFEST}", "Give a store of `packtrain prepare`.")
        with open(path, encoding="utf-8") as stream:
            self.info = json.load(stream)
        if self.info["format_version"] != FORMAT_VERSION:
            raise ToolError(f"{path}: has format version {self.info['format_version']}, "
                            f"wanted {FORMAT_VERSION}")
        unknown = [name for name in self.info.get("requires", []) if name not in KNOWN_REQUIREMENTS]
        if unknown:
            raise ToolError(f"{path}: requires {', '.join(map(repr, unknown))} of its reader, and this "
                            f"version knows only {', '.join(map(repr, KNOWN_REQUIREMENTS))}",
                            "Read it with the version of packtrain that wrote it, or a later one.")
        # By mask byte, float64; None: bytes are 0 and 1.
        self.loss_weights = np.array(self.info[WEIGHTED]) if WEIGHTED in self.info else None
        self._folder = folder

    def _shards(self) -> Iterator[dict[str, np.ndarray]]:
        for shard in self.info["shards"]:
            yield load_file(os.path.join(self._folder, shard["file"]))

    def examples(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """input_ids int32 [length] and loss_mask uint8 [length] of each example, in order."""
        for shard in self._shards():
            offsets = shard["offsets"]
            for begin, end in itertools.pairwise(offsets):
                yield shard["input_ids"][begin:end], shard["loss_mask"][begin:end]

    def example(self, number: int) -> tuple[np.ndarray, np.ndarray, int]:
        """input_ids, loss_mask and source of one example, without reading the others."""
        if not 0 <= number < self.info["num_examples"]:
            raise ToolError(f"{self._folder}: has no example {number}, only "
                            f"0..{self.info['num_examples'] - 1}", exit_code=CONFIG)
        with self._shard_of(number) as (file, number, _):
            begin, end = file.get_slice("offsets")[number:number + 2].tolist()
            return (file.get_slice("input_ids")[begin:end], file.get_slice("loss_mask")[begin:end],
                    int(file.get_slice("source")[number:number + 1][0]))

    @contextlib.contextmanager
    def _shard_of(self, number: int) -> Iterator[tuple[Any, int, int]]:
        """The open file with an example, the example's number in it, and the number of its first example."""
        first = 0
        for shard in self.info["shards"]:
            if number - first < shard["num_examples"]:
                break
            first += shard["num_examples"]
        with safe_open(os.path.join(self._folder, shard["file"]), framework="numpy") as file:
            yield file, number - first, first

    @property
    def has_groups(self) -> bool:
        return GROUPS in self.info

    def group_begins(self) -> np.ndarray:
        """int64: the first example of each group; of a plain store every example."""
        if not self.has_groups:
            return np.arange(self.info["num_examples"])
        begins, first = [], 0
        for shard in self.info["shards"]:
            with safe_open(os.path.join(self._folder, shard["file"]), framework="numpy") as file:
                begins.append(file.get_tensor("group_offsets")[:-1] + first)
            first += shard["num_examples"]
        return np.concatenate(begins)

    def first_of_group(self, number: int) -> int:
        """The first example of the group that has an example; of a plain store the example itself."""
        return self.group(number)[0]

    def group(self, number: int) -> tuple[int, list[int], float | None]:
        """The first example, the roles and the margin of the group that has an example. A plain example has
        no role."""
        if not self.has_groups:
            return number, [], None
        with self._shard_of(number) as (file, local, first):
            offsets = file.get_tensor("group_offsets")
            group = int(np.searchsorted(offsets, local, side="right")) - 1
            begin, end = offsets[group:group + 2].tolist()
            margin = float(file.get_slice("margin")[group:group + 1][0]) if self.info[GROUPS]["has_margins"] else None
            return first + begin, file.get_slice("group_role")[begin:end].tolist(), margin

    def token_columns(self, number: int) -> dict[str, np.ndarray]:
        """float32 [length] of each column of tokens of an example, by its name."""
        names = self.info.get(TOKEN_COLUMNS, [])
        if not names:
            return {}
        with self._shard_of(number) as (file, local, _):
            begin, end = file.get_slice("offsets")[local:local + 2].tolist()
            return {name: file.get_slice(f"token.{name}")[begin:end] for name in names}

    def sources(self) -> np.ndarray:
        """int16 [num_examples]"""
        columns = []
        for shard in self.info["shards"]:
            with safe_open(os.path.join(self._folder, shard["file"]), framework="numpy") as file:
                columns.append(file.get_tensor("source"))
        return np.concatenate(columns)

    def count_ids(self) -> np.ndarray:
        """The number of times each id is a label, int64 [vocab_size]."""
        counts = np.zeros(self.info["vocab_size"], np.int64)
        for shard in self._shards():
            predicted = shard["loss_mask"] != 0
            predicted[shard["offsets"][:-1]] = False  # the first token has no predecessor
            counts += np.bincount(shard["input_ids"][predicted], minlength=len(counts))
        return counts
