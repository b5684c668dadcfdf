"""JSON values one after another, or the elements of one array, with one of them in memory."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from packtrain_tools.chat.values import json_fault
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.source_file import MAX_LINE_BYTES, SourceFile

BLOCK_BYTES = 1 << 20
SHOWN = 20  # characters
_SPACE = " \t\r\n,"
_BETWEEN = re.compile(f"[{_SPACE}]*")
# Only the end of a value is needed here, so numbers of any length are not converted.
_DECODER = json.JSONDecoder(parse_int=len, parse_float=len)


def json_values(file: SourceFile, stream: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Line, byte and text of each value. Raises ToolError where other text is between them."""
    pending, line, byte = "", 1, 0
    enough = 0  # characters to read before an incomplete value is tried again
    in_array: bool | None = None
    for text, is_last in _text_blocks(file, stream):
        pending += text
        if len(pending) < enough and not is_last:
            continue
        if in_array is None and pending.strip():
            in_array = pending.lstrip().startswith("[")
            pending = pending.replace("[", " ", 1) if in_array else pending
        at = 0
        while (found := _next_value(file, pending, at, line, is_last, bool(in_array))):
            begin, end = found
            line += pending.count("\n", at, begin)
            byte += len(pending[at:begin].encode())
            data = pending[begin:end].encode()
            yield line, byte, data
            line += pending.count("\n", begin, end)
            byte += len(data)
            at = end
        pending = pending[at:]
        enough = min(2 * len(pending), MAX_LINE_BYTES + 1)
    if pending.strip(_SPACE) != ("]" if in_array else ""):
        raise ToolError(f"{file.place(line)}: the array has no end", "Is the file complete?")


def _after_blanks(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _next_value(file: SourceFile, text: str, at: int, line: int, is_last: bool,
                in_array: bool) -> tuple[int, int] | None:
    """Begin and end of the value at `at`, which begins in `line`. None where more text must be read first,
    or where an array ends."""
    begin = _after_blanks(text, at)
    if begin == len(text):
        return None
    if in_array and text[begin] == "]":
        after = _after_blanks(text, begin + 1)
        if after < len(text):
            raise ToolError(f"{file.place(line + text.count(chr(10), at, after))}: "
                            f"{text[after:after + SHOWN]!r} follows the end of the array",
                            "Wanted one array, or values one after the other.")
        return None
    try:
        _, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        if not is_last and len(text) - begin <= MAX_LINE_BYTES:
            return None
        fault = json_fault(error) if isinstance(error, ValueError) else "is nested too deeply"
        place = file.place(line + text.count(chr(10), at, begin))
        if not is_last:
            raise ToolError(f"{place}: no value ends within {MAX_LINE_BYTES:,} characters: {fault}",
                            "Are the records inside of another object? `jq -c '.data[]' FILE > NEW.jsonl` "
                            "takes them out of its list `data`.") from None
        raise ToolError(f"{place}: {fault}") from None
    return (begin, end) if is_last or end < len(text) else None  # a number may continue


def _text_blocks(file: SourceFile, stream: BinaryIO) -> Iterator[tuple[str, bool]]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        while block := stream.read(BLOCK_BYTES):
            yield decoder.decode(block), False
        yield decoder.decode(b"", True), True
    except UnicodeDecodeError as error:
        raise ToolError(f"{file.path}: is not UTF-8: {error.reason}") from None
