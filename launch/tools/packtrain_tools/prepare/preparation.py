"""A run of `prepare`: chunks in, stores out, and how far it has come on disk, so that the same
command goes on where one was stopped or died. A store has no store.json until all is done."""

import hashlib
import itertools
import json
import os
import signal
import sys
import time

from packtrain_tools.sources.bad_lines import BadLines
from packtrain_tools.prepare.encoding import Encoder, EncodedChunk
from packtrain_tools.errors import STOPPED, ToolError
from packtrain_tools.prepare.examples import Examples
from packtrain_tools.prepare.processes import encode_all
from packtrain_tools.progress import Progress
from packtrain_tools.sources.readers import Reader
from packtrain_tools.prepare.shard_file import write_json
from packtrain_tools.sources.files import SourceFile
from packtrain_tools.prepare.splitting import HoldFraction, HoldNumber, Seen
from packtrain_tools.prepare.store import (MANIFEST, TOKENIZER_FILES, UNFINISHED, StoreWriter, discard,
                                   new_store, remove_unfinished, restore_examples, save_examples)

SECONDS_BETWEEN_SAVES = 60.0
# What may differ from the command that is gone on with.
FREE_ARGUMENTS = ("processes", "json", "samples", "overwrite")


class Preparation:
    def __init__(self, arguments, encoder: Encoder, files: list[SourceFile]):
        self._arguments = arguments
        self._encoder = encoder
        self._files = files
        self._folders = [arguments.out] + ([arguments.validation_out]
                                           if arguments.validation_out else [])
        self._request = request_of(arguments, files)
        self._bad_lines = BadLines(arguments.skip_bad_lines, arguments.max_bad_fraction,
                                   arguments.out)
        self._seen = Seen() if arguments.deduplicate else None
        self._holder = _holder(arguments)
        self._num_chunks = 0
        self._num_examples = 0
        self._num_skipped = 0
        self._num_saves = 0
        self._stores = self._restore() or self._begin()

    def _begin(self) -> list[StoreWriter]:
        stores: list[StoreWriter] = []
        try:
            for folder in self._folders:
                stores.append(StoreWriter(folder, self._new_store(folder)))
        except Exception:
            for store in stores:
                discard(store.folder)
            raise
        return stores

    def _new_store(self, folder: str) -> dict:
        arguments = self._arguments
        return new_store(folder, arguments.tokenizer, self._encoder.vocab_size, arguments.sources,
                         arguments.overwrite, arguments.chat_template)

    def _restore(self) -> list[StoreWriter] | None:
        state = read_unfinished(self._folders[0])
        if state is None or (state["request"] != self._request and self._arguments.overwrite):
            return None
        if state["request"] != self._request:
            raise ToolError(f"{self._folders[0]}: holds what another command, or one with other "
                            "sources, has not finished",
                            "The same command goes on with it; --overwrite replaces it.")
        stores = [StoreWriter(folder, {}) for folder in self._folders]
        for store, saved in zip(stores, state["stores"]):
            store.restore(saved)
        pool = restore_examples(self._folders[0], state["pool"])
        if isinstance(self._holder, HoldNumber):
            self._holder.pool = pool
        if self._seen:
            for examples in pool:
                self._seen.add(examples.digests)
            self._seen.num_duplicates = state["num_duplicates"]
        self._bad_lines.restore(state["bad_lines"])
        self._num_chunks, self._num_saves = state["num_chunks"], state["num_saves"]
        self._num_examples, self._num_skipped = state["num_examples"], state["num_skipped"]
        print(f"packtrain prepare: goes on after {self._num_examples:,} examples", file=sys.stderr)
        return stores

    def _save(self):
        """Everything so far, atomically: the names of its files change with each save."""
        self._num_saves += 1
        pool = self._holder.pool if isinstance(self._holder, HoldNumber) else []
        state = {
            "request": self._request,
            "num_saves": self._num_saves,
            "num_chunks": self._num_chunks,
            "num_examples": self._num_examples,
            "num_skipped": self._num_skipped,
            "num_duplicates": self._seen.num_duplicates if self._seen else 0,
            "bad_lines": self._bad_lines.save(),
            "pool": save_examples(self._folders[0], f"pool{self._num_saves}", pool),
            "stores": [store.save(self._num_saves) for store in self._stores],
        }
        write_json(self._folders[0], UNFINISHED, state)
        for folder, store in zip(self._folders, state["stores"]):
            remove_unfinished(folder, [UNFINISHED, state["pool"], store["waiting"]])

    def run(self) -> dict:
        """Returns the summary. Raises ToolError, with STOPPED after a signal to stop. What failed
        before anything was saved leaves nothing in the way of the next attempt."""
        try:
            self._encode()
            return self._finish()
        except Exception:
            if not self._num_saves:
                for folder in self._folders:
                    discard(folder)
            raise

    def _encode(self):
        progress = Progress(sum(file.num_bytes for file in self._files), self._num_examples)
        chunks = itertools.islice(Reader(self._files, self._arguments.separator).chunks(),
                                  self._num_chunks, None)
        next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
        try:
            with StopSignals() as stop:
                for chunk in encode_all(self._encoder, chunks, self._arguments.processes):
                    examples = self._take(chunk)
                    progress.add(chunk.num_read_bytes, examples.num_examples, examples.num_tokens)
                    if self._num_left() == 0:
                        break
                    if stop.asked or time.monotonic() >= next_save:
                        self._save()
                        next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
                    if stop.asked:
                        raise ToolError(f"stopped after {self._num_examples:,} examples",
                                        "The same command goes on from here.", STOPPED)
        finally:
            progress.close()

    def _num_left(self) -> int:
        return (self._arguments.max_examples or sys.maxsize) - self._num_examples

    def _take(self, chunk: EncodedChunk) -> Examples:
        self._num_chunks += 1
        self._num_skipped += chunk.num_skipped
        self._bad_lines.count(chunk.num_records)
        for record, bad in chunk.bad:
            self._bad_lines.add(record, bad)
        examples = chunk.examples
        if self._seen:
            examples = self._seen.new_ones(examples)
        examples = examples.first(self._num_left())
        self._num_examples += examples.num_examples
        self._add(*(self._holder.split(examples) if self._holder else (examples, None)))
        return examples

    def _add(self, training: Examples, validation: Examples | None):
        self._stores[0].add(training)
        if validation is not None:
            self._stores[1].add(validation)

    def _finish(self) -> dict:
        if isinstance(self._holder, HoldNumber) and self._holder.pool:
            self._add(*self._holder.finish())
        self._bad_lines.finish()
        # The training store last: with it all is done.
        validation = [store.finish() for store in self._stores[1:]]
        stores = [self._stores[0].finish(self._bad_lines.num_bad), *validation]
        for folder in self._folders:
            remove_unfinished(folder, [])
        return {"stores": stores, "num_skipped": self._num_skipped,
                "num_duplicates": self._seen.num_duplicates if self._seen else 0,
                "num_bad_lines": self._bad_lines.num_bad}


class StopSignals:
    """The first SIGINT or SIGTERM asks to stop at the next chunk; another one ends at once."""

    def __enter__(self) -> "StopSignals":
        self.asked = False
        self._before = {number: signal.signal(number, self._ask)
                        for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _ask(self, number, frame):
        self.asked = True
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)

    def __exit__(self, *unused):
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _holder(arguments) -> HoldFraction | HoldNumber | None:
    if arguments.validation_fraction is not None:
        return HoldFraction(arguments.validation_fraction, arguments.seed)
    if arguments.validation_examples is not None:
        return HoldNumber(arguments.validation_examples, arguments.seed)
    return None


def request_of(arguments, files: list[SourceFile]) -> str:
    """A hash of all that the stores depend on."""
    asked = {name: value for name, value in vars(arguments).items() if name not in FREE_ARGUMENTS}
    stamps = [(file.path, file.num_bytes,
               os.stat(file.path).st_mtime_ns if os.path.exists(file.path) else 0)
              for file in files]
    text = json.dumps([asked, stamps, [_digest(os.path.join(arguments.tokenizer, name))
                                       for name in TOKENIZER_FILES],
                       _digest(arguments.chat_template or "")], default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _digest(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_unfinished(folder: str) -> dict | None:
    """Nothing where none was saved, or all is done."""
    path = os.path.join(folder, UNFINISHED)
    if not os.path.isfile(path) or os.path.isfile(os.path.join(folder, MANIFEST)):
        return None
    with open(path, encoding="utf-8") as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ToolError(f"{path}: is no valid JSON: {error}",
                            "Remove the folder, and start anew.") from None
