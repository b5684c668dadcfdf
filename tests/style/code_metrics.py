#!/usr/bin/env python3
"""Measures the code: tests/lint --metrics (docs/architecture.md, "The codebase in numbers").

    code_metrics.py [ROOT]    prints sizes, and by name what is too long, undocumented or duplicated

Needs lizard (https://github.com/terryyin/lizard) for the ends of functions.
"""

import collections
import pathlib
import re
import signal
import statistics
import sys
from dataclasses import dataclass

import lizard
from class_sizes import MAX_FUNCTIONS, MAX_MEMBERS, class_sizes
from include_direction import find_faults
from includes import IncludeGraph

LONG_FILE, LONG_FUNCTION = 300, 100  # lines
DUPLICATE_LINES = 8  # a run of this many equal lines is written twice
NOT_OURS = ("build", "bundle", "runs", ".")  # beginnings of folders at the root that hold no source
NOTHING_SAID = re.compile(r"(#include|#pragma|import |from |using |namespace|[{}()\[\];,]*$|//|#)")
DECLARATION = re.compile(r"^(?!using |namespace |#|}|static_assert|extern)[\w:<>,&*\[\] ]+\(", re.MULTILINE)


@dataclass
class Part:
    name: str
    files: list[str]


def parts_of(root: pathlib.Path, graph: IncludeGraph) -> list[Part]:
    tests = [file for file in graph.files if file.startswith("tests/")]
    program = [file for file in graph.files if not file.startswith("tests/")]
    python = sorted(str(path.relative_to(root)) for path in root.rglob("*.py"))
    python = [file for file in python if not file.startswith(NOT_OURS)]
    parts = [Part("C++ and CUDA", program), Part("tests in C++", tests), Part("Python", python)]
    return [part for part in parts if part.files]


def lines_of(root: pathlib.Path, file: str) -> list[str]:
    return (root / file).read_text(encoding="utf-8").splitlines()


def functions_of(root: pathlib.Path, file: str) -> list[tuple[int, str]]:
    """(lines, name) of each function that has a body."""
    found = lizard.analyze_file(str(root / file)).function_list
    return [(one.end_line - one.start_line + 1, f"{file}: {one.name}") for one in found]


def ninetieth(numbers: list[int]) -> int:
    return sorted(numbers)[int(0.9 * (len(numbers) - 1))]


def sizes(root: pathlib.Path, part: Part) -> str:
    """A row of the table."""
    files = [len(lines_of(root, file)) for file in part.files]
    functions = [lines for file in part.files for lines, _ in functions_of(root, file)] or [0]
    return (f"| {part.name} | {len(files)} | {sum(files):,} | {statistics.median(files):.0f} / {ninetieth(files)} "
            f"/ {max(files)} "
            f"| {len(functions):,} | {statistics.median(functions):.0f} / {ninetieth(functions)} / {max(functions)} |")


def too_long(root: pathlib.Path, parts: list[Part]) -> list[str]:
    files = [file for part in parts for file in part.files]
    long_files = [f"{file}: {len(lines_of(root, file))} lines" for file in files
                  if len(lines_of(root, file)) > LONG_FILE]
    long_functions = [f"{name}: {lines} lines" for file in files for lines, name in functions_of(root, file)
                      if lines > LONG_FUNCTION]
    return long_files + long_functions


def undocumented(root: pathlib.Path, graph: IncludeGraph) -> list[str]:
    """Functions at the outer level of headers that neither the header's first comment nor one above
    their group documents."""
    found = []
    for file in graph.files:
        text = (root / file).read_text(encoding="utf-8")
        if not file.endswith(".h") or text.startswith("//"):
            continue
        for group in text.split("\n\n"):
            if "//" not in group:
                found += [f"{file}: {match[0].strip()}" for match in DECLARATION.finditer(group)]
    return found


def duplicated(root: pathlib.Path, files: list[str]) -> list[str]:
    """Places of runs of equal lines, each run once."""
    places = collections.defaultdict(list)
    for file in files:
        said = [(number, line.strip()) for number, line in enumerate(lines_of(root, file), 1)
                if not NOTHING_SAID.match(line.strip())]
        for at in range(len(said) - DUPLICATE_LINES + 1):
            run = tuple(line for _, line in said[at:at + DUPLICATE_LINES])
            places[run].append((file, said[at][0], at))
    found, covered = [], set()
    for where in places.values():
        if len(where) > 1:
            # The run that begins a line later belongs to the same one.
            if not any((file, at - 1) in covered for file, _, at in where):
                found.append(" = ".join(f"{file}:{number}" for file, number, _ in where))
            covered.update((file, at) for file, _, at in where)
    return found


def report(root: pathlib.Path) -> str:
    graph = IncludeGraph(root)
    parts = parts_of(root, graph)
    lists = {
        "include edges against the direction": find_faults(root),
        f"files over {LONG_FILE} and functions over {LONG_FUNCTION} lines": too_long(root, parts),
        f"classes over {MAX_MEMBERS} data members or {MAX_FUNCTIONS} public functions":
            [str(size) for size in class_sizes(root) if size.is_large()],
        "functions of headers that no comment documents": undocumented(root, graph),
        f"runs of {DUPLICATE_LINES} equal lines": duplicated(root, [file for part in parts for file in part.files]),
    }
    lines = ["| part | files | lines | lines a file: median / 90th / longest | functions "
             "| lines a function: median / 90th / longest |",
             "|---|---:|---:|---|---:|---|", *(sizes(root, part) for part in parts), ""]
    for what, found in lists.items():
        lines += [f"{what}: {len(found)}", *(f"  {one}" for one in found)]
    return "\n".join(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    print(report(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../../..").resolve()))
