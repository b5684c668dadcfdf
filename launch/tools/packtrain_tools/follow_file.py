"""Reads a file of JSON lines while somebody writes it: whole lines only, and from the start again
where it was cut, as a run does that goes on from a checkpoint."""

import json
import os
from typing import BinaryIO

from packtrain_tools.errors import ToolError


class FollowedFile:
    def __init__(self, path: str):
        self._path = path
        self._stream: BinaryIO | None = None
        self._last = b""  # line that was read

    def poll(self) -> tuple[bool, list[dict]]:
        """Whether the lines read so far no longer count, and the lines that are new."""
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
        """The file is another one, or what was read last is no longer there."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False  # removed: a new one may come
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
                stream.seek(begin)  # nothing, or half a line
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
