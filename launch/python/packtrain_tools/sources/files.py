"""The sources of `prepare` as files: paths, folders, data sets of the Hugging Face Hub.

In a folder, files of known kinds and with the suffixes of TEXT_SUFFIXES count, in the order of their sorted paths."""

import os
import re
import sys
from collections.abc import Iterable

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.contents import check_content
from packtrain_tools.sources.folders import ABOUT, files_below, saved_dataset
from packtrain_tools.sources.source_file import (HUB, KINDS, STANDARD_INPUT, SourceFile, source_file, split_name,
                                                 standard_input)
from packtrain_tools.sources.splits import check_splits

TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", "")
HUB_PREFIX = "hf:"
MAX_SOURCES = 2**15 - 1  # the store's `source` column is int16
_SHOWN = 5  # names in a message
_PART_OF = re.compile(r"(?P<name>.*[-_.])(?P<part>\d{5,})-of-(?P<all>\d{5,})(?P<suffix>.*)", re.S)


def list_files(sources: list[str], forced: str | None = None,
               stores: Iterable[str] = ()) -> tuple[list[SourceFile], dict[str, int]]:
    """The files of all sources, and the number of files of folders that were left out, by suffix.
    `forced`: the kind of every file. `stores`: output folders, which are no source. Raises ToolError for
    files whose content is of another kind."""
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
    if forced or any(split_name(path)[0] in KINDS for path in paths):
        paths = _without_descriptions(folder, paths)
    files = []
    for path in paths:
        suffix, _ = split_name(path)
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
