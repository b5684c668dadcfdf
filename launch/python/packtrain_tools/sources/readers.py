"""Reads files of every kind as records: raw lines and texts that workers decode, or rows of tables."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from packtrain_tools.chat.values import Unreadable
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.delimited import delimited_rows, header_of
from packtrain_tools.sources.inputs import opened
from packtrain_tools.sources.json_values import json_values
from packtrain_tools.sources.source_file import LINES, MAX_LINE_BYTES, STANDARD_INPUT, VALUES, SourceFile
from packtrain_tools.sources.tables import as_stream, read_batches, rows_of, table_columns

CHUNK_BYTES = 1 << 18
CHUNK_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class Record:
    """A document as stored in its file: its first line (or row), counted from 1, and its first byte, from
    0. `num_bytes` exceeds the length of `data` where a line is longer than MAX_LINE_BYTES."""

    file: SourceFile
    line: int
    byte: int
    num_bytes: int
    data: bytes | dict | Unreadable  # a dict: the row of a table, or of CSV

    @property
    def content(self) -> bytes:
        """The bytes of a line, a value or a document; not for a row."""
        if not isinstance(self.data, bytes):
            raise TypeError(f"{self.file.place(self.line)}: a row has no bytes of its own")
        return self.data


@dataclass(frozen=True, slots=True)
class Chunk:
    """The work of a worker at a time: records, or consecutive rows of a table."""

    content: list[Record] | tuple[SourceFile, int, bytes]  # rows as an Arrow stream
    num_read_bytes: int  # of all files, when the chunk was complete

    def records(self) -> list[Record]:
        if isinstance(self.content, list):
            return self.content
        file, first, stream = self.content
        return [Record(file, number, 0, 0, row)
                for number, row in enumerate(rows_of(file, stream), start=first)]


class Reader:
    """Reads the files in order. `separator`: the line that divides the documents of a text file."""

    def __init__(self, files: list[SourceFile], separator: str | None):
        self._files = files
        self._separator = separator
        self._num_read_bytes = 0  # of files before the current one
        self._tell: Callable[[], int] = lambda: 0

    def chunks(self) -> Iterator[Chunk]:
        records: list[Record] = []
        num_bytes = 0
        for file in self._files:
            if file.is_table:
                if records:
                    yield Chunk(records, self._position())
                    records, num_bytes = [], 0
                yield from self._row_chunks(file)
            else:
                for record in self.records(file):
                    records.append(record)
                    num_bytes += record.num_bytes
                    if num_bytes >= CHUNK_BYTES or len(records) >= CHUNK_RECORDS:
                        yield Chunk(records, self._position())
                        records, num_bytes = [], 0
            self._num_read_bytes += file.num_bytes
            self._tell = lambda: 0
        if records:
            yield Chunk(records, self._position())

    def _position(self) -> int:
        return self._num_read_bytes + self._tell()

    def _row_chunks(self, file: SourceFile) -> Iterator[Chunk]:
        first = 1
        begin = self._num_read_bytes
        for share, batch in read_batches(file):
            yield Chunk((file, first, as_stream(file, batch)),
                        begin + int(share * file.num_bytes))
            first += batch.num_rows

    def records(self, file: SourceFile, is_look: bool = False) -> Iterator[Record]:
        """Records of a file that is no table. A look at standard input keeps the bytes for the next
        reader."""
        with opened(file, is_look) as (raw, stream):
            self._tell = raw.tell
            try:
                yield from _records(file, stream, self._separator)
            finally:
                self._tell = lambda: 0
        if file.path != STANDARD_INPUT and os.stat(file.path).st_size != file.num_bytes:
            raise ToolError(f"{file.path}: had {file.num_bytes} bytes, and another number when "
                            "it was read to its end", "Prepare files that nobody writes to.")


def read_records(file: SourceFile, separator: str | None) -> Iterator[Record]:
    return Reader([file], separator).records(file)


def columns_of(file: SourceFile) -> list[str]:
    """The columns of a file that names them itself: a table, or CSV."""
    if file.is_table:
        return table_columns(file)
    with opened(file, is_look=True) as (_, stream):
        return header_of(file, stream)


def _records(file: SourceFile, stream: BinaryIO, separator: str | None) -> Iterator[Record]:
    if file.kind == LINES:
        yield from (record for record in _lines(file, stream) if record.content.strip())
    elif file.kind == VALUES:
        for line, byte, data in json_values(file, stream):
            yield Record(file, line, byte, len(data), data)
    elif file.is_delimited:
        for line, byte, num_bytes, cells in delimited_rows(file, stream):
            yield Record(file, line, byte, num_bytes, cells)
    elif separator is not None:
        yield from _separated(file, stream, separator.encode())
    else:
        data = stream.read()
        yield Record(file, 1, 0, len(data), data)


def _lines(file: SourceFile, stream: BinaryIO) -> Iterator[Record]:
    number = byte = 0
    while data := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        num_bytes = len(data)
        rest = data
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            num_bytes += len(rest)
        yield Record(file, number, byte, num_bytes, data)
        byte += num_bytes


def _separated(file: SourceFile, stream: BinaryIO, separator: bytes) -> Iterator[Record]:
    lines: list[bytes] = []
    first, begin, end = 1, 0, 0
    for number, line in enumerate(stream, start=1):
        end += len(line)
        if line.rstrip(b"\r\n") != separator:
            lines.append(line)
            continue
        yield Record(file, first, begin, end - len(line) - begin, b"".join(lines))
        lines = []
        first, begin = number + 1, end
    yield Record(file, first, begin, end - begin, b"".join(lines))
