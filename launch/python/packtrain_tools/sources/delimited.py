"""Rows of CSV and TSV files, by the header's names. Quoting, and line feeds inside quotes, follow Python's
csv module."""

import csv
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from packtrain_tools.chat.values import Unreadable
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.files import CSV, MAX_LINE_BYTES, SourceFile

SHOWN_CHARS = 1000
_KINDS_BY_MARK = {",": "CSV", "\t": "TSV"}
_EXCEL = re.compile(r"sep=[,;|\t]?", re.I)  # the first line may name the delimiter


def delimited_rows(file: SourceFile, stream: BinaryIO) \
        -> Iterator[tuple[int, int, int, dict | Unreadable]]:
    """First line, first byte, number of bytes and cells of every row after the header. Raises ToolError
    where there is no valid header."""
    rows = _Rows(file, stream)
    names = _header(file, rows)
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


class _Rows:
    """Rows as (first line, first byte, number of bytes, cells or the reason why there are none)."""

    def __init__(self, file: SourceFile, stream: BinaryIO):
        csv.field_size_limit(MAX_LINE_BYTES)
        self._delimiter = "," if file.kind == CSV else "\t"
        self._stream = stream
        self._num_lines = self._num_bytes = 0
        self._fault = ""
        self._lines = self._texts()
        self._reader = self._new_reader()

    def _new_reader(self):
        return csv.reader(self._lines, delimiter=self._delimiter, strict=True)

    def __iter__(self) -> "_Rows":
        return self

    def __next__(self) -> tuple[int, int, int, list[str] | Unreadable]:
        line, byte, self._fault = self._num_lines + 1, self._num_bytes, ""
        try:
            cells = next(self._reader)
        except csv.Error as error:
            through = f", with the lines to {self._num_lines}" if self._num_lines > line else ""
            cells = Unreadable(f"is no row{through}: {_reason(error)}")
            self._reader = self._new_reader()
        if self._fault:
            cells = Unreadable(self._fault)
        return line, byte, self._num_bytes - byte, cells

    def _texts(self) -> Iterator[str]:
        while data := self._stream.readline(MAX_LINE_BYTES + 1):
            self._num_lines += 1
            self._num_bytes += len(data)
            if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
                self._fault = f"the line has more than {MAX_LINE_BYTES} bytes"
                self._skip_line()
                data = b"\n"
            try:
                text = data.decode()
            except UnicodeDecodeError as error:
                self._fault = f"is not UTF-8: byte 0x{data[error.start]:02x}"
                text = data.decode(errors="replace")
            yield text if self._num_lines > 1 else text.removeprefix("\ufeff")

    def _skip_line(self):
        while rest := self._stream.readline(1 << 20):
            self._num_bytes += len(rest)
            if rest.endswith(b"\n"):
                return
