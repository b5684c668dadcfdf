"""Strings that record which part of a record their characters come from.

A chat template is a program: it trims, splits, replaces and joins texts of a record. Each of these operations
on a `Tracked` string has the result of a plain string, and keeps the origin of the characters. So one
rendering gives the text, and the positions of the record's parts in it.

A span is a tuple (begin, end, part, source_begin, source_end): characters begin..end of this string come from
characters source_begin..source_end of part number `part`. Both ranges have the same length, unless the
characters were escaped or replaced, or belong to a number."""

import re
from collections.abc import Iterable, Iterator

# Tags and punctuation, which templates may print in another form.
MARKUP = re.compile(r"(?:</?[\w|]+>|\[/?\w+\]|\W)*")
Span = tuple[int, int, int, int, int]


class Tracked(str):
    """A string with spans. Operations that are not defined here return plain strings."""

    __slots__ = ("spans",)
    spans: list[Span]

    def __str__(self) -> str:
        return self  # templates print each value with str()

    def __add__(self, other):
        return concat((self, other)) if isinstance(other, str) else plain(self) + other

    def __radd__(self, other):
        return concat((other, self)) if isinstance(other, str) else other + plain(self)

    def __getitem__(self, index):
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                return plain(self)[index]
            return cut(self, begin, max(begin, end))
        str.__getitem__(self, index)  # raises the error of a plain string
        at = index + len(self) if index < 0 else index
        return cut(self, at, at + 1)

    def __iter__(self) -> Iterator[str]:
        return (cut(self, at, at + 1) for at in range(len(self)))

    def strip(self, chars=None):
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars=None):
        return cut(self, len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars=None):
        return cut(self, 0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix):
        return cut(self, len(prefix) if str.startswith(self, prefix) else 0, len(self))

    def removesuffix(self, suffix):
        has_it = bool(suffix) and str.endswith(self, suffix)
        return cut(self, 0, len(self) - (len(suffix) if has_it else 0))

    def split(self, sep=None, maxsplit=-1):
        return self._located(str.split(self, sep, maxsplit), None if sep is None else len(sep))

    def rsplit(self, sep=None, maxsplit=-1):
        return self._located(str.rsplit(self, sep, maxsplit), None if sep is None else len(sep))

    def splitlines(self, keepends=False):
        return self._located(str.splitlines(self, keepends))

    def partition(self, sep):
        return tuple(self._located(str.partition(self, sep), 0))

    def rpartition(self, sep):
        return tuple(self._located(str.rpartition(self, sep), 0))

    def _located(self, pieces: Iterable[str], between: int | None = None) -> list[str]:
        """Locates consecutive pieces of this string. They are `between` characters apart, or (None)
        separated by white space, with which no piece begins."""
        found, at = [], 0
        for piece in pieces:
            at = at if between is not None else str.find(self, piece, at)
            found.append(cut(self, at, at + len(piece)))
            at += len(piece) + (between or 0)
        return found

    def replace(self, old, new, count=-1):
        if not old:
            return str.replace(self, old, new, count)
        pieces, at = [], 0
        is_markup = bool(MARKUP.fullmatch(old)) and not new.isspace()
        while count != 0 and (found := str.find(self, old, at)) >= 0:
            pieces.append(cut(self, at, found))
            at = found + len(old)
            pieces.append(rewritten(self, found, at, new) if is_markup and new else new)
            count -= 1
        return concat([*pieces, cut(self, at, len(self))])

    def join(self, pieces):
        return join(self, pieces)

    def lower(self):
        return self._same_length(str.lower(self))

    def upper(self):
        return self._same_length(str.upper(self))

    def title(self):
        return self._same_length(str.title(self))

    def capitalize(self):
        return self._same_length(str.capitalize(self))

    def casefold(self):
        return self._same_length(str.casefold(self))

    def swapcase(self):
        return self._same_length(str.swapcase(self))

    def center(self, width, fill=" "):
        text = str.center(self, width, fill)
        before = ("1" * len(self)).center(width, "0").find("1")
        return concat([text[:before], self, text[before + len(self):]]) if self else text

    def ljust(self, width, fill=" "):
        return concat([self, str.ljust(self, width, fill)[len(self):]])

    def rjust(self, width, fill=" "):
        text = str.rjust(self, width, fill)
        return concat([text[:len(text) - len(self)], self])

    def __mul__(self, number):
        text = str.__mul__(self, number)  # raises the error of a plain string
        return concat([self] * (len(text) // len(self))) if text else text

    __rmul__ = __mul__

    def _same_length(self, text: str) -> str:
        return with_spans(text, self.spans) if len(text) == len(self) else text


class TrackedInt(int):
    """An integer of a record; its printed digits are tracked."""

    part: int

    def __str__(self) -> str:
        return of_part(int.__repr__(self), self.part)


class TrackedFloat(float):
    part: int

    def __str__(self) -> str:
        return of_part(float.__repr__(self), self.part)


def with_spans(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    tracked = Tracked(text)
    tracked.spans = spans
    return tracked


def of_part(text: str, part: int) -> str:
    """A tracked string of all of a part's text."""
    return with_spans(text, [(0, len(text), part, 0, len(text))] if text else [])


def number_of_part(value: int | float, part: int) -> int | float:
    tracked = TrackedInt(value) if isinstance(value, int) else TrackedFloat(value)
    tracked.part = part
    return tracked


def plain(text: str) -> str:
    return str.__getitem__(text, slice(None)) if type(text) is not str else text


def spans_of(text: str) -> list[Span]:
    return text.spans if type(text) is Tracked else []


def cut(text: Tracked, begin: int, end: int) -> str:
    """text[begin:end] for 0 <= begin, end <= len(text)."""
    spans = []
    for first, last, part, source_begin, source_end in text.spans:
        low, high = max(first, begin), min(last, end)
        if low >= high:
            continue
        if last - first == source_end - source_begin:
            source_begin += low - first
            source_end = source_begin + high - low
        elif (low, high) != (first, last):
            continue  # the source characters of a piece of escaped text are unknown
        spans.append((low - begin, high - begin, part, source_begin, source_end))
    return with_spans(str.__getitem__(text, slice(begin, end)), spans)


def rewritten(text: Tracked, begin: int, end: int, new: str) -> str:
    """Replaces text[begin:end] by `new` and keeps the origin: that of the same text, or that of other
    characters in its place."""
    old = cut(text, begin, end)
    at = plain(new).find(plain(old))
    if at >= 0:
        return concat([plain(new)[:at], old, plain(new)[at + len(old):]])
    sources: dict[int, tuple[int, int]] = {}
    for _, _, part, first, last in spans_of(old):
        low, high = sources.get(part, (first, last))
        sources[part] = min(low, first), max(high, last)
    return with_spans(plain(new), [*spans_of(new), *((0, len(new), part, *source)
                                                     for part, source in sources.items())])


def as_tracked(text: str) -> Tracked:
    """Makes a string whose operations keep the origin of their arguments."""
    tracked = Tracked(text)
    tracked.spans = spans_of(text)
    return tracked


def concat(pieces: Iterable[str]) -> str:
    """`"".join(pieces)`; Jinja's environments call it for all output of a template."""
    texts, spans, at = [], [], 0
    for piece in pieces:
        if type(piece) is Tracked:
            spans += [(begin + at, end + at, part, source_begin, source_end)
                      for begin, end, part, source_begin, source_end in piece.spans]
        texts.append(piece)
        at += len(piece)
    return with_spans("".join(texts), spans)


def join(separator: str, pieces: Iterable[str]) -> str:
    """`separator.join(pieces)`"""
    pieces = list(pieces)
    if not all(isinstance(piece, str) for piece in pieces):
        return plain(separator).join(pieces)  # raises the error of a plain string
    return concat([each for piece in pieces for each in (separator, piece)][1:])
