"""Encodes chunks in several processes, in their order. The result does not depend on the number of
processes."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from packtrain_tools.prepare.encoding import EncodedChunk, Encoder
from packtrain_tools.errors import ToolError
from packtrain_tools.program import end_with_parent
from packtrain_tools.sources.readers import Chunk

_encoder: Encoder | None = None  # of a worker process


def _start_worker(encoder: Encoder):
    global _encoder
    _encoder = encoder
    # Each process uses one core; the library's own threads would only contend.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # A terminal sends signals to all processes. Only the first one decides when to stop, and no worker
    # outlives it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)


def _encode(chunk: Chunk) -> tuple[EncodedChunk, bool]:
    assert _encoder is not None  # _start_worker has set it
    encoded = _encoder.encode(chunk)
    return encoded, _encoder.uses_date


def encode_all(encoder: Encoder, chunks: Iterable[Chunk],
               num_processes: int) -> Iterator[tuple[EncodedChunk, bool]]:
    """Encodes chunks in their order, a limited number of them in memory. Yields with each whether a
    template has asked for the date, in this chunk or an earlier one."""
    if num_processes == 1:
        for chunk in chunks:
            yield encoder.encode(chunk), encoder.uses_date
        return
    # Workers are forked before any thread exists, and share the loaded tokenizer.
    pool = ProcessPoolExecutor(num_processes, multiprocessing.get_context("fork"), _start_worker,
                               (encoder,))
    try:
        waiting: deque[Future] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(_encode, chunk))
            if len(waiting) >= 3 * num_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ToolError("a worker process died, perhaps for lack of memory",
                        "Try fewer with --processes.") from None
    finally:
        pool.shutdown(cancel_futures=True)


class StopSignals:
    """The first SIGINT or SIGTERM requests a stop at the next chunk; the second one ends the process
    immediately."""

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
