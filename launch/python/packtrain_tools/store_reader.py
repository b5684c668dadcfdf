"""Reads token stores (framework/data/token_store.h) for tools that inspect tokens."""

import json
import os
from collections.abc import Iterator

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.loss_weights import WEIGHTED
from packtrain_tools.prepare.store import FORMAT_VERSION, MANIFEST
import itertools

KNOWN_REQUIREMENTS = (WEIGHTED,)


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
        for shard in self.info["shards"]:
            if number < shard["num_examples"]:
                break
            number -= shard["num_examples"]
        with safe_open(os.path.join(self._folder, shard["file"]), framework="numpy") as file:
            begin, end = file.get_slice("offsets")[number:number + 2].tolist()
            return (file.get_slice("input_ids")[begin:end], file.get_slice("loss_mask")[begin:end],
                    int(file.get_slice("source")[number:number + 1][0]))

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
