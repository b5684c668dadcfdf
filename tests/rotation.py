#!/usr/bin/env python3
"""Chooses a part of what is exhaustive or slow. The commit decides which of twenty turns it is.

    rotation.py          prints the turn of this commit, 0 to 19.
    rotation.py presets  prints the presets whose tests this run builds and runs: asan, or tsan and fuzz.
    rotation.py others   prints the labels of tests that this run leaves out: the other presets, and half of the slow files.
    rotation.py folders PRESET  prints the folders of tests/ whose C++ tests this run has in the preset asan or tsan.

A turn has one of two halves of the slow files of tests, and one of ten parts of the cases. The halves have the labels half_0
and half_1, by the hash of a test's name (packtrain_pytest in cmake/PacktrainTargets.cmake). `tests/run` sets PACKTRAIN_TURN.
Without it, as in `tests/run --exhaustive` and in pytest by hand, all runs.
"""

import os
import pathlib
import re
import subprocess
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TypeVar

NUM_TURNS = 10  # parts of the cases
NUM_HALVES = 2
PRESETS = (("asan",), ("tsan", "fuzz"))  # of even and of odd turns
# The C++ tests that one run has under a sanitizer. The last parts need nearly all libraries, the first ones few.
FOLDERS = {
    "asan": (("framework", "samplers", "collators", "fuzz"), ("models",), ("parallel",), ("training",), ("launch",)),
    "tsan": (("framework", "samplers"), ("parallel", "training")),
}
CASES_OF_A_TEST = r"(\w+)\[.+\]"
CASES_OF_A_FAMILY = r"(\w+)\[(\w+)-.+\]"
SECONDS_A_DAY = 24 * 3600

Item = TypeVar("Item")


def turn_of(commit: str) -> int:
    """The turn of a commit's hash (hexadecimal digits)."""
    return int(commit[:8], 16) % (NUM_TURNS * NUM_HALVES)


def turn_here() -> int:
    """The turn of the checked out commit. Outside a git checkout the day decides."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True)
    return turn_of(done.stdout) if done.returncode == 0 else int(time.time() / SECONDS_A_DAY) % (NUM_TURNS * NUM_HALVES)


def turn_of_run() -> int | None:
    """Which part of the cases this run of the tests has, or None where all run."""
    text = os.environ.get("PACKTRAIN_TURN", "")
    return int(text) % NUM_TURNS if text else None


def halves_left_out() -> list[str]:
    """The labels of the slow files that this run of the tests leaves out."""
    text = os.environ.get("PACKTRAIN_TURN", "")
    return [f"half_{half}" for half in range(NUM_HALVES) if half != int(text) // NUM_TURNS % NUM_HALVES] if text else []


def presets(turn: int | None) -> tuple[str, ...]:
    """The presets of sanitizers and fuzzers that a run has."""
    return sum(PRESETS, ()) if turn is None else PRESETS[turn % len(PRESETS)]


def folders(preset: str, turn: int | None) -> tuple[str, ...]:
    """The folders of tests/ whose C++ tests a run has in the preset. All without a turn."""
    parts = FOLDERS[preset]
    return sum(parts, ()) if turn is None else parts[turn // len(PRESETS) % len(parts)]


def part(items: list[Item], turn: int | None, num_parts: int = NUM_TURNS) -> list[Item]:
    """Every `num_parts`-th of the items: each is in the part of one turn at least. All without a turn."""
    num_parts = max(min(num_parts, len(items), NUM_TURNS), 1)
    return items if turn is None else items[turn % num_parts::num_parts]


def chosen(names: list[str], turn: int, group_of: str = CASES_OF_A_TEST, num_parts: int = NUM_TURNS) -> list[bool]:
    """Which tests run, by name. One of `num_parts` cases of a group runs, at least one.

    The parentheses of `group_of` hold the group's name. Names that do not match always run."""
    groups = [match.groups() if (match := re.fullmatch(group_of, name)) else None for name in names]
    sizes = Counter(groups)
    seen: dict[tuple, int] = defaultdict(int)
    keep = []
    for group in groups:
        if group is None:
            keep.append(True)
            continue
        num_own_parts = min(sizes[group], num_parts)
        # Groups begin at different cases, so that no turn has all slow ones. Tests of one family begin at the same
        # case, because they share its model.
        begin = zlib.crc32(group[-1].encode())
        keep.append(seen[group] % num_own_parts == (begin + turn) % num_own_parts)
        seen[group] += 1
    return keep


def deselect(config, items: list, folder: pathlib.Path, rule_of: Callable[[str], dict | None] = lambda file: {}) -> None:
    """Removes from pytest's items those of a folder of tests that this run does not have.

    `rule_of` returns what `chosen` gets for a file's name, None where all tests run. A case is left out by one rule
    alone: two could leave one out at every turn."""
    turn = turn_of_run()
    if turn is None:
        return
    by_file = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(folder):
            by_file[item.path].append(item)
    left_out = set()
    for path, own in by_file.items():
        rule = rule_of(path.name)
        if rule is None:
            continue
        keep = chosen([item.name for item in own], turn, **rule)
        left_out |= {item.nodeid for item, kept in zip(own, keep, strict=True) if not kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def main() -> None:
    what = sys.argv[1:]
    if not what:
        print(turn_here())
    elif what == ["presets"]:
        print(*presets(turn_of_run()))
    elif what == ["others"]:
        print(*(preset for preset in presets(None) if preset not in presets(turn_of_run())), *halves_left_out())
    elif len(what) == 2 and what[0] == "folders" and what[1] in FOLDERS:
        print(*folders(what[1], turn_of_run()))
    else:
        sys.exit("usage: rotation.py [presets | others | folders {asan|tsan}]")


if __name__ == "__main__":
    main()
