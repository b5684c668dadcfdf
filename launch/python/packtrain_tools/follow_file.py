"""Reads a file of JSON lines while a run writes it: whole lines only. It starts again where the file was
cut, as by a run that resumes from a checkpoint."""

import json
import os
from typing import BinaryIO

from packtrain_tools.errors import ToolError


class FollowedFile:
    def __init__(self, path: str):
        self._path = path
        self._stream: BinaryIO | None = None
        self._last = b""  # the last line that was read

    def poll(self) -> tuple[bool, list[dict]]:
        """Returns whether earlier lines are no longer valid, and the new lines."""
        if self._stream is None:
            if not os.path.exists(self._path):
                return False, []
            self._stream = open(self._path, "rb")  # noqa: SIM115
            return False, self._read_lines(self._stream)
        if not self._was_cut(self._stream):
            return False, self._read_lines(self._stream)
        self.close()
        self._stream = open(self._path, "rb")  # noqa: SIM115
        self._last = b""
        return True, self._read_lines(self._stream)

    def _was_cut(self, stream: BinaryIO) -> bool:
        """True when the file is another one, or the last line read is no longer in it."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False  # removed: a new file may come
        ours = os.fstat(stream.fileno())
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            return True
        position = stream.tell()
        stream.seek(max(position - len(self._last), 0))
        return stream.read(len(self._last)) != self._last

    def _read_lines(self, stream: BinaryIO) -> list[dict]:
        lines: list[dict] = []
        while True:
            begin = stream.tell()
            line = stream.readline()
            if not line.endswith(b"\n"):
                stream.seek(begin)  # no line, or half a line
                return lines
            self._last = line
            try:
                lines.append(json.loads(line))
            except ValueError:
                raise ToolError(f"{self._path}: byte {begin} begins no line of metrics") from None

    def close(self):
        if self._stream is not None:
            self._stream.close()
            self._stream = None
