"""The main program of each check of the sources."""

import pathlib
import sys
from collections.abc import Callable


def run_check(find_faults: Callable[[pathlib.Path], list[str]]):
    """Of the folder that the command line names, else of this repository: prints every fault and
    leaves with 1 when there is one."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    faults = find_faults(root.resolve())
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)
