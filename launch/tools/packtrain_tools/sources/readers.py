"""Files of every kind as records: raw lines and texts that workers decode, or rows of tables."""

import codecs
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.files import ARROW, LINES, PARQUET, VALUES, SourceFile

MAX_LINE_BYTES = 64 << 20  # as in framework/data/text_lines.h
BLOCK_BYTES = 1 << 20
ROWS_AT_ONCE = 1024
CHUNK_BYTES = 1 << 18
CHUNK_RECORDS = 1024
_SPACE = " \t\r\n,"
_BETWEEN = re.compile(f"[{_SPACE}]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """A document as it lies on disk: its first line (or row), counted from 1, and its first byte,
    from 0. `num_bytes` are more than `data` where a line is longer than MAX_LINE_BYTES."""

    file: SourceFile
    line: int
    byte: int
    num_bytes: int
    data: bytes | dict  # a dict: the row of a table


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a worker takes at once: records, or rows of a table that follow each other."""

    content: list[Record] | tuple[SourceFile, int, bytes]  # rows as an Arrow stream
    num_read_bytes: int  # of all files, when the chunk was complete

    def records(self) -> list[Record]:
        if isinstance(self.content, list):
            return self.content
        file, first, stream = self.content
        rows = pyarrow_module(file.path, "ipc").open_stream(stream).read_all().to_pylist()
        return [Record(file, number, 0, 0, row) for number, row in enumerate(rows, start=first)]


def pyarrow_module(path: str, name: str):
    try:
        return __import__(f"pyarrow.{name}", fromlist=[name])
    except ImportError:
        raise ToolError(f"{path}: needs the Python package pyarrow, which is missing",
                        "Run launch/setup, or install launch/requirements-data.txt.",
                        CONFIG) from None


class Reader:
    """The files in order. `separator`: the line that divides the documents of a text file."""

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
                    num_bytes += len(record.data)
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
            yield Chunk((file, first, _as_stream(file, batch)),
                        begin + int(share * file.num_bytes))
            first += batch.num_rows

    def records(self, file: SourceFile) -> Iterator[Record]:
        """Of a file that is no table."""
        with open(file.path, "rb") as raw:
            self._tell = raw.tell
            try:
                yield from _records(file, _decompressed(file, raw), self._separator)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ToolError(f"{file.path}: cannot be decompressed: {error}") from None
            finally:
                self._tell = lambda: 0
            if os.stat(file.path).st_size != file.num_bytes:
                raise ToolError(f"{file.path}: had {file.num_bytes} bytes, and another number when "
                                "it was read to its end", "Prepare files that nobody writes to.")


def _as_stream(file: SourceFile, batch) -> bytes:
    """Of these rows alone: pickled, a slice takes the whole batch with it."""
    sink = pyarrow_module(file.path, "lib").BufferOutputStream()
    with pyarrow_module(file.path, "ipc").new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_records(file: SourceFile, separator: str | None) -> Iterator[Record]:
    return Reader([file], separator).records(file)


def _decompressed(file: SourceFile, raw):
    if file.compression == ".gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    if file.compression == ".zst":
        return io.BufferedReader(_ZstdStream(file.path, raw))
    return raw


class _ZstdStream(io.RawIOBase):
    """pyarrow's decompressor, with an error where the file is cut short."""

    def __init__(self, path: str, raw):
        arrow = pyarrow_module(path, "lib")
        self._path = path
        self._stream = arrow.CompressedInputStream(arrow.PythonFile(raw, "r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise ToolError(f"{self._path}: cannot be decompressed: {error}") from None
        buffer[:len(data)] = data
        return len(data)


def _records(file: SourceFile, stream, separator: str | None) -> Iterator[Record]:
    if file.kind == LINES:
        yield from (record for record in _lines(file, stream) if record.data.strip())
    elif file.kind == VALUES:
        yield from _values(file, stream)
    elif separator is not None:
        yield from _separated(file, stream, separator.encode())
    else:
        data = stream.read()
        yield Record(file, 1, 0, len(data), data)


def _lines(file: SourceFile, stream) -> Iterator[Record]:
    number = byte = 0
    while data := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        num_bytes = len(data)
        rest = data
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            num_bytes += len(rest)
        yield Record(file, number, byte, num_bytes, data)
        byte += num_bytes


def _separated(file: SourceFile, stream, separator: bytes) -> Iterator[Record]:
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


def _values(file: SourceFile, stream) -> Iterator[Record]:
    """JSON values one after the other, or the elements of one array; one of them in memory."""
    pending, line, byte = "", 1, 0
    in_array: bool | None = None
    for text, is_last in _text_blocks(file, stream):
        pending += text
        if in_array is None and pending.strip():
            in_array = pending.lstrip().startswith("[")
            pending = pending.replace("[", " ", 1) if in_array else pending
        at = 0
        while found := _next_value(file, pending, at, line, is_last):
            begin, end = found
            line += pending.count("\n", at, begin)
            byte += len(pending[at:begin].encode())
            data = pending[begin:end].encode()
            yield Record(file, line, byte, len(data), data)
            line += pending.count("\n", begin, end)
            byte += len(data)
            at = end
        pending = pending[at:]
    if pending.strip(_SPACE) != ("]" if in_array else ""):
        raise ToolError(f"{file.place(line)}: the array has no end", "Is the file complete?")


def _next_value(file: SourceFile, text: str, at: int, line: int,
                is_last: bool) -> tuple[int, int] | None:
    """Begin and end of the value at `at`, which begins in `line`; nothing where more has to be
    read first, or an array ends."""
    begin = _BETWEEN.match(text, at).end()
    if begin == len(text) or text[begin] == "]":
        return None
    try:
        _, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        if not is_last and len(text) - begin <= MAX_LINE_BYTES:
            return None
        place = file.place(line + text.count("\n", at, begin))
        raise ToolError(f"{place}: is no valid JSON: {error}") from None
    return (begin, end) if is_last or end < len(text) else None  # a number may go on


def _text_blocks(file: SourceFile, stream) -> Iterator[tuple[str, bool]]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        while block := stream.read(BLOCK_BYTES):
            yield decoder.decode(block), False
        yield decoder.decode(b"", True), True
    except UnicodeDecodeError as error:
        raise ToolError(f"{file.path}: is not UTF-8: {error.reason}") from None


def read_batches(file: SourceFile) -> Iterator[tuple[float, object]]:
    """Record batches of a table, each with the share of the file that has been read with it."""
    if file.kind == PARQUET:
        batches = _parquet_batches(file)
    elif file.kind == ARROW:
        batches = _arrow_batches(file)
    else:
        batches = _hub_batches(file)
    arrow = pyarrow_module(file.path, "lib")
    try:
        yield from batches
    except arrow.ArrowException as error:
        raise ToolError(f"{file.path}: cannot be read: {error}") from None


def _parquet_batches(file: SourceFile):
    with pyarrow_module(file.path, "parquet").ParquetFile(file.path) as table:
        num_rows, done = table.metadata.num_rows, 0
        for batch in table.iter_batches(batch_size=ROWS_AT_ONCE):
            done += batch.num_rows
            yield done / max(1, num_rows), batch


def _arrow_batches(file: SourceFile):
    """The file and the stream format, which `datasets` writes."""
    arrow = pyarrow_module(file.path, "ipc")
    with pyarrow_module(file.path, "lib").memory_map(file.path) as mapped:
        is_file = mapped.read(6) == b"ARROW1"
        mapped.seek(0)
        if is_file:
            table = arrow.open_file(mapped)
            batches = (table.get_batch(i) for i in range(table.num_record_batches))
        else:
            batches = iter(arrow.open_stream(mapped))
        for batch in batches:
            for begin in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield mapped.tell() / max(1, file.num_bytes), batch.slice(begin, ROWS_AT_ONCE)


def _hub_batches(file: SourceFile):
    from packtrain_tools.sources.hub import open_hub
    dataset = open_hub(file.path).with_format("arrow")
    for begin in range(0, len(dataset), ROWS_AT_ONCE):
        table = dataset[begin:begin + ROWS_AT_ONCE].combine_chunks()
        for batch in table.to_batches():
            yield (begin + table.num_rows) / len(dataset), batch
