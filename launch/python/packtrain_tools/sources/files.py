"""The sources of `prepare` as files: paths, folders, data sets of the Hugging Face Hub.

The suffix of a file's name gives its kind, in upper or lower case, without a suffix of COMPRESSIONS. JSON
values one a line are .jsonl, .ndjson, ...; JSON values one after another or in an array are .json. Rows are
.csv and .tsv, tables are .parquet and .arrow. Any other file is plain text. In a folder, files of these kinds
and with the suffixes of TEXT_SUFFIXES count, in the order of their sorted paths."""

import os
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.folders import ABOUT, files_below, saved_dataset
from packtrain_tools.sources.splits import check_splits

LINES, VALUES, CSV, TSV, TEXT = "lines", "values", "csv", "tsv", "text"
PARQUET, ARROW, HUB = "parquet", "arrow", "hub"
KINDS = {".jsonl": LINES, ".jsonlines": LINES, ".ndjson": LINES, ".jl": LINES, ".json": VALUES,
         ".csv": CSV, ".tsv": TSV, ".parquet": PARQUET, ".arrow": ARROW}
KIND_NAMES = {"jsonl": LINES, "json": VALUES, "csv": CSV, "tsv": TSV, "text": TEXT,
              "parquet": PARQUET, "arrow": ARROW}  # of --as
TABLES = (PARQUET, ARROW, HUB)
COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", "")
HUB_PREFIX = "hf:"
STANDARD_INPUT = "-"
MAX_SOURCES = 2**15 - 1  # the store's `source` column is int16
MAX_LINE_BYTES = 64 << 20  # as in framework/data/text_lines.h
_SHOWN = 5  # names in a message
_PART_OF = re.compile(r"(?P<name>.*[-_.])(?P<part>\d{5,})-of-(?P<all>\d{5,})(?P<suffix>.*)", re.S)


@dataclass(frozen=True, slots=True)
class SourceFile:
    source: int  # index of the source it belongs to
    path: str
    num_bytes: int
    kind: str
    compression: str = ""

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT

    @property
    def is_table(self) -> bool:
        return self.kind in TABLES

    @property
    def is_delimited(self) -> bool:
        return self.kind in (CSV, TSV)

    @property
    def has_schema(self) -> bool:
        """True when all records have the same columns, which the file names."""
        return self.is_table or self.is_delimited

    def place(self, number: int) -> str:
        """The position of a line, counted from 1, or of a table's row."""
        return f"{self.path}: row {number}" if self.is_table else f"{self.path}:{number}"


def _split_name(path: str) -> tuple[str, str]:
    """The suffixes of a path that give its kind and its compression."""
    stem, suffix = os.path.splitext(path)
    suffix = suffix.lower()
    if suffix in COMPRESSIONS:
        return os.path.splitext(stem)[1].lower(), suffix
    return suffix, ""


def source_file(source: int, path: str, forced: str | None = None) -> SourceFile:
    """`forced`: its kind, for any name."""
    suffix, compression = _split_name(path)
    kind = forced or KINDS.get(suffix, TEXT)
    if compression and kind in TABLES:
        raise ToolError(f"{path}: is a compressed {kind} file", "Decompress it first.")
    if os.path.islink(path) and not os.path.exists(path):
        raise ToolError(f"{path}: is a link to {os.readlink(path)}, which is missing",
                        "Correct the link, or remove it if its data is not wanted.")
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: is no regular file, and sources are read more than once",
                        f"Write to a file first, or pipe into the source {STANDARD_INPUT}.")
    return SourceFile(source, path, status.st_size, kind, compression)


def standard_input(source: int, forced: str | None = None) -> SourceFile:
    if forced in TABLES:
        raise ToolError(f"standard input cannot be read as {forced}, which is read from its end",
                        "Write it to a file first.", CONFIG)
    return SourceFile(source, STANDARD_INPUT, 0, forced or LINES)


def list_files(sources: list[str], forced: str | None = None,
               stores: Iterable[str] = ()) -> tuple[list[SourceFile], dict[str, int]]:
    """The files of all sources, and the number of files of folders that were left out, by suffix.
    `forced`: the kind of every file. `stores`: output folders, which are no source. Raises ToolError for
    files whose content is of another kind."""
    from packtrain_tools.sources.contents import check_content  # reads files, as listed here
    if len(sources) > MAX_SOURCES:
        raise ToolError(f"got {len(sources)} sources, wanted at most {MAX_SOURCES}",
                        exit_code=CONFIG)
    if sources.count(STANDARD_INPUT) > 1:
        raise ToolError(f"standard input ({STANDARD_INPUT}) is named twice", exit_code=CONFIG)
    files: list[SourceFile] = []
    left_out: dict[str, int] = {}
    written = {os.path.realpath(folder) for folder in stores}
    for index, source in enumerate(sources):
        files += _files_of(index, source, forced, left_out, written)
    _check_repeated(files)
    for file in files:
        check_content(file, forced is not None)
    return files, left_out


def _check_repeated(files: list[SourceFile]):
    """Refuses data that is named twice, also through a link. Reports a file next to its compressed copy."""
    paths: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    for file in files:
        real = file.path if file.kind == HUB else os.path.realpath(file.path)
        if real in paths:
            names = dict.fromkeys((paths[real], file.path))
            what = "are the same data" if len(names) > 1 else "is named twice"
            raise ToolError(f"{' and '.join(names)} {what}, which would be read twice",
                            "Name it once. To train on data more often, give its store `repeats`.", CONFIG)
        paths[real] = file.path
        unpacked = file.path[:len(file.path) - len(file.compression)]
        copies.setdefault(unpacked, []).append(file.path)
    for same in copies.values():
        if len(same) > 1:
            print(f"packtrain prepare: {' and '.join(same)} are all read: are they the same data?", file=sys.stderr)


def _files_of(index: int, source: str, forced: str | None, left_out: dict[str, int],
              written: set[str]) -> list[SourceFile]:
    if source == STANDARD_INPUT:
        return [standard_input(index, forced)]
    if source.startswith(HUB_PREFIX):
        from packtrain_tools.sources.hub import hub_size  # importing `datasets` takes a second
        return [SourceFile(index, source, hub_size(source), HUB)]
    if os.path.isdir(source):
        return _folder_files(index, source, forced, left_out, written)
    if not os.path.exists(source) and re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise ToolError(f"{source}: No such file or directory",
                        f"For a data set of the Hugging Face Hub write {HUB_PREFIX}{source}.")
    return [source_file(index, source, forced)]


def _folder_files(index: int, folder: str, forced: str | None, left_out: dict[str, int],
                  written: set[str]) -> list[SourceFile]:
    names = saved_dataset(folder)
    if names is not None:
        return [source_file(index, os.path.join(folder, name)) for name in names]
    paths = files_below(folder, written)
    if forced or any(_split_name(path)[0] in KINDS for path in paths):
        paths = _without_descriptions(folder, paths)
    files = []
    for path in paths:
        suffix, _ = _split_name(path)
        if forced or suffix in KINDS or suffix in TEXT_SUFFIXES:
            files.append(source_file(index, path, forced))
        else:
            left_out[suffix] = left_out.get(suffix, 0) + 1
    if not files:
        wanted = ", ".join(suffix or "no suffix" for suffix in (*KINDS, *TEXT_SUFFIXES))
        raise ToolError(f"{folder}: holds no file that could be data (wanted {wanted})",
                        "Name files of other kinds one by one: they are read as plain text.")
    check_splits(folder, [(os.path.relpath(file.path, folder), file.is_text) for file in files])
    _report_missing_parts(folder, files)
    return files


def _without_descriptions(folder: str, paths: list[str]) -> list[str]:
    """Reports the files that it leaves out."""
    about = {path: os.path.relpath(path, folder) for path in paths if ABOUT.fullmatch(os.path.basename(path))}
    if about:
        names = ", ".join(list(about.values())[:_SHOWN])
        more = f" and {len(about) - _SHOWN:,} more" if len(about) > _SHOWN else ""
        print(f"packtrain prepare: {folder}: left out, as it describes data: {names}{more}", file=sys.stderr)
    return [path for path in paths if path not in about]


def _report_missing_parts(folder: str, files: list[SourceFile]):
    """Reports files NAME-00000-of-00004 whose other parts are not in the folder."""
    parts: dict[tuple[str, str, str], set[str]] = {}
    for file in files:
        found = _PART_OF.fullmatch(os.path.relpath(file.path, folder))
        if found:
            parts.setdefault((found["name"], found["all"], found["suffix"]), set()).add(found["part"])
    for (name, total, suffix), present in sorted(parts.items()):
        if len(present) < int(total):
            print(f"packtrain prepare: {folder}: holds {len(present)} of the {int(total)} files "
                  f"{name}*-of-{total}{suffix}: are the others missing?", file=sys.stderr)
