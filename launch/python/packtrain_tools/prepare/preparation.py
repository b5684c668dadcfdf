"""A run of `prepare`: it reads chunks and writes stores. It saves its progress, so that the same command
continues after a stop or a crash. A store has no store.json before all is done."""

import itertools
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress

from packtrain_tools.sources.bad_lines import BadLines
from packtrain_tools.prepare.counts import OVERLAPS, in_order, sentences
from packtrain_tools.prepare.encoding import Encoder, EncodedChunk
from packtrain_tools.errors import STOPPED, ToolError
from packtrain_tools.folder_lock import alone_in
from packtrain_tools.prepare.examples import Examples
from packtrain_tools.prepare.processes import StopSignals, encode_all
from packtrain_tools.progress import Progress
from packtrain_tools.sources.readers import Reader
from packtrain_tools.prepare.rollout_groups import RolloutGroups, files_of_rollouts
from packtrain_tools.prepare.selection import Selection, files_of
from packtrain_tools.prepare.shard_file import write_json
from packtrain_tools.prepare.store import (UNFINISHED, StoreWriter, discard, new_store,
                                           remove_unfinished)
from packtrain_tools.prepare.unfinished import RULES_VERSION, request_of, state_to_go_on_with
from packtrain_tools.sources.source_file import SourceFile

SECONDS_BETWEEN_SAVES = 60.0


class Preparation:
    """`arguments.date` must be the one of `resolve_date` that the encoder was made with. `groups`: of
        find_groups."""

    def __init__(self, arguments, encoder: Encoder, files: list[SourceFile], groups: dict | None = None):
        self._arguments = arguments
        self._encoder = encoder
        self._files = files
        self._folders = [arguments.out] + ([arguments.validation_out]
                                           if arguments.validation_out else [])
        self._bad_lines = BadLines(arguments.skip_bad_lines, arguments.max_bad_fraction,
                                   arguments.out)
        self._groups = groups
        self._selection = Selection(arguments)
        self._rollouts = RolloutGroups(groups["from_rewards"]) if groups and groups["kind"] == "rollouts" else None
        self._counts: Counter[str] = Counter()
        self._num_chunks = 0
        self._num_encoded = 0  # examples, before selection
        self._num_skipped = 0
        self._num_saves = 0
        self._uses_date = False
        self._request = request_of(arguments, files)
        with ExitStack() as locks:
            state = self._lock(locks)
            self._stores = self._begin() if state is None else self._restore(state)
            self._locks = locks.pop_all()
        self._note_date(encoder.uses_date)

    def _lock(self, locks: ExitStack) -> dict | None:
        """Locks the folders and returns the saved state. An error leaves no new folder."""
        new = [folder for folder in self._folders if not os.path.exists(folder)]
        try:
            for folder in self._folders:
                locks.enter_context(alone_in(folder, "prepare", "Wait for its end, or give another folder."))
            return state_to_go_on_with(self._arguments, self._files)
        except Exception:
            for folder in new:
                with suppress(OSError):  # it was not made
                    os.rmdir(folder)
            raise

    def _begin(self) -> list[StoreWriter]:
        stores: list[StoreWriter] = []
        try:
            for folder in self._folders:
                stores.append(self._writer(folder, self._new_store(folder)))
        except Exception:
            for store in stores:
                discard(store.folder)
            raise
        return stores

    def _writer(self, folder: str, info: dict) -> StoreWriter:
        return StoreWriter(folder, info, keep_hashes=len(self._folders) > 1)

    def _new_store(self, folder: str) -> dict:
        arguments = self._arguments
        return new_store(folder, arguments.tokenizer, self._encoder.vocab_size, arguments.sources,
                         arguments.overwrite, arguments.chat_template, self._groups)

    def _restore(self, state: dict) -> list[StoreWriter]:
        stores = [self._writer(folder, {}) for folder in self._folders]
        for store, saved in zip(stores, state["stores"]):
            store.restore(saved)
        self._selection.restore(self._folders[0], state["selection"])
        if self._rollouts:
            self._rollouts.restore(self._folders[0], state["rollouts"])
        self._bad_lines.restore(state["bad_lines"])
        self._num_chunks, self._num_saves = state["num_chunks"], state["num_saves"]
        self._num_encoded, self._num_skipped = state["num_encoded"], state["num_skipped"]
        self._counts.update(state["counts"])
        print(f"packtrain prepare: continues after {self._num_encoded:,} examples", file=sys.stderr)
        self._note_date(state["uses_date"])
        return stores

    def _save(self):
        """Saves everything so far, atomically: each save uses new file names."""
        self._num_saves += 1
        state = {
            "rules": RULES_VERSION,
            "request": self._request,
            "date": self._arguments.date,
            "uses_date": self._uses_date,
            "num_saves": self._num_saves,
            "num_chunks": self._num_chunks,
            "num_encoded": self._num_encoded,
            "num_skipped": self._num_skipped,
            "counts": dict(self._counts),
            "bad_lines": self._bad_lines.save(),
            "selection": self._selection.save(self._folders[0], self._num_saves),
            "rollouts": self._rollouts.save(self._folders[0], self._num_saves) if self._rollouts else None,
            "stores": [store.save(self._num_saves) for store in self._stores],
        }
        write_json(self._folders[0], UNFINISHED, state)
        for folder, store in zip(self._folders, state["stores"]):
            remove_unfinished(folder, [UNFINISHED, store["waiting"], *files_of(state["selection"]),
                                       *files_of_rollouts(state["rollouts"])])

    def run(self) -> dict:
        """Returns the summary. Raises ToolError, with STOPPED after a signal to stop. A failure before the
        first save leaves nothing that blocks the next attempt."""
        with self._locks:
            try:
                self._encode()
                return self._finish()
            except Exception:
                if not self._num_saves:
                    for folder in self._folders:
                        discard(folder)
                raise

    def _encode(self):
        progress = Progress(sum(file.num_bytes for file in self._files), self._num_encoded)
        chunks = itertools.islice(Reader(self._files, self._arguments.separator).chunks(),
                                  self._num_chunks, None)
        next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
        try:
            with StopSignals() as stop:
                for chunk, uses_date in encode_all(self._encoder, chunks,
                                                   self._arguments.processes):
                    self._note_date(uses_date)
                    self._take(chunk)
                    progress.add(chunk.num_read_bytes, chunk.examples.num_examples,
                                 chunk.examples.num_tokens)
                    if self._selection.is_complete:
                        break
                    if stop.asked or time.monotonic() >= next_save:
                        self._save()
                        next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
                    if stop.asked:
                        raise ToolError(f"stopped after {self._num_encoded:,} examples",
                                        "The same command continues from here.", STOPPED)
        finally:
            progress.close()

    def _take(self, chunk: EncodedChunk):
        self._num_chunks += 1
        self._num_encoded += chunk.examples.num_examples
        self._num_skipped += chunk.num_skipped
        self._counts.update(chunk.counts)
        self._bad_lines.count(chunk.num_records)
        for record, bad in chunk.bad:
            self._bad_lines.add(record, bad)
        examples = self._rollouts.add(chunk.examples) if self._rollouts else chunk.examples
        self._add(*self._selection.split(examples))

    def _note_date(self, is_used: bool):
        """Reports once that the chat template uses today's date."""
        if is_used and not self._uses_date:
            print(f"packtrain prepare: the chat template prints the date: {self._arguments.date} in "
                  "every example (--date changes it)", file=sys.stderr)
        self._uses_date = self._uses_date or is_used

    def _add(self, training: Examples, validation: Examples):
        for store, examples in zip(self._stores, (training, validation)):
            store.add(examples)

    def _finish(self) -> dict:
        if self._rollouts:
            for examples in self._rollouts.finish():
                self._add(*self._selection.split(examples))
            self._counts.update(self._rollouts.counts)
        for parts in self._selection.finish():
            self._add(*parts)
        self._bad_lines.finish()
        self._check_left()
        training, *validation = self._stores
        for store in self._stores:
            store.write_rest()
        self._counts[OVERLAPS] = sum(store.count_overlaps(training) for store in validation)
        counts = in_order(self._counts)
        optional = {"date": self._arguments.date} if self._uses_date else {}
        # The training store is finished last, because it marks the end.
        held_out = [store.finish(optional=optional) for store in validation]
        stores = [training.finish(self._bad_lines.num_bad,
                                  optional | ({"counts": counts} if counts else {})), *held_out]
        for folder in self._folders:
            remove_unfinished(folder, [])
        return self._summary(stores, counts)

    def _check_left(self):
        """Raises ToolError where a store has no example, with the reasons for all of them."""
        empty = next((store.folder for store in self._stores if store.is_empty), None)
        if empty is None:
            return
        left_out = {"have nothing to predict": self._num_skipped,
                    "are bad lines": self._bad_lines.num_bad,
                    "are duplicates": self._selection.num_duplicates}
        said = [f"{self._bad_lines.num_records:,} records were read, and {self._num_encoded:,} examples "
                "made of them", *(f"{number:,} {what}" for what, number in left_out.items() if number)]
        raise ToolError(f"{empty}: no example was left to put into it: {'; '.join(said)}",
                        " ".join(["Check the sources, and the options that select examples.",
                                  *sentences(in_order(self._counts))]))

    def _summary(self, stores: list[dict], counts: dict[str, int]) -> dict:
        empty = [source for source, number in zip(self._arguments.sources,
                                                  self._selection.num_by_source) if not number]
        return {"stores": stores, "num_examples_read": self._num_encoded,
                "num_skipped": self._num_skipped,
                "num_duplicates": self._selection.num_duplicates,
                "num_bad_lines": self._bad_lines.num_bad,
                "counts": counts, "sources_without_examples": empty,
                "max_examples_reached": self._selection.is_complete}
