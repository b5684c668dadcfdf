"""Rows of CSV and TSV files, by the header's names. Quoting, and line feeds inside quotes, follow Python's
csv module."""

import csv
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from packtrain_tools.chat.values import Unreadable
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.joined_rows import are_rows
from packtrain_tools.sources.source_file import CSV, MAX_LINE_BYTES, SourceFile

SHOWN_CHARS = 1000
_KINDS_BY_MARK = {",": "CSV", "\t": "TSV"}
_ENDLESS = ("unexpected end of data", f"field larger than field limit ({MAX_LINE_BYTES})")
_EXCEL = re.compile(r"sep=[,;|\t]?", re.I)  # the first line may name the delimiter


def delimited_rows(file: SourceFile, stream: BinaryIO) \
        -> Iterator[tuple[int, int, int, dict | Unreadable]]:
    """First line, first byte, number of bytes and cells of every row after the header. Raises ToolError
    where there is no valid header."""
    rows = _Rows(file, stream)
    names = _header(file, rows)
    rows.num_fields = len(names)
    for line, byte, num_bytes, cells in rows:
        if isinstance(cells, Unreadable):
            yield line, byte, num_bytes, cells
        elif len(cells) == len(names):
            yield line, byte, num_bytes, dict(zip(names, cells))
        elif cells:  # else a blank line
            yield line, byte, num_bytes, Unreadable(
                f"has {len(cells)} fields, wanted {len(names)}, as the header has",
                json.dumps(cells)[:SHOWN_CHARS])


def header_of(file: SourceFile, stream: BinaryIO) -> list[str]:
    """Raises ToolError."""
    return _header(file, _Rows(file, stream))


def delimiter_advice(file: SourceFile, names: list[str]) -> str:
    """Advice where the header looks as if it had another delimiter; else ""."""
    if not file.is_delimited or len(names) != 1:
        return ""
    own = "," if file.kind == CSV else "\t"
    other = next((mark for mark in "\t,;|" if mark != own and mark in names[0]), None)
    if other is None:
        return ""
    if other in _KINDS_BY_MARK:
        return f"It seems to be {_KINDS_BY_MARK[other]}: --as {_KINDS_BY_MARK[other].lower()} reads it."
    return f"It seems to be divided by '{other}': save it as CSV with commas, or as TSV."


def _header(file: SourceFile, rows: "_Rows") -> list[str]:
    for line, _, _, cells in rows:
        if isinstance(cells, Unreadable):
            raise ToolError(f"{file.place(line)}: the header {cells.fault}")
        if cells:
            _check_header(f"{file.path}:{line}", cells)
            return cells
    raise ToolError(f"{file.path}: has no header, a line with the names of the columns",
                    "Put one before the first row.")


def _check_header(place: str, names: list[str]):
    if _EXCEL.fullmatch(names[0].strip()) and not any(names[1:]):
        raise ToolError(f"{place}: is the line 'sep=', which Excel writes, wanted the names of the "
                        "columns", "Remove this line.")
    empty = next((number for number, name in enumerate(names, start=1) if not name.strip()), None)
    if empty is not None:
        raise ToolError(f"{place}: column {empty} of the header has no name",
                        "Name it; pandas writes its index so, unless it is told index=False.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ToolError(f"{place}: the header has the name '{twice}' twice", "Name them apart.")


def _reason(error: csv.Error) -> str:
    if "universal-newline" in str(error):
        return "it has a carriage return without a line feed outside of quotes"
    return str(error)


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    num_bytes: int
    fault: str = ""


class _Rows:
    """Rows as (first line, first byte, number of bytes, cells or the reason why there are none). Where two quotes
    join lines that are rows of their own, the lines with these quotes are bad, and those between them are read."""

    def __init__(self, file: SourceFile, stream: BinaryIO):
        csv.field_size_limit(MAX_LINE_BYTES)
        self.num_fields = 0  # of the header, once it is known
        self._delimiter = "," if file.kind == CSV else "\t"
        self._stream = stream
        self._num_lines = self._num_bytes = 0
        self._taken: list[_Line] = []  # of the current row
        self._waiting: deque[_Line] = deque()  # to be read again
        self._reader = self._new_reader()

    def _new_reader(self):
        return csv.reader(self._texts(), delimiter=self._delimiter, strict=True)

    def __iter__(self) -> "_Rows":
        return self

    def __next__(self) -> tuple[int, int, int, list[str] | Unreadable]:
        line, byte, self._taken = self._num_lines + 1, self._num_bytes, []
        cells: list[str] | Unreadable
        try:
            cells = next(self._reader)
            if self._is_joined():
                cells = Unreadable(f"has a quote that joins it with the lines to {self._num_lines}, each of which is a "
                                   "row of its own; wanted a quote at both ends of a cell, or none (save the file as "
                                   "JSONL if the lines are one cell)", self._taken[0].text[:SHOWN_CHARS])
                self._taken[-1] = replace(self._taken[-1], fault=f"has the quote that ends a cell of line {line}")
                self._read_again()
        except csv.Error as error:
            through = f", with the lines to {self._num_lines}" if self._num_lines > line else ""
            cells = Unreadable(f"is no row{through}: {_reason(error)}", self._taken[0].text[:SHOWN_CHARS])
            if str(error) in _ENDLESS or self._is_joined():
                self._read_again()
            self._reader = self._new_reader()
        fault = next((each.fault for each in self._taken if each.fault), "")
        return line, byte, self._num_bytes - byte, Unreadable(fault) if fault else cells

    def _is_joined(self) -> bool:
        return len(self._taken) > 1 and self.num_fields > 1 and \
            are_rows([line.text for line in self._taken], self._delimiter, self.num_fields)

    def _read_again(self):
        """Takes back all lines of the row but the first."""
        again = self._taken[1:]
        self._taken = self._taken[:1]
        self._waiting.extendleft(reversed(again))
        self._num_lines -= len(again)
        self._num_bytes -= sum(line.num_bytes for line in again)

    def _texts(self) -> Iterator[str]:
        while line := self._waiting.popleft() if self._waiting else self._next_line():
            self._num_lines += 1
            self._num_bytes += line.num_bytes
            self._taken.append(line)
            yield line.text

    def _next_line(self) -> _Line | None:
        data = self._stream.readline(MAX_LINE_BYTES + 1)
        if not data:
            return None
        if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            num_bytes = len(data) + self._skip_line()
            return _Line("\n", num_bytes, f"the line has more than {MAX_LINE_BYTES} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return _Line(data.decode(errors="replace"), len(data), f"is not UTF-8: byte 0x{data[error.start]:02x}")
        return _Line(text if self._num_lines else text.removeprefix("\ufeff"), len(data))

    def _skip_line(self) -> int:
        """Returns the number of bytes up to the next line."""
        num_bytes = 0
        while rest := self._stream.readline(1 << 20):
            num_bytes += len(rest)
            if rest.endswith(b"\n"):
                break
        return num_bytes
