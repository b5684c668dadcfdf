"""Requests for log-likelihoods as examples of a token store, and their results."""

import os
from collections.abc import Sequence

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from packtrain_tools.prepare.examples import make_examples
from packtrain_tools.prepare.store import FORMAT_VERSION, StoreWriter

EXAMPLES_AT_ONCE = 4096  # of the store, in Python objects


class Forwards:
    """The distinct inputs of the model. Continuations that differ in their last token share one: that token is a
    candidate after the input's end, and never an input."""

    def __init__(self, max_length: int):
        self._max_length = max_length
        self._numbers: dict[tuple[int, ...], int] = {}  # of inputs
        self._inputs: list[tuple[int, ...]] = []
        self._num_labels: list[int] = []  # at the end of each input, of the longest continuation
        self._candidates: list[dict[int, int]] = []  # of each input: the place of each id
        self._places: list[tuple[int, int, int]] = []  # of each request: input, labels, place of its last token

    def add(self, context: Sequence[int], continuation: Sequence[int]):
        """The context is cut on the left where both are longer than `max_length` and the last token."""
        inputs = (*context, *continuation)[-(self._max_length + 1):][:-1]
        num_labels = len(continuation) - 1
        if not inputs or num_labels < 0 or num_labels >= len(inputs):
            raise ValueError(f"a context of {len(context)} tokens and a continuation of {len(continuation)} have no "
                             f"place in {self._max_length} tokens")
        number = self._numbers.setdefault(inputs, len(self._inputs))
        if number == len(self._inputs):
            self._inputs.append(inputs)
            self._num_labels.append(0)
            self._candidates.append({})
        self._num_labels[number] = max(self._num_labels[number], num_labels)
        candidates = self._candidates[number]
        self._places.append((number, num_labels, candidates.setdefault(continuation[-1], len(candidates))))

    @property
    def longest(self) -> int:
        return max(map(len, self._inputs), default=0)

    def write(self, store: str, candidates: str, vocab_size: int):
        """Writes the store, a folder, and its candidates, a file."""
        os.makedirs(store)
        writer = StoreWriter(store, {
            "format_version": FORMAT_VERSION, "tokenizer": "", "tokenizer_name": "", "tokenizer_hash": "",
            "vocab_size": vocab_size, "sources": ["requests"], "num_examples": 0, "num_tokens": 0,
            "num_loss_tokens": 0, "num_bad_lines": 0, "shards": []})
        inputs, num_labels = self._examples()
        for begin in range(0, len(inputs), EXAMPLES_AT_ONCE):
            rows = [list(ids) for ids in inputs[begin:begin + EXAMPLES_AT_ONCE]]
            masks = [np.arange(len(row)) >= len(row) - labels
                     for row, labels in zip(rows, num_labels[begin:begin + EXAMPLES_AT_ONCE])]
            writer.add(make_examples(rows, [mask.astype(np.uint8) for mask in masks], [0] * len(rows)))
        writer.finish()
        counts = [len(one) for one in self._candidates] + [0] * (len(inputs) - len(self._inputs))
        ids = [token for one in self._candidates for token in one]
        save_file({"offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                   "ids": np.array(ids, np.int32)}, candidates)

    def _examples(self) -> tuple[list[tuple[int, ...]], list[int]]:
        """A store needs a label. One more example has it where all continuations have one token."""
        if any(self._num_labels):
            return self._inputs, self._num_labels
        return [*self._inputs, (0, 0)], [*self._num_labels, 1]

    def read(self, scores: str) -> list[tuple[float, bool]]:
        """Log-likelihood of each request's continuation, and whether all its tokens are greedy. `scores`: the file of
        `packtrain score --log-probs`."""
        with safe_open(scores, framework="numpy") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        ends = found["offsets"][1:].tolist()
        firsts = found["candidate_offsets"].tolist()
        results = []
        for number, num_labels, place in self._places:
            labels = slice(ends[number] - num_labels, ends[number])
            last = firsts[number] + place
            total = found["log_probs"][labels].sum(dtype=np.float64) + found["candidate_log_probs"][last]
            greedy = found["greedy"][labels].all() and found["candidate_greedy"][last] != 0
            results.append((float(total), bool(greedy)))
        return results
