"""Decoded examples as text: learned tokens are green on a terminal, else between marks."""

import os
from collections.abc import Callable

import numpy as np

from packtrain_tools.prepare.tokenizer import load_tokenizer
import itertools

LEARNED, PLAIN = "\x1b[32m", "\x1b[0m"
OPEN_MARK, CLOSE_MARK = "⟦", "⟧"


def has_color(stream) -> bool:
    """https://no-color.org: any value that is not empty disables colour."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def load_decoder(folder: str) -> Callable[[list[int]], str] | None:
    """The decoder of a store's tokenizer; None where the store has none."""
    folder = os.path.join(folder, "tokenizer")
    if not os.path.isfile(os.path.join(folder, "tokenizer.json")):
        return None
    tokenizer = load_tokenizer(folder).tokenizer
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=False)


class Decoders:
    """Decoders of stores, by folder, each loaded once. None with `as_ids`, and for a store without a
    tokenizer."""

    def __init__(self, as_ids: bool = False):
        self._as_ids = as_ids
        self._by_folder: dict[str, Callable[[list[int]], str] | None] = {}

    def of(self, folder: str) -> Callable[[list[int]], str]:
        if folder not in self._by_folder:
            self._by_folder[folder] = None if self._as_ids else load_decoder(folder)
        return self._by_folder[folder] or (lambda ids: " ".join(map(str, ids)) + " ")


def legend(color: bool, marked: str = "learned") -> str:
    return f"{LEARNED}green: {marked}{PLAIN}" if color else f"{OPEN_MARK}{marked}{CLOSE_MARK}"


def show_passages(passages: list[tuple[bool, str]], color: bool, max_chars: int | None) -> str:
    """Formats passages of (is it marked, text), one after another."""
    before, after = (LEARNED, PLAIN) if color else (OPEN_MARK, CLOSE_MARK)
    parts = []
    for marked, text in passages:
        text = printable_text(text)
        if max_chars is not None and len(text) > max_chars:
            text = f"{text[:max_chars // 2]} [... {len(text) - max_chars:,} characters ...] " \
                   f"{text[-(max_chars // 2):]}"
        parts.append(before + text + after if marked else text)
    return "".join(parts)


def show_tokens(input_ids: np.ndarray, loss_mask: np.ndarray,
                decode: Callable[[list[int]], str], color: bool,
                max_chars: int | None = None, begins: bool = True) -> str:
    """The first token of an example has no predecessor, so it is never learned. `begins`: the tokens begin
    an example."""
    learned = loss_mask.astype(bool).copy()
    if begins:
        learned[:1] = False
    bounds = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(learned)]
    passages = [(bool(learned[begin]), decode(input_ids[begin:end].tolist()))
                for begin, end in itertools.pairwise(bounds)]
    return show_passages(passages, color, max_chars)


def printable_text(text: str) -> str:
    """Escapes control characters of data, so that they do not reach the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)
