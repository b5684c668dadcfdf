"""Texts to ids, in parallel and in order: the result does not depend on the number of workers."""

import json
import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import numpy as np
import tokenizers

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources import Record, decode

CHUNK_BYTES = 1 << 18
CHUNK_RECORDS = 1024
MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Example:
    input_ids: np.ndarray  # int32 [length]
    loss_mask: np.ndarray  # uint8 [length]
    source: int


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    examples: list[Example]
    num_skipped: int  # documents with nothing to predict
    num_bytes: int


class Encoder:
    """The tokenizer of a Hugging Face folder (tokenizer.json, tokenizer_config.json)."""

    def __init__(self, folder: str):
        path = os.path.join(folder, "tokenizer.json")
        if not os.path.isfile(path):
            raise ToolError(f"{folder}: has no tokenizer.json",
                            "Give a Hugging Face folder with a fast tokenizer, or train one with "
                            "launch/tools/train_tokenizer.py.", CONFIG)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the library raises bare Exception
            raise ToolError(f"{path}: is no tokenizer: {error}", exit_code=CONFIG) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocab_size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        settings = _tokenizer_settings(folder)
        self._suffix = self._token_ids(settings, "eos_token", folder)
        self._prefix = self._token_ids(settings, "bos_token", folder)
        # A beginning-of-text token only where the tokenizer itself puts one.
        if self._tokenizer.encode("").ids[:1] != self._prefix:
            self._prefix = []

    def _token_ids(self, settings: dict, key: str, folder: str) -> list[int]:
        token = settings.get(key)
        if isinstance(token, dict):
            token = token.get("content")
        if token is None:
            return []
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ToolError(f"{folder}: {key} is '{token}', which tokenizer.json does not know",
                            exit_code=CONFIG)
        return [token_id]

    def encode(self, records: list[Record]) -> EncodedChunk:
        texts = [decode(record) for record in records]
        flat = [part for text in texts for part in (text.prompt or "", text.text)]
        encoded = self._tokenizer.encode_batch_fast(flat, add_special_tokens=False)
        examples = []
        for i, (record, text) in enumerate(zip(records, texts)):
            # Prompt and completion are encoded apart: no token lies across their boundary.
            example = self._example(record, text.prompt is not None, encoded[2 * i].ids,
                                    encoded[2 * i + 1].ids)
            if (text.prompt is not None or text.text.strip()) and example.loss_mask[1:].any():
                examples.append(example)
        num_bytes = sum(len(record.data) for record in records)
        return EncodedChunk(examples, len(records) - len(examples), num_bytes)

    def _example(self, record: Record, has_prompt: bool, prompt: list[int],
                 text: list[int]) -> Example:
        ids = self._prefix + prompt + text + self._suffix
        if len(ids) > MAX_LENGTH:
            raise ToolError(f"{record.file.path}:{record.line}: the document has {len(ids)} "
                            f"tokens, wanted at most {MAX_LENGTH}")
        mask = np.ones(len(ids), np.uint8)
        if has_prompt:
            mask[:len(self._prefix) + len(prompt)] = 0
        return Example(np.array(ids, np.int32), mask, record.file.source)


def _tokenizer_settings(folder: str) -> dict:
    path = os.path.join(folder, "tokenizer_config.json")
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            settings = json.load(stream)
    except ValueError as error:
        raise ToolError(f"{path}: is no valid JSON: {error}", exit_code=CONFIG) from None
    if not isinstance(settings, dict):
        raise ToolError(f"{path}: is no JSON object", exit_code=CONFIG)
    return settings


_encoder: Encoder | None = None  # of a worker process


def _start_worker(encoder: Encoder):
    global _encoder
    _encoder = encoder
    # One core a process: the library's own threads would only contend.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _encode(records: list[Record]) -> EncodedChunk:
    return _encoder.encode(records)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    num_bytes = 0
    for record in records:
        chunk.append(record)
        num_bytes += len(record.data)
        if num_bytes >= CHUNK_BYTES or len(chunk) >= CHUNK_RECORDS:
            yield chunk
            chunk, num_bytes = [], 0
    if chunk:
        yield chunk


def encode_all(encoder: Encoder, records: Iterable[Record],
               num_workers: int) -> Iterator[EncodedChunk]:
    """Chunks in the order of the records, a bounded number of them in memory."""
    if num_workers == 1:
        yield from map(encoder.encode, _chunks(records))
        return
    # Forked before any thread exists, workers share the loaded tokenizer.
    pool = ProcessPoolExecutor(num_workers, multiprocessing.get_context("fork"), _start_worker,
                               (encoder,))
    try:
        waiting = deque()
        for chunk in _chunks(records):
            waiting.append(pool.submit(_encode, chunk))
            if len(waiting) >= 3 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ToolError("a worker process died, perhaps for lack of memory",
                        "Try fewer with --workers.") from None
    finally:
        pool.shutdown(cancel_futures=True)
