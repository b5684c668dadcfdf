#!/usr/bin/env python3
"""Writes the tables of docs/results.md (between its `<!-- table: NAME -->` marks) and its plots from
RESULTS/results.json, which train.py made, and RESULTS/adapters.json, which adapters.py made. A table
whose file is not there stays as it is. Needs no package."""

import argparse
import json
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "launch", "python"))

from packtrain_tools.svg_plot import Panel, Series, render  # noqa: E402
from tasks import BASE_DENSITY, DENSITIES, DISTRIBUTIONS  # noqa: E402

NUM_RATES = 3  # of adapters.py
DENSITY_STRATEGIES = ("balanced", "multipack", "fixed_length")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def spread(values: list[float], decimals: int = 4, sign: str = "") -> str:
    """mean ± sample standard deviation"""
    text = f"{statistics.fmean(values):{sign}.{decimals}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.{decimals}f}"


class Results:
    def __init__(self, path: str):
        with open(path, encoding="utf-8") as stream:
            self.json = json.load(stream)
        self.tasks = {task["name"]: task for task in self.json["tasks"]}

    def runs(self, task: str, strategy: str) -> list[dict]:
        """Runs by seed; empty where the task is missing."""
        runs = self.tasks[task]["comparison"]["runs"] if task in self.tasks else []
        return [run for run in runs if run["strategy"] == strategy]

    def losses(self, task: str, strategy: str) -> list[float]:
        """Final validation losses."""
        return [run["evaluations"][-1]["validation_loss"] for run in self.runs(task, strategy)]


def setting_text(results: Results) -> str:
    found = results.json
    return f"Trained on: {found['device']}, {found['epochs']} epochs, {found['seeds']} seeds.\n"


def lengths_table(results: Results) -> str:
    rows = []
    for name in DISTRIBUTIONS:
        info = results.json["lengths"].get(name)
        if info is None:
            continue
        length = info["length"]
        rows.append([name, f"{info['num_examples']:,}", f"{info['num_tokens']:,}",
                     f"{length['mean']:.1f}", f"{length['median']:.0f}", f"{length['p99']:.0f}",
                     f"{length['max']:,}"])
    return table(["texts", "examples", "tokens", "mean", "median", "p99", "longest"], rows)


def strategies_tables(results: Results) -> str:
    text = ""
    for name in ("fortunes", "wordnet"):
        for title, task in ((f"{name}, as a user gets it", f"strategies-{name}"),
                            (f"{name}, as many tokens a step as the others", f"equal-tokens-{name}")):
            if task in results.tasks:
                text += f"**{title}**\n\n{results.tasks[task]['table']}\n"
    return text


def equality_table(results: Results) -> str:
    rows = []
    for name in ("fortunes", "wordnet"):
        for task, where in ((f"equality-{name}", "fp32, 2 CPU ranks"),
                            (f"strategies-{name}", f"bf16, {results.json['device']}")):
            for strategy, found in results.tasks.get(task, {}).get("differences", {}).items():
                steps = results.runs(task, strategy)[0]["num_steps"]
                rows.append([name, where, f"{steps}", strategy, f"{found['mean']:.1e}",
                             f"{found['max']:.1e}"])
    return table(["texts", "computed in", "steps", "strategy", "mean difference", "largest"], rows)


def verify_table(results: Results) -> str:
    rows = [[found["distribution"], "on" if found["cross_example_attention"] else "off",
             str(found["exit_code"]), ", ".join(found["failed"]) or "none"]
            for found in results.json["verify"]]
    return table(["texts", "cross_example_attention", "exit code", "checks that failed"], rows)


def density_table(results: Results, prefix: str) -> str:
    """Final validation losses for each distribution and number of tokens a step."""
    rows = []
    for name in DISTRIBUTIONS:
        for tokens in DENSITIES:
            task = density_task(prefix, name, tokens)
            if task not in results.tasks:
                continue
            run = results.runs(task, "balanced")[0]
            rows.append([f"{name}, {tokens:,}", f"{run['examples_per_step']:.0f}",
                         f"{run['num_steps']:,}",
                         *(spread(losses) if (losses := results.losses(task, strategy)) else "-"
                           for strategy in DENSITY_STRATEGIES)])
    return table(["texts, tokens a step", "examples a step", "steps", *DENSITY_STRATEGIES], rows)


def density_task(prefix: str, distribution: str, tokens: int) -> str:
    """The middle density has one run in all variants."""
    return f"{'epochs' if tokens == BASE_DENSITY else prefix}-{distribution}-{tokens}"


def packing_table(results: Results) -> str:
    """The effect of packing itself, at equal density and steps. It lists differences from balanced with
    the same seed, also as multiples of their spread over seeds."""
    rows = []
    for name in DISTRIBUTIONS:
        for tokens in DENSITIES:
            task = f"epochs-{name}-{tokens}"
            if task not in results.tasks:
                continue
            balanced = results.losses(task, "balanced")
            row = [f"{name}, {tokens:,}", spread(balanced)]
            for strategy in DENSITY_STRATEGIES[1:]:
                losses = results.losses(task, strategy)
                row.append(spread([a - b for a, b in zip(losses, balanced, strict=True)], sign="+"))
            rows.append(row)
    return table(["texts, tokens a step", "balanced", "multipack - balanced",
                  "fixed_length - balanced"], rows)


def losses_by_rate(results: dict, model: str, method: str) -> dict[float, list[float]]:
    """Validation losses in the order of seeds."""
    losses: dict[float, list[float]] = {}
    for run in sorted(results["runs"], key=lambda run: (run["rate"], run["seed"])):
        if (run["model"], run["method"]) == (model, method):
            losses.setdefault(run["rate"], []).append(run["validation_loss"])
    return losses


def adapters_table(results: dict) -> str:
    """Losses at each learning rate, and the best minus the best of all weights, each seed with itself."""
    rows = []
    best_whole: dict[str, list[float]] = {}
    for model, method in dict.fromkeys((run["model"], run["method"]) for run in results["runs"]):
        losses = losses_by_rate(results, model, method)
        best = min(losses.values(), key=statistics.fmean)
        if method == "all weights":  # the first method of a model
            best_whole[model] = best
        whole = best_whole.get(model, [])
        difference = "-"
        if whole is not best and len(whole) == len(best):
            difference = spread([a - b for a, b in zip(best, whole, strict=True)], sign="+")
        rates = ", ".join(f"{rate:g}" for rate in losses)
        columns = [spread(values) for values in losses.values()]
        columns += ["-"] * (NUM_RATES - len(columns))
        rows.append([f"{model}, {method}", rates, *columns, difference])
    before = ", ".join(f"{model} {loss:.4f}" for model, loss in results["before"].items())
    num_seeds = len({run["seed"] for run in results["runs"]})
    header = ["model, what is trained", "learning rates", "first", "second", "third", "best - all weights"]
    return (table(header, rows) + f"\nTrained on: {results['device']}, {num_seeds} seeds. "
            f"Validation loss before: {before}.\n")


def density_plot(results: Results) -> str:
    panels = []
    for name in DISTRIBUTIONS:
        panel = Panel(f"{name}: equal epochs", "tokens a step", "validation loss", log_x=True)
        lines = [("epochs", s, s) for s in DENSITY_STRATEGIES]
        lines += [("scaled", "balanced", "balanced, rate ~ root of tokens"),
                  ("steps", "balanced", "balanced, equal steps")]
        for prefix, strategy, label in lines:
            points = []
            for tokens in DENSITIES:
                task = density_task(prefix, name, tokens)
                if losses := results.losses(task, strategy):
                    x = results.runs(task, strategy)[0]["tokens_per_step"]
                    points.append((x, statistics.fmean(losses)))
            if points:
                panel.series.append(Series(label, points, markers=True))
        panels.append(panel)
    return render(panels)


def strategies_plot(results: Results) -> str:
    panels = []
    for name in ("fortunes", "wordnet"):
        for key, label in (("step", "optimizer steps"), ("device_seconds", "device seconds")):
            panel = Panel(name, label, "validation loss")
            comparison = results.tasks.get(f"strategies-{name}", {}).get("comparison", {"runs": []})
            for run in comparison["runs"]:
                points = [(e[key], e["validation_loss"]) for e in run["evaluations"]]
                panel.series.append(Series(run["strategy"], points))
            panels.append(panel)
    return render(panels)


def fill_in(path: str, name: str, text: str):
    """Replaces the text between the marks of a table."""
    with open(path, encoding="utf-8") as stream:
        page = stream.read()
    pattern = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = pattern.subn(lambda found: found[1] + "\n" + text + "\n" + found[2], page)
    if count != 1:
        sys.exit(f"{path}: wanted one mark <!-- table: {name} -->, found {count}")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(page)


def write_tables(results: Results, page: str):
    """All but that of adapters, and the plots."""
    tables = {"setting": setting_text(results), "lengths": lengths_table(results),
              "strategies": strategies_tables(results), "equality": equality_table(results),
              "verify": verify_table(results), "epochs": density_table(results, "epochs"),
              "scaled": density_table(results, "scaled"), "steps": density_table(results, "steps"),
              "packing": packing_table(results)}
    for name, text in tables.items():
        fill_in(page, name, text)
    folder = os.path.dirname(page)
    for name, image in (("density", density_plot(results)),
                        ("strategies", strategies_plot(results))):
        with open(os.path.join(folder, f"results-{name}.svg"), "w", encoding="utf-8") as stream:
            stream.write(image)
    print(f"{page}: {len(tables)} tables, 2 plots")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", default="runs/results", metavar="RESULTS",
                        help="folder of results.json (default runs/results)")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "results.md"))
    arguments = parser.parse_args()
    adapters = os.path.join(arguments.results, "adapters.json")
    if os.path.exists(adapters):
        with open(adapters, encoding="utf-8") as stream:
            fill_in(arguments.page, "adapters", adapters_table(json.load(stream)))
    path = os.path.join(arguments.results, "results.json")
    if os.path.exists(path):
        write_tables(Results(path), arguments.page)
    elif not os.path.exists(adapters):
        sys.exit(f"{path}: not there, wanted what benchmarks/results/run train makes")


if __name__ == "__main__":
    main()
