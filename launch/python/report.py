#!/usr/bin/env python3
"""Writes one HTML file about runs: loss, throughput, memory and imbalance over the steps. It also
shows where the time goes, how steps are packed, lengths, planned memory, and how configurations
differ. The file needs no network and no other file."""

import argparse
import os
import sys

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.report_page import render
from packtrain_tools.report_runs import RunFolder
from packtrain_tools.sweep_runs import write_atomically

PROGRAM = "packtrain report"
MOST_RUNS = 32


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run (run.output)")
    parser.add_argument("--out", metavar="FILE",
                        help="default: report.html in the run's folder, for several runs here")
    parser.add_argument("--program", help=argparse.SUPPRESS)  # of packtrain, for its plans
    return parser.parse_args()


def read_runs(folders: list[str]) -> list[RunFolder]:
    """Reads the runs and gives them names that distinguish them."""
    folders = list(dict.fromkeys(os.path.normpath(folder) for folder in folders))
    if len(folders) > MOST_RUNS:
        raise ToolError(f"got {len(folders)} runs, wanted at most {MOST_RUNS}",
                        "packtrain sweep has a table of any number.", CONFIG)
    runs = [RunFolder(folder) for folder in folders]
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        run.colour = number
        if names.count(run.name) > 1:
            run.name = run.folder
    return runs


def main():
    arguments = parse_arguments()
    runs = read_runs(arguments.runs)
    for run in runs:
        run.ask_plan(arguments.program)
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    out = arguments.out or (os.path.join(runs[0].folder, "report.html") if len(runs) == 1
                            else "report.html")
    write_atomically(out, render(runs, f"packtrain: {title}"))
    print(out)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
