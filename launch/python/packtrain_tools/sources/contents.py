"""Detects files whose content does not match the kind of their name, by their first bytes."""

import json
import os
import re

from packtrain_tools.errors import ToolError
from packtrain_tools.sources.columns import FORMATS, OURS
from packtrain_tools.sources.inputs import opened
from packtrain_tools.sources.source_file import COMPRESSIONS, LINES, STANDARD_INPUT, TEXT, SourceFile

LOOKED_AT = 1 << 12  # bytes
LOOKED_AT_JSON = 1 << 18
_MAGIC = {b"PAR1": ("a Parquet table", ".parquet"), b"ARROW1": ("an Arrow table", ".arrow"),
          b"\x1f\x8b": ("compressed by gzip", ".gz"), b"BZh": ("compressed by bzip2", ".bz2"),
          b"\xfd7zXZ\x00": ("compressed by xz", ".xz"),
          b"\x28\xb5\x2f\xfd": ("compressed by zstd", ".zst"),
          b"PK\x03\x04": ("a ZIP archive (or a spreadsheet)", ""),
          b"SQLite format 3\x00": ("a SQLite database", ""), b"%PDF-": ("a PDF document", "")}
_WIDE_MARKS = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\x00\x00\xfe\xff", "UTF-32"),
               (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_TAR_AT = 257
_MARK = b"\xef\xbb\xbf"  # byte order mark
_SPACE = " \t\r\n"
_ARRAY = re.compile(r"\[\s*\{")
_OBJECT = re.compile(r'\{\s*"(?:[^"\\\n]|\\.)*"\s*:')
_DELIMITED = ((",", "commas", "Rename it so that its name ends in .csv, or give --as csv."),
              ("\t", "tabs", "Rename it so that its name ends in .tsv, or give --as tsv."),
              (";", "semicolons", "Save it as CSV with commas, or as TSV."),
              ("|", "'|'", "Save it as CSV with commas, or as TSV."))
_NAME = re.compile(r"\w[\w.-]{0,40}")
_YAML = re.compile(r"(?:---\s*\n)?- *([a-z]\w*):[ \n]")
_YAML_KEYS = re.compile(r"^ +([a-z]\w*):[ \n]", re.M)
_AS_TEXT = "`packtrain prepare --as text` reads it as plain text."


def check_content(file: SourceFile, is_forced: bool):
    """`is_forced`: the command gives the kind. Raises ToolError."""
    if file.is_table:
        return
    with opened(file, is_look=True) as (_, stream):
        begin = stream.read(LOOKED_AT)
        if begin.removeprefix(_MARK).lstrip()[:1] in (b"{", b"["):
            begin += stream.read(LOOKED_AT_JSON)
    _check_magic(file, begin)
    _check_encoding(file, begin)
    if file.kind == TEXT and not is_forced and b"\x00" in begin:
        raise ToolError(f"{_place(file)}: holds bytes of 0, as binary files do, and text does not",
                        f"Save its contents as JSONL, CSV or text. {_AS_TEXT}")
    text = begin.removeprefix(_MARK).decode(errors="ignore").lstrip(_SPACE)
    if file.kind == LINES:
        _check_lines(file, text)
    elif file.kind == TEXT and not is_forced and text[:1] in ("{", "["):
        _check_text(file, text)
    elif file.kind == TEXT and not is_forced:
        _check_rows(file, text)


def _check_magic(file: SourceFile, begin: bytes):
    if begin[_TAR_AT:_TAR_AT + 5] == b"ustar":
        raise ToolError(f"{file.path}: is a tar archive", "Unpack it, and name its files.")
    for magic, (what, suffix) in _MAGIC.items():
        if begin.startswith(magic) and not _is_only_text(magic, begin):
            raise ToolError(f"{_place(file)}: is {what}, though its name does not say so",
                            _advice(file, suffix))


def _check_encoding(file: SourceFile, begin: bytes):
    name = _wide_encoding(begin)
    if name:
        raise ToolError(f"{_place(file)}: is {name}, wanted UTF-8",
                        f"`iconv -f {name} -t UTF-8 FILE > NEW` converts it.")


def _wide_encoding(begin: bytes) -> str:
    """UTF-16 and UTF-32 begin with a mark, or have a byte of 0 next to each letter. Returns "" for other
    text."""
    marked = next((name for mark, name in _WIDE_MARKS if begin.startswith(mark)), "")
    if marked or len(begin) < 4:
        return marked
    even_is_zero, odd_is_zero = (not begin[i:64:2].strip(b"\x00") for i in (0, 1))
    if even_is_zero == odd_is_zero:
        return ""
    return "UTF-16BE" if even_is_zero else "UTF-16LE"


def _place(file: SourceFile) -> str:
    return "standard input" if file.path == STANDARD_INPUT else file.path


def _advice(file: SourceFile, suffix: str) -> str:
    if not suffix:
        return "Save its contents as JSONL, CSV or text."
    if file.path == STANDARD_INPUT or file.compression:
        return "Decompress it first."
    if suffix in COMPRESSIONS:
        return f"Rename it to {os.path.basename(file.path)}{suffix}."
    return f"Rename it so that its name ends in {suffix}."


def _is_only_text(magic: bytes, begin: bytes) -> bool:
    """True when a text only begins with the letters of a mark; binary files are no text."""
    return magic.isalnum() and b"\x00" not in begin and begin.isascii()


def _check_lines(file: SourceFile, text: str):
    first, _, rest = text.partition("\n")
    advice = "Rename it so that its name ends in .json, or give --as json."
    if _ARRAY.match(text) and (rest.strip(_SPACE) == "" or not _is_json(first)):
        raise ToolError(f"{file.path}: holds one JSON array, wanted a JSON object a line", advice)
    if text.startswith("{") and not _is_json(first) and _first_object(text):
        raise ToolError(f"{file.path}: holds a JSON object over several lines, wanted one a line",
                        advice)


def _check_text(file: SourceFile, text: str):
    value = text[1:].lstrip(_SPACE) if text.startswith("[") else text
    is_cut = len(text) > LOOKED_AT_JSON // 2
    if _first_object(value) or (is_cut and _OBJECT.match(value)):
        raise ToolError(f"{file.path}: would be read as plain text, and begins with a JSON object",
                        "Rename it so that its name ends in .jsonl (an object a line) or .json, or "
                        f"give --as jsonl or --as json. {_AS_TEXT}")


def _check_rows(file: SourceFile, text: str):
    """Texts that begin as tables or lists of records do, with columns of a format."""
    if not text.partition("\n")[2].strip():
        return
    header = text.partition("\n")[0].strip()
    for mark, what, advice in _DELIMITED:
        names = {name.strip("\"' ") for name in header.split(mark)}
        if len(names) > 1 and all(map(_NAME.fullmatch, names)) and (_has_columns(names) or "text" in names):
            raise ToolError(f"{_place(file)}: would be read as plain text, and begins with the header of a table "
                            f"divided by {what}", f"{advice} {_AS_TEXT}")
    found = _YAML.match(text)
    if found and found[1] in OURS and _has_columns({found[1], *_YAML_KEYS.findall(text)}):
        raise ToolError(f"{_place(file)}: would be read as plain text, and begins as a list of records in YAML",
                        f"Convert it to JSONL. {_AS_TEXT}")


def _has_columns(names: set[str]) -> bool:
    """True for those of a format that no prose has by chance."""
    return any(set(columns.required) <= names for columns in FORMATS.values()
               if columns.required not in ((), ("text",), ("label",)))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _first_object(text: str) -> dict | None:
    """The first JSON object, where the text begins with one that is not empty."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
