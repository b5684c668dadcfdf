#!/usr/bin/env python3
"""Draws DIR/compare.svg from DIR/compare.json: validation loss of every strategy against optimizer
steps and against device time. `packtrain compare` starts it; `packtrain compare --plot DIR` too."""

import json
import os
import sys

from packtrain_tools.errors import Parser, ToolError, run_main
from packtrain_tools.svg_plot import Panel, Series, render

PROGRAM = "packtrain compare --plot"


def panel(runs: list[dict], key: str, title: str, x_label: str) -> Panel:
    drawn = Panel(title, x_label, "validation loss")
    for run in runs:
        points = [(point[key], point["validation_loss"]) for point in run["evaluations"]]
        if points:
            drawn.series.append(Series(run["strategy"], points))
    return drawn


def main():
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("folder", metavar="DIR", help="what `packtrain compare` wrote")
    folder = parser.parse_args().folder
    path = os.path.join(folder, "compare.json")
    with open(path, encoding="utf-8") as stream:
        runs = json.load(stream)["runs"]
    if not any(run["evaluations"] for run in runs):
        raise ToolError(f"{path}: no run has a validation loss to draw",
                        "Compare with data.validation.")
    image = render([panel(runs, "step", "at equal steps", "optimizer steps"),
                    panel(runs, "device_seconds", "at equal device time",
                          "seconds of training steps")])
    with open(os.path.join(folder, "compare.svg"), "w", encoding="utf-8") as stream:
        stream.write(image)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
