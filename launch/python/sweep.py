#!/usr/bin/env python3
"""Trains the runs that `packtrain sweep` found, and writes their table. Started by that alone: FILE
is the sweep as JSON (launch/cli/sweep.cpp)."""

import difflib
import json
import os
import sys

from packtrain_tools import sweep_table
from packtrain_tools.folder_lock import lock
from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.job_queue import Stopper, run_queue
from packtrain_tools.sweep_runs import STOPPED, Launcher, Run, write_atomically
from packtrain_tools.sweep_table import FIGURES, Table

PROGRAM = "packtrain sweep"


class Sweep:
    def __init__(self, description: dict):
        self.output = description["output"]
        self.description = description
        self.best = self._read_best(description["best"])
        self.runs = [Run.of_description(run, description["columns"]) for run in description["runs"]]
        self.num_ended = 0

    @staticmethod
    def _read_best(best: dict | None) -> tuple[str, bool] | None:
        if best is None:
            return None
        figure = best["figure"]
        if figure not in FIGURES:
            near = difflib.get_close_matches(figure, FIGURES, 1)
            advice = f"Did you mean {near[0]}?" if near else f"Figures: {', '.join(FIGURES)}."
            raise ToolError(f"{best['where']}: sweep.best: unknown figure '{figure}'", advice,
                            CONFIG)
        return figure, best["lowest"]

    def table(self) -> Table:
        results = [result for run in self.runs for result in run.results]
        return Table(results, self.description["columns"], self.description["baseline"],
                     self.best)

    def write_results(self):
        table = self.table()
        title = f"Sweep {os.path.basename(os.path.normpath(self.output))}"
        for name, text in (("results.csv", sweep_table.to_csv(table)),
                           ("results.md", sweep_table.to_markdown(table)),
                           ("results.html", sweep_table.to_html(table, title))):
            write_atomically(os.path.join(self.output, name), text)
        best = os.path.join(self.output, "best.yaml")
        if table.best:
            run = table.best.runs[0]
            write_atomically(best, f"# {table.summary()}\n{run.config}")
        elif os.path.exists(best):
            os.remove(best)

    def train(self) -> int:
        """Returns the exit code: that of the first run that failed, or 75 after a request to stop."""
        waiting = [run for run in self.runs if not run.is_finished]
        self.num_ended = len(self.runs) - len(waiting)
        if self.num_ended:
            say(f"{self.num_ended} of {len(self.runs)} runs are finished")
        launcher = Launcher(*(self.description[key] for key in
                              ("program", "num_ranks", "num_at_once")))
        with Stopper().watching() as stopper:
            self.write_results()
            run_queue(waiting, launcher.num_at_once,
                      lambda run, slot: self._start(launcher, run, slot), stopper, self._end)
        if stopper.num_requests:
            say("stopped; the same command continues")
            return STOPPED
        return next((run.state["exit_code"] for run in self.runs if run.has_failed), 0)

    def _start(self, launcher: Launcher, run: Run, slot: int):
        say(f"{run.name}: starts, log in {run.log}")
        return launcher.job(run, slot)

    def _end(self, run: Run, exit_code: int, seconds: float):
        run.end(exit_code, seconds)
        self.num_ended += run.is_finished or run.has_failed
        line = f"{run.name}: {run.status}, {seconds:.1f} s"
        losses: list[str] = ["validation_loss", "loss"]
        known = [key for key in losses if key in run.figures][:1]
        known += ["tokens_per_second_per_device"] if run.figures else []
        for key in known:
            line += f", {FIGURES[key].title} {FIGURES[key].text(run.figures[key])}"
        say(f"[{self.num_ended}/{len(self.runs)}] {line}")
        if run.has_failed:
            say(f"  {run.state['error']}")
        self.write_results()


def say(text: str):
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


def values_text(values: dict[str, str]) -> str:
    return "  ".join(f"{column}={value}" for column, value in values.items())


def print_runs(sweep: Sweep):
    """Each run with its values, or with a line for each of its adapters."""
    for run in sweep.runs:
        if not run.adapters:
            print(f"{run.status:<12}  {run.name}  {values_text(run.values)}")
            continue
        print(f"{run.status:<12}  {run.name}: {len(run.adapters)} adapters")
        for one in run.adapters:
            print(f"{'':<12}    {one.adapter}  {values_text(one.values)}")
    if separating := sweep.description.get("separating_keys"):
        print(f"Each value of {', '.join(separating)} is in a run of its own: adapters of one run share it.")
    num_left = sum(not run.is_finished for run in sweep.runs)
    print(f"{len(sweep.runs)} runs, {num_left} to train, {sweep.description['num_ranks']} ranks "
          f"each, in {sweep.output}")


def run_all(description: dict) -> int:
    with lock(description["output"], "sweep", "Wait for it, or set another sweep.output."):
        sweep = Sweep(description)
        exit_code = sweep.train()
        print(sweep_table.to_markdown(sweep.table()), end="")
        print(f"\nIn {sweep.output}: results.csv, results.md, results.html"
              f"{', best.yaml' if sweep.table().best else ''}")
    return exit_code


def main() -> int:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="only list the runs")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8") as stream:
        description = json.load(stream)
    if arguments.dry_run:
        print_runs(Sweep(description))
        return 0
    return run_all(description)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
