#!/usr/bin/env python3
"""Finds types of one name in two headers of the program.

    type_names.py [ROOT]    prints every fault; exit code 1 when there is one

All types are in one namespace. Two of one name break the one definition rule. The linker keeps one of their destructors
and says nothing.
"""

import pathlib
import re
from collections import defaultdict

from includes import IncludeGraph
from run_check import run_check

TYPE = re.compile(r"^(?:template <[^>]*>\n)?(?:struct|class|enum class) (?:alignas\([^)]*\) )?(\w+)[^;{(]*\{", re.MULTILINE)


def find_faults(root: pathlib.Path) -> list[str]:
    files = defaultdict(list)
    for file in IncludeGraph(root).files:
        if file.endswith((".h", ".cuh")) and not file.startswith("tests/"):
            for name in set(TYPE.findall((root / file).read_text(encoding="utf-8"))):
                files[name].append(file)
    return [f"{name}: defined in {' and in '.join(sorted(where))}: give one of them another name"
            for name, where in sorted(files.items()) if len(where) > 1]


if __name__ == "__main__":
    run_check(find_faults)
