"""Finds rows of CSV or TSV that a stray quote has joined. A cell may hold line feeds, so such a row is a valid one."""

import csv
import itertools
import re

_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))


def are_rows(lines: list[str], delimiter: str, num_fields: int) -> bool:
    """True where each line of one row is itself a row of the file. Lines of prose or code have delimiters too,
    but rarely the same number in each, without a space after it and within no brackets. A writer of quoted cells
    doubles the quotes in them."""
    doubled = re.compile(rf'(?<![{delimiter}\n])""|""(?![{delimiter}\r\n])')
    if any(doubled.search(f"\n{line}\n") for line in lines):
        return False
    return _begins_as_row(lines[0], delimiter, num_fields) and \
        all(_is_row(_fields(line, delimiter), delimiter, num_fields) for line in lines[1:])


def _begins_as_row(line: str, delimiter: str, num_fields: int) -> bool:
    """The line has a cell whose quote does not end in it. Read without this quote, it is a row."""
    fields = _fields(line, delimiter)
    return _is_row([*fields[:-1], *fields[-1].split(delimiter)], delimiter, num_fields)


def _fields(line: str, delimiter: str) -> list[str]:
    found = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    return found or [""]


def _is_row(fields: list[str], delimiter: str, num_fields: int) -> bool:
    if len(fields) != num_fields or not fields[0].strip() or not fields[-1].strip():
        return False
    if any(field.count(begin) != field.count(end) for field in fields for begin, end in _PAIRS):
        return False
    if delimiter != ",":
        return True
    return not any(after[:1].isspace() or (before[-1:].isdigit() and after[:1].isdigit())
                   for before, after in itertools.pairwise(fields))
