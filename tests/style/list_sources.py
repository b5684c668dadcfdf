#!/usr/bin/env python3
"""Prints the sources that tests/lint looks at: list_sources.py {all,plain,rotating,torch} [FILE...]

All are C++ and CUDA files, plain ones .cpp files that do not see libtorch, torch is every .cpp file. Rotating are plain
files that changed last and the tenth of PACKTRAIN_TURN (tests/rotation.py).
"""

import pathlib
import subprocess
import sys

from includes import IncludeGraph

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rotation  # the path is set above

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM_COMMITS = 30  # whose changes are looked at
NUM_CHANGED = 24  # files at most: a folder that moved does not make all files new


def changed_files(root: pathlib.Path) -> list[str]:
    """Paths that the working tree and the latest commits change, newest first. None outside a git checkout."""
    lines: list[str] = []
    for words in (["diff", "--name-only", "HEAD"], ["log", f"--max-count={NUM_COMMITS}", "--name-only", "--format="]):
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
        lines += done.stdout.splitlines()
    return list(dict.fromkeys(line for line in lines if line))


def source_of(file: str, graph: IncludeGraph, plain: list[str]) -> str | None:
    """The .cpp file to check for a changed one: itself, or for a header the one of its name or the first that includes it."""
    if file in plain:
        return file
    own = str(pathlib.Path(file).with_suffix(".cpp"))
    if own in plain:
        return own
    return next((source for source in plain if any(include.path == file for include in graph.includes[source])), None)


def rotating(graph: IncludeGraph, plain: list[str]) -> list[str]:
    found = [source_of(file, graph, plain) for file in changed_files(graph.root)]
    changed = list(dict.fromkeys(source for source in found if source))[:NUM_CHANGED]
    return sorted({*changed, *rotation.part(plain, rotation.turn_of_run())})


def main() -> None:
    which, chosen = sys.argv[1], sys.argv[2:]
    graph = IncludeGraph(ROOT)
    if which == "all":
        found = chosen or graph.files
    else:
        found = [file for file in chosen or graph.files
                 if file.endswith(".cpp") and (which == "torch" or not graph.uses_torch(file))]
    for file in rotating(graph, found) if which == "rotating" else found:
        print(file)


if __name__ == "__main__":
    main()
