"""Rows of tables: Parquet, Arrow, data sets of the Hugging Face Hub."""

import sys
from collections.abc import Iterator
from typing import Any

from packtrain_tools.chat.values import Unreadable
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.inputs import pyarrow_module
from packtrain_tools.sources.source_file import ARROW, PARQUET, SourceFile

ROWS_AT_ONCE = 1024
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream


def as_stream(file: SourceFile, batch) -> bytes:
    """An Arrow stream of only these rows: a pickled slice would include the whole batch."""
    sink = pyarrow_module(file.path, "lib").BufferOutputStream()
    with pyarrow_module(file.path, "ipc").new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def rows_of(file: SourceFile, stream: bytes) -> list[dict]:
    """The rows of an Arrow stream. A value that Python cannot hold is Unreadable."""
    table = pyarrow_module(file.path, "ipc").open_stream(stream).read_all()
    try:
        return table.to_pylist(maps_as_pydicts="strict")
    except Exception:  # many error types: dates out of range, strings that are not UTF-8, ...
        columns = [[_value(entry) for entry in column] for column in table.columns]
        return [dict(zip(table.column_names, row)) for row in zip(*columns)]


def _value(scalar) -> object:
    try:
        return scalar.as_py(maps_as_pydicts="strict")
    except Exception as error:
        lines = str(error).splitlines()
        return Unreadable(f"{type(error).__name__}: {lines[0] if lines else ''}")


def table_columns(file: SourceFile) -> list[str]:
    if file.kind == PARQUET:
        arrow = pyarrow_module(file.path, "lib")
        try:
            return pyarrow_module(file.path, "parquet").read_schema(file.path).names
        except arrow.ArrowException as error:
            raise _unreadable(file, error) from None
    if file.kind == ARROW:
        return _arrow_columns(file)
    from packtrain_tools.sources.hub import open_hub
    return open_hub(file.path).column_names


def _arrow_columns(file: SourceFile) -> list[str]:
    """The columns, also of a table without rows as `datasets` saves it."""
    arrow = pyarrow_module(file.path, "lib")
    try:
        with arrow.memory_map(file.path) as mapped:
            return _arrow_reader(file, mapped).schema.names
    except arrow.ArrowException as error:
        raise _unreadable(file, error) from None


def first_row(file: SourceFile) -> dict | None:
    for _, batch in read_batches(file):
        if batch.num_rows:
            return rows_of(file, as_stream(file, batch.slice(0, 1)))[0]
    return None


def read_batches(file: SourceFile) -> Iterator[tuple[float, Any]]:
    """Record batches (pyarrow.RecordBatch) of a table, each with the share of the file read so far."""
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
        raise _unreadable(file, error) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(file, error) from None


def _unreadable(file: SourceFile, error: Exception) -> ToolError:
    return ToolError(f"{file.path}: cannot be read: {error}", "Is the file complete?")


def _parquet_batches(file: SourceFile):
    with pyarrow_module(file.path, "parquet").ParquetFile(file.path) as table:
        num_rows, done = table.metadata.num_rows, 0
        for batch in table.iter_batches(batch_size=ROWS_AT_ONCE):
            done += batch.num_rows
            yield done / max(1, num_rows), batch


def _arrow_batches(file: SourceFile):
    """Reads both the file format and the stream format, which `datasets` writes."""
    with pyarrow_module(file.path, "lib").memory_map(file.path) as mapped:
        table = _arrow_reader(file, mapped)
        is_file = hasattr(table, "get_batch")
        batches = (table.get_batch(i) for i in range(table.num_record_batches)) if is_file \
            else iter(table)
        for batch in batches:
            for begin in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield mapped.tell() / max(1, file.num_bytes), batch.slice(begin, ROWS_AT_ONCE)
        if not is_file:
            _check_end(file, mapped)


def _check_end(file: SourceFile, mapped):
    """Reports a stream without its end, which a writer that was stopped leaves. The format allows it."""
    mapped.seek(max(0, file.num_bytes - len(_END)))
    if mapped.read(len(_END)) != _END:
        print(f"packtrain prepare: {file.path}: has no mark of its end, so later rows may be missing: is it "
              "complete?", file=sys.stderr)


def _arrow_reader(file: SourceFile, mapped):
    arrow = pyarrow_module(file.path, "ipc")
    is_file = mapped.read(6) == b"ARROW1"
    mapped.seek(0)
    return arrow.open_file(mapped) if is_file else arrow.open_stream(mapped)


def _hub_batches(file: SourceFile):
    from packtrain_tools.sources.hub import open_hub
    dataset = open_hub(file.path).with_format("arrow")
    for begin in range(0, len(dataset), ROWS_AT_ONCE):
        table = dataset[begin:begin + ROWS_AT_ONCE].combine_chunks()
        for batch in table.to_batches():
            yield (begin + table.num_rows) / len(dataset), batch
