"""Formats and filters of templates for tracked strings. They return the text of plain strings, with its
spans."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import markupsafe
from jinja2.sandbox import SandboxedFormatter

from packtrain_tools.chat.tracked import (Tracked, TrackedFloat, TrackedInt, concat, cut, join, plain,
                                          rewritten, spans_of, with_spans)

_CONVERSION = re.compile(r"%(?:\((?P<key>[^()]*)\))?[#0\- +]*(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
                         r"[hlL]?[a-zA-Z%]")
_NEAR = 48  # characters in which a changed text must agree with its source again
_ALIKE = 3  # characters that must agree there


def percent(form: str, values: Any) -> str:
    """`form % values`. Raises what a string raises."""
    wanted = plain(form) % values
    pieces, at = [], 0
    rest = list(values) if isinstance(values, tuple) else [values]
    for found in _CONVERSION.finditer(plain(form)):
        pieces.append(form[at:found.start()])
        at = found.end()
        if found[0].endswith("%"):
            pieces.append("%")
            continue
        if found["key"] is not None:
            value, arguments = values[found["key"]], values
        else:
            number = 1 + [found["width"], found["precision"]].count("*")
            arguments, rest = tuple(rest[:number]), rest[number:]
            value = arguments[-1]
        pieces.append(of_value(found[0] % arguments, value))
    told = concat([*pieces, form[at:]])
    return told if told == wanted else plain(wanted)


class TrackedFormatter(SandboxedFormatter):
    """`form.format(...)`"""

    def vformat(self, form: str, args, kwargs) -> str:
        wanted = super().vformat(plain(form), args, kwargs)
        told = concat(self._pieces(plain(form), args, kwargs))
        return told if told == wanted else plain(wanted)

    def _pieces(self, form: str, args, kwargs) -> Iterator[str]:
        number = itertools.count()
        for literal, name, spec, conversion in self.parse(form):
            yield literal
            if name is None:
                continue
            if not name or name[0] in ".[":
                name = f"{next(number)}{name}"
            value, _ = self.get_field(name, args, kwargs)
            spec = super().vformat(spec or "", args, kwargs)
            yield of_value(self.format_field(self.convert_field(value, conversion), spec), value)


def of_value(text: str, value: object) -> str:
    """Tracks `text`, which a format printed for a value."""
    if isinstance(value, (TrackedInt, TrackedFloat)):
        return with_spans(plain(text), [(0, len(text), value.part, 0, len(plain(str(value))))])
    source = value if isinstance(value, str) else str(value)
    if type(source) is not Tracked:
        return text
    at = plain(text).find(plain(source))
    return concat([plain(text)[:at], source, plain(text)[at + len(source):]]) if at >= 0 \
        else aligned(source, text)


def aligned(source: Tracked, changed: str, may_rewrite: bool = True) -> str:
    """`changed` equals the source except for short ranges, such as escaped characters. `may_rewrite`:
    those ranges have the origin of the characters that they replace."""
    old, new = plain(source), plain(changed)
    if len(old) == len(new) and may_rewrite:
        return with_spans(new, spans_of(source))
    pieces, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        run = 0
        while i + run < len(old) and j + run < len(new) and old[i + run] == new[j + run]:
            run += 1
        pieces.append(cut(source, i, i + run) if spans_of(source) else old[i:i + run])
        i, j = i + run, j + run
        skipped, added = _next_alike(old, new, i, j)
        between = new[j:j + added]
        pieces.append(rewritten(source, i, i + skipped, between) if between and may_rewrite else between)
        i, j = i + skipped, j + added
    return concat([*pieces, new[j:]])


def _next_alike(old: str, new: str, i: int, j: int) -> tuple[int, int]:
    """The number of characters of both to skip until they agree again."""
    for both in range(1, _NEAR):
        for skipped in range(both + 1):
            first, second = i + skipped, j + both - skipped
            some = min(_ALIKE, max(len(old) - first, len(new) - second))
            if old[first:first + some] == new[second:second + some] and first <= len(old) and second <= len(new):
                return skipped, both - skipped
    return len(old) - i, len(new) - j


class Escaped(markupsafe.Markup):
    """The result of `escape`, which is printed with its spans."""

    origin: str | None = None  # results of operations have none

    def __str__(self) -> str:
        return super().__str__() if self.origin is None else self.origin


def escape(value: object) -> markupsafe.Markup:
    made = markupsafe.escape(value)
    if type(value) is not Tracked:
        return made
    escaped = Escaped(plain(str(made)))
    escaped.origin = aligned(value, plain(str(made)))
    return escaped


def indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Like Jinja's filter."""
    space = width if isinstance(width, str) else " " * width
    lines = (text + "\n").splitlines()
    told = join("\n", [space + line if number and (line or blank) else line
                       for number, line in enumerate(lines)])
    return space + told if first else told
