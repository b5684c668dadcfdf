"""A file that `prepare` reads: its kind and its compression, by its name.

The suffix of a file's name gives its kind, in upper or lower case, without a suffix of COMPRESSIONS. JSON
values one a line are .jsonl, .ndjson, ...; JSON values one after another or in an array are .json. Rows are
.csv and .tsv, tables are .parquet and .arrow. Any other file is plain text."""

import os
import stat
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, ToolError

LINES, VALUES, CSV, TSV, TEXT = "lines", "values", "csv", "tsv", "text"
PARQUET, ARROW, HUB = "parquet", "arrow", "hub"
KINDS = {".jsonl": LINES, ".jsonlines": LINES, ".ndjson": LINES, ".jl": LINES, ".json": VALUES,
         ".csv": CSV, ".tsv": TSV, ".parquet": PARQUET, ".arrow": ARROW}
KIND_NAMES = {"jsonl": LINES, "json": VALUES, "csv": CSV, "tsv": TSV, "text": TEXT,
              "parquet": PARQUET, "arrow": ARROW}  # of --as
TABLES = (PARQUET, ARROW, HUB)
COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
STANDARD_INPUT = "-"
MAX_LINE_BYTES = 64 << 20  # as in framework/data/text_lines.h


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


def split_name(path: str) -> tuple[str, str]:
    """The suffixes of a path that give its kind and its compression."""
    stem, suffix = os.path.splitext(path)
    suffix = suffix.lower()
    if suffix in COMPRESSIONS:
        return os.path.splitext(stem)[1].lower(), suffix
    return suffix, ""


def source_file(source: int, path: str, forced: str | None = None) -> SourceFile:
    """`forced`: its kind, for any name."""
    suffix, compression = split_name(path)
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
