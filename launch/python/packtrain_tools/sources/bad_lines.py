"""Handles lines and documents that cannot be used: framework/data/bad_lines.h in Python."""

import json
import os
from typing import TextIO

from packtrain_tools.chat.values import Unreadable
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.documents import BadRecord
from packtrain_tools.sources.readers import Record

NAME = "bad-lines.jsonl"
SHOWN_BYTES = 1000
SLACK = 1000  # lines: bad ones may be close together


class BadLines:
    def __init__(self, skip: bool, max_fraction: float, folder: str):
        self._skip = skip
        self._max_fraction = max_fraction
        self._path = os.path.join(folder, NAME)
        self._quarantine: TextIO | None = None
        self._num_records = 0
        self._first = ""
        self.num_bad = 0

    @property
    def num_records(self) -> int:
        return self._num_records

    def count(self, num_records: int):
        self._num_records += num_records

    def add(self, record: Record, bad: BadRecord):
        """Skips a record that counts as bad, or raises ToolError."""
        place = f"{record.file.place(bad.line)}: {bad.fault}"
        if not self._skip:
            what = "line" if bad.line == record.line else "document"
            where = "" if record.file.is_table else f" (the {what} begins at byte {record.byte})"
            raise ToolError(place + where,
                            "Mend it, or leave such lines out with --skip-bad-lines.")
        self.num_bad += 1
        self._first = self._first or place
        if self._quarantine is None:
            self._quarantine = open(self._path, "w", encoding="utf-8",  # noqa: SIM115  # closed by finish()
                                    errors="replace")
        self._quarantine.write(json.dumps(_entry(record, bad)) + "\n")
        self._check(self._max_fraction * self._num_records + SLACK)

    def _check(self, most: float):
        if self.num_bad <= most:
            return
        if self._quarantine is not None:
            self._quarantine.flush()
        raise ToolError(
            f"{self.num_bad} of {self._num_records} lines are bad, more than a share of "
            f"{self._max_fraction:g}; the first is {self._first}",
            f"{self._path} lists them; --max-bad-fraction raises the share.")

    def save(self) -> dict:
        """Writes the skipped lines so far to disk and returns the input of `restore`."""
        num_bytes = 0
        if self._quarantine is not None:
            self._quarantine.flush()
            os.fsync(self._quarantine.fileno())
            num_bytes = self._quarantine.tell()
        return {"num_records": self._num_records, "num_bad": self.num_bad, "first": self._first,
                "num_bytes": num_bytes}

    def restore(self, state: dict):
        self._num_records, self.num_bad = state["num_records"], state["num_bad"]
        self._first = state["first"]
        if self.num_bad:
            os.truncate(self._path, state["num_bytes"])
            self._quarantine = open(self._path, "a", encoding="utf-8",  # noqa: SIM115  # closed by finish()
                                    errors="replace")
        elif os.path.exists(self._path):
            os.remove(self._path)

    def finish(self):
        self._check(self._max_fraction * self._num_records)
        if self._quarantine is not None:
            self._quarantine.flush()
            os.fsync(self._quarantine.fileno())
            self._quarantine.close()


def _entry(record: Record, bad: BadRecord) -> dict:
    if record.file.is_table:
        return {"file": record.file.path, "row": bad.line, "fault": bad.fault,
                "text": _shown(record.data)}
    if record.file.is_delimited:
        return {"file": record.file.path, "line": bad.line, "byte": record.byte,
                "num_bytes": record.num_bytes, "fault": bad.fault, "text": _shown(record.data)}
    line_feed = not record.file.is_text and record.content.endswith(b"\n")
    return {"file": record.file.path, "line": bad.line, "byte": record.byte,
            "num_bytes": record.num_bytes - line_feed, "fault": bad.fault,
            "text": record.content[:SHOWN_BYTES].decode(errors="replace").rstrip("\n")}


def _shown(data: bytes | dict | Unreadable) -> str:
    if isinstance(data, Unreadable):
        return data.text
    try:
        return json.dumps(data, default=str)[:SHOWN_BYTES]
    except (ValueError, TypeError, RecursionError):  # keys of maps may have any type
        return repr(list(data))[:SHOWN_BYTES]
