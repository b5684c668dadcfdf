#!/usr/bin/env python3
"""Which lines of the CPU code ran: line_coverage.py BUILD [ROOT], for tests/coverage.

Reads the counters that a build with `--coverage` left, with the gcov of its compiler. Prints a line a folder, and the
files of which less than FEW ran. Writes BUILD/lines-not-run.txt: `file: first-last, ...`.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

FEW = 0.7
DEEP = ("framework", "models", "parallel", "training")  # folders whose next level has a line of its own


def lines_of(counters: pathlib.Path, root: pathlib.Path) -> list[tuple[str, int, int]]:
    """(file, line, times it ran) of a compiled file and what it includes, of ours alone."""
    command = ["gcov", "--json-format", "--stdout", str(counters)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, cwd=counters.parent).stdout
    found = []
    for source in (file for one in text.splitlines() for file in json.loads(one)["files"]):
        path = pathlib.Path(os.path.normpath(counters.parent / source["file"]))
        if path.is_relative_to(root) and not path.is_relative_to(root / "tests"):
            name = str(path.relative_to(root))
            found += [(name, line["line_number"], line["count"]) for line in source["lines"]]
    return found


def runs_of(build: pathlib.Path, root: pathlib.Path) -> dict[str, dict[int, int]]:
    """{file: {line: times}}; a line of a header ran when it did anywhere."""
    runs: dict[str, dict[int, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda counters: lines_of(counters, root), sorted(build.rglob("*.gcda"))):
            for name, line, count in found:
                runs[name][line] += count
    return {name: lines for name, lines in runs.items() if not name.startswith(("build", "benchmarks"))}


def folder_of(name: str) -> str:
    folders = name.split("/")[:-1]
    return "/".join(folders[:2 if folders[0] in DEEP else 1])


def ranges(lines: list[int]) -> str:
    """[3, 4, 5, 9] -> "3-5, 9"."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and parts[-1][1] == line - 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def table(runs: dict[str, dict[int, int]]) -> str:
    folders: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for name, lines in runs.items():
        for folder in (folder_of(name), "all"):
            folders[folder][0] += sum(count > 0 for count in lines.values())
            folders[folder][1] += len(lines)
    rows = [f"| {folder} | {total:,} | {100 * ran / total:.1f} % |" for folder, (ran, total) in sorted(folders.items())]
    return "\n".join(["| folder | lines | run |", "|---|---:|---:|", *rows])


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
    runs = runs_of(build, root)
    if not runs:
        sys.exit(f"line_coverage: {build} has no counters: build with --coverage and run tests first")
    print(table(runs))
    missed = {name: sorted(line for line, count in lines.items() if count == 0) for name, lines in runs.items()}
    for name in sorted(runs):
        if 1 - len(missed[name]) / len(runs[name]) < FEW:
            print(f"{name}: {len(missed[name])} of {len(runs[name])} lines did not run")
    text = "".join(f"{name}: {ranges(missed[name])}\n" for name in sorted(missed) if missed[name])
    (build / "lines-not-run.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
