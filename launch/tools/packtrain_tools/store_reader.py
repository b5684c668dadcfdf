"""Reads token stores (framework/data/token_store.h) for tools that look at their tokens."""

import json
import os
from collections.abc import Iterator

import numpy as np
from safetensors.numpy import load_file

from packtrain_tools.errors import ToolError
from packtrain_tools.store import FORMAT_VERSION, MANIFEST


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
        self._folder = folder

    def _shards(self) -> Iterator[dict[str, np.ndarray]]:
        for shard in self.info["shards"]:
            yield load_file(os.path.join(self._folder, shard["file"]))

    def examples(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """input_ids int32 [length] and loss_mask uint8 [length] of each example, in order."""
        for shard in self._shards():
            offsets = shard["offsets"]
            for begin, end in zip(offsets[:-1], offsets[1:]):
                yield shard["input_ids"][begin:end], shard["loss_mask"][begin:end]

    def count_ids(self) -> np.ndarray:
        """How often each id is to be predicted, int64 [vocab_size]."""
        counts = np.zeros(self.info["vocab_size"], np.int64)
        for shard in self._shards():
            predicted = shard["loss_mask"] == 1
            predicted[shard["offsets"][:-1]] = False  # the first token has no predecessor
            counts += np.bincount(shard["input_ids"][predicted], minlength=len(counts))
        return counts
