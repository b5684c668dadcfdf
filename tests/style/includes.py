"""The includes of our C++ and CUDA sources, as a graph."""

import functools
import pathlib
import re
from dataclasses import dataclass

FOLDERS = ("framework", "samplers", "collators", "models", "parallel", "training", "launch", "tests",
           "benchmarks")
SUFFIXES = (".h", ".cuh", ".cpp", ".cu")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.MULTILINE)
_TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")


@dataclass(frozen=True)
class Include:
    path: str
    is_ours: bool  # written in quotes: a file of this repository, from its root
    line: int


class IncludeGraph:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.files = sorted(
            str(path.relative_to(root)) for folder in FOLDERS
            for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
        self.includes = {file: self._parse(root / file) for file in self.files}

    @staticmethod
    def _parse(path: pathlib.Path) -> list[Include]:
        text = path.read_text(encoding="utf-8")
        return [Include(match[2], match[1] == '"', text.count("\n", 0, match.start(2)) + 1)
                for match in _INCLUDE.finditer(text)]

    @functools.cache  # noqa: B019  # a graph lives as long as its program
    def external(self, file: str) -> frozenset[str]:
        """Headers of others that `file` includes, itself or through our headers."""
        found, seen, queue = set(), {file}, [file]
        while queue:
            for include in self.includes.get(queue.pop(), ()):
                if not include.is_ours:
                    found.add(include.path)
                elif include.path not in seen:
                    seen.add(include.path)
                    queue.append(include.path)
        return frozenset(found)

    def uses_torch(self, file: str) -> bool:
        return any(_TORCH.match(header) for header in self.external(file))
