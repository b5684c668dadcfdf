"""Texts on disk, as raw records that workers decode.

A source is a file or a folder. `.jsonl` files hold one JSON object a line; every other file is
plain text, one document, or several divided by lines that hold only a separator. In a folder,
files with the suffixes of FOLDER_SUFFIXES count, in the order of their sorted paths.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, ToolError

JSONL_SUFFIXES = (".jsonl", ".ndjson")
FOLDER_SUFFIXES = JSONL_SUFFIXES + (".txt", ".text", ".md", ".rst", "")
MAX_SOURCES = 2**15 - 1  # the store's `source` column is int16


@dataclass(frozen=True, slots=True)
class SourceFile:
    source: int  # index of the source it belongs to
    path: str
    num_bytes: int

    @property
    def is_jsonl(self) -> bool:
        return self.path.endswith(JSONL_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Record:
    """A document as it lies on disk. `line` is its first line, counted from 1."""

    file: SourceFile
    line: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded document: `prompt` is read but not learned, `None` where there is none."""

    prompt: str | None
    text: str


def list_files(sources: list[str]) -> tuple[list[SourceFile], dict[str, int]]:
    """The files of all sources, and how many files of folders were left out, by suffix."""
    if len(sources) > MAX_SOURCES:
        raise ToolError(f"got {len(sources)} sources, wanted at most {MAX_SOURCES}",
                        exit_code=CONFIG)
    files: list[SourceFile] = []
    left_out: dict[str, int] = {}
    for index, source in enumerate(sources):
        if not os.path.isdir(source):
            files.append(SourceFile(index, source, os.stat(source).st_size))
            continue
        num_before = len(files)
        for path in _files_below(source):
            suffix = os.path.splitext(path)[1]
            if suffix in FOLDER_SUFFIXES:
                files.append(SourceFile(index, path, os.stat(path).st_size))
            else:
                left_out[suffix] = left_out.get(suffix, 0) + 1
        if len(files) == num_before:
            wanted = ", ".join(suffix or "no suffix" for suffix in FOLDER_SUFFIXES)
            raise ToolError(f"{source}: holds no file of text or JSONL (wanted {wanted})",
                            "Name files of other kinds one by one: they are read as plain text.")
    return files, left_out


def _files_below(folder: str) -> list[str]:
    def refuse(error: OSError):
        raise error

    paths = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [os.path.join(parent, name) for name in names if not name.startswith(".")]
    return sorted(path for path in paths if os.path.isfile(path))


def read_records(file: SourceFile, separator: str | None) -> Iterator[Record]:
    """The documents of one file, a line or a separated part at a time."""
    with open(file.path, "rb") as stream:
        if file.is_jsonl:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield Record(file, number, line)
        elif separator is None:
            yield Record(file, 1, stream.read())
        else:
            yield from _separated(file, stream, separator.encode())


def _separated(file: SourceFile, stream, separator: bytes) -> Iterator[Record]:
    lines: list[bytes] = []
    first = 1
    for number, line in enumerate(stream, start=1):
        if line.rstrip(b"\r\n") != separator:
            lines.append(line)
            continue
        yield Record(file, first, b"".join(lines))
        lines = []
        first = number + 1
    yield Record(file, first, b"".join(lines))


def decode(record: Record) -> Text:
    """Raises ToolError naming file and line where a record is not what it should be."""
    try:
        text = record.data.decode()
    except UnicodeDecodeError as error:
        line = record.line + record.data.count(b"\n", 0, error.start)
        raise ToolError(
            f"{record.file.path}:{line}: is not UTF-8: byte 0x{record.data[error.start]:02x}",
            "Convert the file, for instance with iconv -t UTF-8.") from None
    if record.line == 1:
        text = text.removeprefix("\ufeff")  # a byte order mark is no part of the text
    if record.file.is_jsonl:
        return _decode_json(text, f"{record.file.path}:{record.line}")
    return Text(None, text.replace("\r\n", "\n"))


def _decode_json(line: str, place: str) -> Text:
    try:
        value = json.loads(line, object_pairs_hook=_unique_keys)
    except ValueError as error:
        raise ToolError(f"{place}: is no valid JSON: {error}") from None
    except RecursionError:
        raise ToolError(f"{place}: is nested too deeply") from None
    if not isinstance(value, dict):
        raise ToolError(f"{place}: is {_kind(value)}, wanted a JSON object")
    if "text" in value and not ("prompt" in value or "completion" in value):
        return Text(None, _string(value, "text", place))
    if "prompt" in value and "completion" in value and "text" not in value:
        return Text(_string(value, "prompt", place), _string(value, "completion", place))
    keys = ", ".join(f"'{key}'" for key in list(value)[:8]) or "none"
    raise ToolError(f"{place}: has the keys {keys}; wanted 'text', or 'prompt' and 'completion'")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key '{twice}' appears twice")
    return value


def _string(value: dict, key: str, place: str) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise ToolError(f"{place}: '{key}' is {_kind(text)}, wanted a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolError(
            f"{place}: '{key}' holds half of a surrogate pair, which is no text") from None
    return text


def _kind(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value)[:80]
