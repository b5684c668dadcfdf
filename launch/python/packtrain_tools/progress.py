"""Shows the progress of a tool on stderr: a bar on a terminal, else a line at intervals."""

import sys
import time

SECONDS_ON_TERMINAL = 0.2
SECONDS_ELSEWHERE = 30.0
BAR_WIDTH = 30


class Progress:
    def __init__(self, total_bytes: int, num_examples_before: int = 0):
        self._total_bytes = total_bytes
        self._is_terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._next = self._start + self._interval()
        self._first_byte: int | None = None  # a continued run begins in the middle
        self._num_bytes = 0
        self._num_examples = num_examples_before
        self._num_tokens = 0

    def _interval(self) -> float:
        return SECONDS_ON_TERMINAL if self._is_terminal else SECONDS_ELSEWHERE

    def add(self, num_bytes_so_far: int, num_examples: int, num_tokens: int):
        if self._first_byte is None:
            self._first_byte = num_bytes_so_far if self._num_examples else 0
        self._num_bytes = num_bytes_so_far
        self._num_examples += num_examples
        self._num_tokens += num_tokens
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._interval()
            self._print(now - self._start)

    def _print(self, seconds: float):
        line = f"{self._num_examples:,} examples  {self._num_tokens / seconds:,.0f} tokens/s"
        share = 0.0
        # Standard input has more bytes than the total says.
        if self._first_byte is not None and self._total_bytes >= self._num_bytes:
            share = self._num_bytes / max(1, self._total_bytes)
            done = self._num_bytes - self._first_byte
            left = seconds * (self._total_bytes - self._num_bytes) / done if done > 0 else 0.0
            line = f"{share:4.0%}  {line}  {_clock(left)} left"
        if self._is_terminal:
            filled = round(share * BAR_WIDTH)
            sys.stderr.write(f"\r\x1b[K[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {line}")
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def close(self):
        """Clears the line of a terminal."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
