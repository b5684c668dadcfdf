"""Chooses the cases of a run: the first case of each family, and a tenth of the others that the commit decides.

`tests/run` sets PACKTRAIN_CASES=rotating; `tests/run --exhaustive` and pytest by hand run all cases.
"""

import pathlib
import re
import subprocess
import zlib

NUM_TURNS = 10


def turn_of(commit: str) -> int:
    """The tenth that belongs to a commit's hash (hexadecimal digits)."""
    return int(commit[:8], 16) % NUM_TURNS


def commit_here() -> str:
    """The hash of the checked out commit; zeros outside a git checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "0" * 8


def chosen(names: list[str], turn: int) -> list[bool]:
    """Which tests run, by name: `test_name[family-case]` or `test_name`, which always runs."""
    seen = set()
    keep = []
    for name in names:
        case = re.fullmatch(r"(\w+)\[(\w+)-(.+)\]", name)
        if case is None:
            keep.append(True)
            continue
        test, family, rest = case.groups()
        is_first = (test, family) not in seen
        seen.add((test, family))
        # The same cases for every test: a case is proved by all of them or by none.
        keep.append(is_first or zlib.crc32(f"{family}-{rest}".encode()) % NUM_TURNS == turn)
    return keep
