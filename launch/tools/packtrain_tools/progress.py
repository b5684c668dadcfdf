"""How far a tool has come, on stderr: one changing line on a terminal, else a line now and then."""

import sys
import time

SECONDS_ON_TERMINAL = 0.2
SECONDS_ELSEWHERE = 5.0


class Progress:
    def __init__(self, total_bytes: int):
        self._total_bytes = total_bytes
        self._is_terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._next = self._start + self._interval()
        self._num_bytes = 0
        self._num_examples = 0
        self._num_tokens = 0

    def _interval(self) -> float:
        return SECONDS_ON_TERMINAL if self._is_terminal else SECONDS_ELSEWHERE

    def add(self, num_bytes: int, num_examples: int, num_tokens: int):
        self._num_bytes += num_bytes
        self._num_examples += num_examples
        self._num_tokens += num_tokens
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._interval()
            self._print(now - self._start)

    def _print(self, seconds: float):
        share = min(1.0, self._num_bytes / max(1, self._total_bytes))
        line = (f"{share:4.0%}  {self._num_examples:,} examples  {self._num_tokens:,} tokens  "
                f"{self._num_tokens / seconds:,.0f} tokens/s")
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def close(self):
        """Clears the line of a terminal."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
