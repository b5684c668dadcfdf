"""Bytes of files, decompressed, and of standard input, whose beginning can be read in advance."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.files import STANDARD_INPUT, SourceFile

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
        return io.BufferedReader(bz2.BZ2File(raw))
    if file.compression == ".xz":
        return io.BufferedReader(lzma.LZMAFile(raw))
    if file.compression == ".zst":
        return io.BufferedReader(_ZstdStream(file, raw))
    return raw


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
