"""The table of a sweep's results: one row a run or, where run.seed is varied, one row for all seeds."""

import csv
import io
import math
from dataclasses import dataclass, field
from html import escape

from packtrain_tools import html_page
from packtrain_tools.sweep_runs import AdapterOfRun, Result

SEED = "run.seed"


@dataclass(frozen=True)
class Figure:
    title: str
    decimals: int
    factor: float = 1
    unit: str = ""
    neutral: float | None = None  # a column with only this value is left out of the table
    in_csv_alone: bool = False

    def tells(self, values: list[float]) -> bool:
        if self.in_csv_alone:
            return False
        if self.neutral is None:
            return bool(values)
        least = 0.5 * 10.0**-self.decimals / self.factor  # the smallest value that a cell shows
        return any(abs(value - self.neutral) >= least for value in values)

    def text(self, value: float) -> str:
        return f"{value * self.factor:,.{self.decimals}f}"


# In the order of the table.
FIGURES = {
    "steps": Figure("steps", 0),
    "loss": Figure("loss", 4),
    "validation_loss": Figure("validation loss", 4),
    "loss_difference": Figure("loss - baseline", 4),
    "tokens_per_second_per_device": Figure("tokens/s a device", 0),
    "speedup": Figure("speed-up", 2),
    "tflops_per_device": Figure("TFLOP/s a device", 1, neutral=0),
    "mfu": Figure("MFU", 1, 100, " %", 0),
    "peak_memory_gib": Figure("peak GiB", 2),
    "padding_fraction": Figure("padding", 1, 100, " %", 0),
    "fill": Figure("fill", 1, 100, " %"),
    "token_imbalance": Figure("token imbalance", 3, neutral=1),
    "cost_imbalance": Figure("cost imbalance", 3, neutral=1),
    "comm_wait_fraction": Figure("waiting for communication", 1, 100, " %", 0),
    "tokens_per_step": Figure("tokens a step", 0),
    "examples_per_step": Figure("examples a step", 1),
    "device_seconds": Figure("device s", 1),
    "tokens": Figure("tokens", 0, in_csv_alone=True),
    "peak_learning_rate": Figure("largest learning rate", 6, in_csv_alone=True),
}
NOTES = ("Speeds are of real tokens, without the first 3 steps, which count in device seconds as "
         "long as the mean of the others; memory is rank 0's; the loss is the mean of the last 10 "
         "steps, over their loss tokens; what else changes from step to step is the mean of all.")
NOTES_OF_ADAPTERS = (" Adapters of one run share its time by their tokens; memory, padding, fill and imbalance are "
                     "those of the run.")


@dataclass
class Row:
    """Runs, or adapters of runs, that differ only in their seed."""

    values: dict[str, str]
    runs: list[Result] = field(default_factory=list)
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)  # mean, deviation

    @property
    def status(self) -> str:
        return ", ".join(dict.fromkeys(run.status for run in self.runs))


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


class Table:
    """`baseline`: values of the runs with which others, equal in all else, are compared."""

    def __init__(self, runs: list[Result], columns: list[str], baseline: dict[str, str],
                 best: tuple[str, bool] | None):
        self.runs, self.baseline = runs, baseline
        self.columns = [column for column in columns if column != SEED]
        self.over_seeds = SEED in columns
        self.extra = {run.name: self._against_baseline(run) for run in runs}
        self.rows = self._make_rows()
        self.shown = [key for key in FIGURES if self._is_shown(key)]
        self.best_figure, self.best_is_lowest = best or self._default_best()
        self.best = self._find_best()

    def _against_baseline(self, run: Result) -> dict[str, float]:
        if not self.baseline:
            return {}
        wanted = {**run.values, **self.baseline}
        other = next((other for other in self.runs
                      if other.values == wanted and other.is_finished), None)
        if other is None or not run.is_finished:
            return {}
        key = "validation_loss" if "validation_loss" in run.figures else "loss"
        rate = "tokens_per_second_per_device"
        found = {"speedup": run.figures[rate] / other.figures[rate]}
        if key in other.figures:
            found["loss_difference"] = run.figures[key] - other.figures[key]
        return found

    def _make_rows(self) -> list[Row]:
        rows: dict[tuple, Row] = {}
        for run in self.runs:
            values = {column: run.values[column] for column in self.columns}
            rows.setdefault(tuple(values.values()), Row(values)).runs.append(run)
        for row in rows.values():
            done = [{**run.figures, **self.extra[run.name]} for run in row.runs if run.is_finished]
            for key in FIGURES:
                known = [figures[key] for figures in done if key in figures]
                if known and len(known) == len(done):
                    row.figures[key] = mean_and_deviation(known)
        return list(rows.values())

    def _is_shown(self, key: str) -> bool:
        return FIGURES[key].tells([row.figures[key][0] for row in self.rows if key in row.figures])

    def _default_best(self) -> tuple[str, bool]:
        return ("validation_loss" if "validation_loss" in self.shown else "loss", True)

    def _find_best(self) -> Row | None:
        rows = [row for row in self.rows if self.best_figure in row.figures
                and math.isfinite(row.figures[self.best_figure][0])]
        sign = 1 if self.best_is_lowest else -1
        return min(rows, key=lambda row: sign * row.figures[self.best_figure][0], default=None)

    def text_of(self, row: Row, key: str) -> str:
        if key not in row.figures:
            return "-"
        figure, (mean, deviation) = FIGURES[key], row.figures[key]
        spread = f" ± {figure.text(deviation)}" if len(row.runs) > 1 else ""
        return figure.text(mean) + spread + figure.unit

    @property
    def heads(self) -> list[str]:
        """Titles of columns: keys without their section where that is unambiguous."""
        keys = [column.rsplit(".", 1)[-1] for column in self.columns]
        names = [key if keys.count(key) == 1 else column
                 for key, column in zip(keys, self.columns)]
        return [*names, "status", *(FIGURES[key].title for key in self.shown)]

    def cells(self) -> list[list[str]]:
        return [[*row.values.values(), row.status, *(self.text_of(row, key) for key in self.shown)]
                for row in self.rows]

    def failures(self) -> list[tuple[str, str]]:
        """Name and error, once a run."""
        errors = {run.name.partition("/")[0]: f"exit code {run.state['exit_code']}: {run.state.get('error', '')}"
                  for run in self.runs if run.has_failed}
        return list(errors.items())

    def summary(self) -> str:
        num_finished = sum(run.is_finished for run in self.runs)
        num_failed = sum(run.has_failed for run in self.runs)
        kind = "adapters" if self.of_adapters else "runs"
        text = f"{num_finished} of {len(self.runs)} {kind} finished"
        if num_failed:
            text += f", {num_failed} failed"
        if self.best:
            direction = "lowest" if self.best_is_lowest else "highest"
            text += (f"; {direction} {FIGURES[self.best_figure].title}: "
                     f"{self.text_of(self.best, self.best_figure)} ({self.best.runs[0].name})")
        return text + "."

    def notes(self) -> str:
        seeds = " Mean ± sample standard deviation over seeds." if self.over_seeds else ""
        return NOTES + (NOTES_OF_ADAPTERS if self.of_adapters else "") + seeds

    @property
    def of_adapters(self) -> bool:
        return any(isinstance(run, AdapterOfRun) for run in self.runs)


def to_csv(table: Table) -> str:
    """One line a run, with all figures."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = list(table.runs[0].values)
    writer.writerow(["name", *columns, "status", "exit_code", "error", *FIGURES, "job_seconds",
                     "hash", "folder"])
    for run in table.runs:
        known = {**run.figures, **table.extra[run.name]}
        writer.writerow([run.name, *run.values.values(), run.status,
                         run.state.get("exit_code", "") if run.is_begun else "",
                         run.state.get("error", ""),
                         *(f"{known[key]:.8g}" if key in known else "" for key in FIGURES),
                         f"{run.state['seconds']:.1f}" if run.is_begun else "", run.hash,
                         run.folder])
    return stream.getvalue()


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def to_markdown(table: Table) -> str:
    num_text = len(table.columns) + 1
    lines = ["| " + " | ".join(map(_markdown_cell, table.heads)) + " |",
             "|" + "---|" * num_text + "---:|" * len(table.shown)]
    lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in table.cells()]
    lines += ["", table.summary(), "", table.notes()]
    for name, error in table.failures():
        lines += ["", f"- {name}: {_markdown_cell(error)}"]
    return "\n".join(lines) + "\n"


def to_html(table: Table, title: str) -> str:
    num_text = len(table.columns) + 1
    rows = []
    for row, texts in zip(table.rows, table.cells()):
        cells = [html_page.cell(text, "text") for text in texts[:num_text]]
        cells += [html_page.cell(text, value=row.figures[key][0] if key in row.figures else None)
                  for text, key in zip(texts[num_text:], table.shown)]
        name = ' class="best"' if row is table.best else ""
        rows.append(f"<tr{name}>{''.join(cells)}</tr>")
    heads = [(head, "text" if k < num_text else "") for k, head in enumerate(table.heads)]
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(table.summary())}</p>",
            html_page.table(heads, rows),
            f'<p class="soft">{escape(table.notes())} A click on a column sorts by it.</p>']
    if table.failures():
        body.append("<h2>Failed runs</h2>")
        body += [f'<p><b>{escape(name)}</b><br><span class="bad">{escape(error)}</span></p>'
                 for name, error in table.failures()]
    return html_page.page(title, body)
