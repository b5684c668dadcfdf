"""Bytes of files, decompressed, and of standard input, whose beginning can be read in advance."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.source_file import STANDARD_INPUT, SourceFile

BLOCK_BYTES = 1 << 18
_ERRORS = (EOFError, zlib.error, lzma.LZMAError)


def pyarrow_module(path: str, name: str):
    try:
        return __import__(f"pyarrow.{name}", fromlist=[name])
    except ImportError:
        raise ToolError(f"{path}: needs the Python package pyarrow, which is missing",
                        "Run launch/setup, or install launch/requirements-data.txt.",
                        CONFIG) from None


@contextmanager
def opened(file: SourceFile, is_look: bool = False) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The bytes on disk, and the decompressed bytes. A look at standard input keeps its bytes for the next
    call. Raises ToolError where they cannot be decompressed."""
    with _raw(file, is_look) as raw:
        try:
            if file.compression and not file.num_bytes:
                raise EOFError("it has no bytes")
            yield raw, _decompressed(file, raw)
        except _ERRORS as error:
            raise _broken(file, error) from None
        except OSError as error:
            if not file.compression or error.errno is not None:
                raise
            raise _broken(file, error) from None


def _broken(file: SourceFile, error: Exception) -> ToolError:
    return ToolError(f"{file.path}: cannot be decompressed: {error}", "Is the file complete?")


def _raw(file: SourceFile, is_look: bool) -> BinaryIO:
    if file.path == STANDARD_INPUT:
        return io.BufferedReader(_Replay(_kept, is_look))
    return open(file.path, "rb")


def _decompressed(file: SourceFile, raw: BinaryIO) -> BinaryIO:
    if file.compression == ".gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    if file.compression == ".bz2":
        return io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor, has_padding=False))
    if file.compression == ".xz":
        return io.BufferedReader(_Streams(raw, lzma.LZMADecompressor, has_padding=True))
    if file.compression == ".zst":
        return io.BufferedReader(_ZstdStream(file, raw))
    return raw


class _Streams(io.RawIOBase):
    """Compressed streams one after another, to the end of the file. Python's own readers ignore bytes after
    the first stream that are no stream, such as a damaged second one."""

    def __init__(self, raw: BinaryIO, make: Callable[[], Any], has_padding: bool):
        """`has_padding`: bytes of 0 may follow a stream."""
        self._raw = raw
        self._make = make
        self._has_padding = has_padding
        self._decompressor = make()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while True:
            data = b""
            if self._decompressor.eof:
                data = self._after_stream()
                if not data:
                    return 0
                self._decompressor = self._make()
            elif self._decompressor.needs_input:
                data = self._raw.read(BLOCK_BYTES)
                if not data:
                    raise EOFError("it ends within a compressed stream")
            found = self._decompressor.decompress(data, len(buffer))
            if found:
                buffer[:len(found)] = found
                return len(found)

    def _after_stream(self) -> bytes:
        """The next bytes, empty at the end of the file."""
        data = self._decompressor.unused_data or self._raw.read(BLOCK_BYTES)
        while self._has_padding and data and not data.strip(b"\0"):
            data = self._raw.read(BLOCK_BYTES)
        return data.lstrip(b"\0") if self._has_padding else data


class _ZstdStream(io.RawIOBase):
    """pyarrow's decompressor, which raises an error where the file is cut short."""

    def __init__(self, file: SourceFile, raw: BinaryIO):
        arrow = pyarrow_module(file.path, "lib")
        self._file = file
        self._stream = arrow.CompressedInputStream(arrow.PythonFile(raw, "r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise _broken(self._file, error) from None
        buffer[:len(data)] = data
        return len(data)


_kept = bytearray()  # bytes of standard input that looks have read


class _Replay(io.RawIOBase):
    """Standard input from its beginning, repeated after each look."""

    def __init__(self, kept: bytearray, is_look: bool):
        self._kept = kept
        self._is_look = is_look
        self._at = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer) -> int:
        data = bytes(self._kept[self._at:self._at + len(buffer)])
        if not data:
            data = cast(io.BufferedReader, sys.stdin.buffer).read1(len(buffer))
            if self._is_look:
                self._kept += data
        self._at += len(data)
        buffer[:len(data)] = data
        return len(data)
