#!/usr/bin/env python3
"""Prints the sources that tests/lint looks at: list_sources.py {all,plain,torch} [FILE...]

all: every C++ and CUDA file; plain: .cpp files that do not see libtorch; torch: every .cpp file.
"""

import pathlib
import sys

from includes import IncludeGraph


def main():
    which, chosen = sys.argv[1], sys.argv[2:]
    graph = IncludeGraph(pathlib.Path(__file__).resolve().parent.parent.parent)
    for file in chosen or graph.files:
        is_wanted = which == "torch" or not graph.uses_torch(file)
        if which == "all" or (file.endswith(".cpp") and is_wanted):
            print(file)


main()
