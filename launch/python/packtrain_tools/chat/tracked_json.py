"""`json.dumps` and `repr` for values with tracked strings and numbers: the same text, with its spans."""

import json
from json.encoder import encode_basestring, encode_basestring_ascii

from packtrain_tools.chat.tracked import (Tracked, TrackedFloat, TrackedInt, concat, plain, spans_of,
                                          with_spans)


def dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
    """Like transformers' `tojson` filter. Raises what json.dumps raises."""
    if not isinstance(value, (dict, list, tuple, Tracked, TrackedInt, TrackedFloat)):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)
    return concat(_Writer(ensure_ascii, indent, separators, sort_keys).pieces(value, 0))


class _Writer:
    def __init__(self, ensure_ascii, indent, separators, sort_keys):
        self._escape = encode_basestring_ascii if ensure_ascii else encode_basestring
        self._indent = " " * indent if isinstance(indent, int) else indent
        default = (", ", ": ") if indent is None else (",", ": ")
        self._item_separator: str
        self._key_separator: str
        self._item_separator, self._key_separator = separators or default
        self._sort_keys = sort_keys

    def pieces(self, value, depth: int) -> list[str]:
        if isinstance(value, str):
            return [self._string(value)]
        if isinstance(value, ContentPart):
            return [plain(piece) for piece in self.pieces(dict(value), depth)]
        if isinstance(value, dict):
            items = sorted(value.items()) if self._sort_keys else value.items()
            entries = [[self._string(_key(key)), self._key_separator, *self.pieces(entry, depth + 1)]
                       for key, entry in items]
            return self._enclosed("{", entries, "}", depth)
        if isinstance(value, (list, tuple)):
            entries = [self.pieces(entry, depth + 1) for entry in value]
            return self._enclosed("[", entries, "]", depth)
        text = json.dumps(value)
        if isinstance(value, (TrackedInt, TrackedFloat)):
            return [with_spans(text, [(0, len(text), value.part, 0, len(text))])]
        return [text]

    def _enclosed(self, opening: str, entries: list[list[str]], closing: str,
                  depth: int) -> list[str]:
        if not entries:
            return [opening + closing]
        first, between, last = "", self._item_separator, ""
        if self._indent is not None:
            first = "\n" + self._indent * (depth + 1)
            last = "\n" + self._indent * depth
            between += first
        pieces = [opening + first]
        for number, entry in enumerate(entries):
            if number:
                pieces.append(between)
            pieces += entry
        return [*pieces, last + closing]

    def _string(self, text: str) -> str:
        escaped = self._escape(plain(text))
        spans = spans_of(text)
        if not spans:
            return escaped
        if len(escaped) == len(text) + 2:
            return with_spans(escaped, [(begin + 1, end + 1, part, first, last)
                                        for begin, end, part, first, last in spans])

        def place(at: int) -> int:
            return len(self._escape(plain(text)[:at])) - 1

        return with_spans(escaped, [(place(begin), place(end), part, first, last)
                                    for begin, end, part, first, last in spans])


class ContentPart(dict):
    """A part of a content that is a list. Its JSON or Python form is no text of the record: a template
    that prints it expects text."""


class PrintedDict(dict):
    """Some templates print tools and calls as Python does."""

    def __str__(self) -> str:
        return concat(_repr_pieces(self))


class PrintedList(list):
    def __str__(self) -> str:
        return concat(_repr_pieces(self))


def _repr_pieces(value) -> list[str]:
    if isinstance(value, dict):
        entries = [[*_repr_pieces(key), ": ", *_repr_pieces(entry)] for key, entry in value.items()]
        opening, closing = "{}"
    elif isinstance(value, list):
        entries = [_repr_pieces(entry) for entry in value]
        opening, closing = "[]"
    elif isinstance(value, (TrackedInt, TrackedFloat)):
        return [str(value)]
    elif isinstance(value, Tracked):
        text = repr(plain(value))
        return [with_spans(text, [(1, len(text) - 1, part, begin, end)
                                  for _, _, part, begin, end in value.spans])]
    else:
        return [repr(value)]
    pieces = [opening]
    for number, entry in enumerate(entries):
        pieces += [", "] * (number > 0) + entry
    return [*pieces, closing]


def _key(key) -> str:
    """Converts keys that are no strings as json.dumps does; only templates make such keys."""
    return key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: 0}))))
