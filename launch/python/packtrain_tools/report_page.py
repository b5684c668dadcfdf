"""The sections of a report, as HTML."""

import functools
from collections.abc import Callable
from html import escape

from packtrain_tools import html_page, report_charts, report_packing, report_samples
from packtrain_tools.report_charts import Chart, Line, draw, smooth
from packtrain_tools.report_runs import RunFolder, differences
from packtrain_tools.run_figures import GIB
from packtrain_tools.sweep_table import FIGURES

Runs = list[RunFolder]


def section(title: str, *parts: str) -> str:
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def summary(runs: Runs) -> str:
    shown = [key for key, figure in FIGURES.items()
             if figure.tells([run.figures[key] for run in runs if key in run.figures])]
    rows = []
    for run in runs:
        cells = [html_page.cell(run.name, "text"), html_page.cell(progress_of(run), "text")]
        for key in shown:
            figure, value = FIGURES[key], run.figures.get(key)
            words = "-" if value is None else figure.text(value) + figure.unit
            cells.append(html_page.cell(words, value=value))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = [("run", "text"), ("progress", "text"), *((FIGURES[key].title, "") for key in shown)]
    return html_page.table(heads, rows) + f'<ul class="legend">{"".join(map(legend, runs))}</ul>'


def legend(run: RunFolder) -> str:
    colour = run.colour % report_charts.MAX_COLOURS
    return (f'<li><svg viewBox="0 0 26 8"><path d="M0 4H26" stroke="var(--c{colour})" '
            f'stroke-width="3"{report_charts.dashes(run.colour)}/></svg>{escape(run.name)}</li>')


def progress_of(run: RunFolder) -> str:
    done, wanted = run.figures.get("steps", 0), run.header.get("total_steps")
    if not wanted:
        return f"{done} steps"
    return "finished" if done >= wanted else f"{done} of {wanted} steps"


def remarks(runs: Runs) -> str:
    """The problems of the runs, as text."""
    found = []
    for run in runs:
        for key, words in (("num_skipped_steps", "updates were refused"),
                           ("num_failed_saves", "saves failed")):
            number = sum(step.get(key, 0) for step in run.history.steps)
            if number:
                found.append(f"{run.name}: {number:,} {words}.")
    return "".join(f'<p class="bad">{escape(words)}</p>' for words in found)


def over_steps(run: RunFolder, value: Callable[[dict], float | None]) -> list[tuple[float, float]]:
    points = [(step["step"], value(step)) for step in run.history.steps]
    return [(x, y) for x, y in points if y is not None]


def chart_of(runs: Runs, title: str, y_label: str, value: Callable, **more) -> Chart:
    chart = Chart(title, y_label, **more)
    for run in runs:
        chart.lines.append(Line(run.name, over_steps(run, value), run.colour))
    return chart


def loss_chart(runs: Runs) -> Chart:
    chart = Chart("Training loss", "nats a token (thick: smoothed)")
    for run in runs:
        points = over_steps(run, lambda step: step["loss"])
        finite = [point for point in points if report_charts.is_finite(point[1])]
        chart.lines.append(Line(run.name, finite, run.colour, faint=True))
        chart.lines.append(Line(run.name, smooth(finite), run.colour))
    return chart


def validation_chart(runs: Runs) -> Chart:
    chart = Chart("Validation loss", "nats a token")
    for run in runs:
        points = [(e["step"], e["validation_loss"]) for e in run.history.evaluations]
        chart.lines.append(Line(run.name, points, run.colour, markers=True))
    return chart


def command_charts(runs: Runs) -> list[Chart]:
    """One for each name that run.evaluate_command printed."""
    names = dict.fromkeys(name for run in runs for line in run.history.commands for name in line["evaluate_command"])
    charts = []
    for name in names:
        chart = Chart(name, "run.evaluate_command")
        for run in runs:
            points = sorted((line["step"], line["evaluate_command"][name]) for line in run.history.commands
                            if name in line["evaluate_command"])
            chart.lines.append(Line(run.name, points, run.colour, markers=True))
        charts.append(chart)
    return charts


def _loss_of_source(name: str, step: dict) -> float | None:
    return step.get("loss_by_source", {}).get(name)


def by_source_chart(run: RunFolder) -> Chart:
    """For a single run only: several would have too many lines."""
    names = list(dict.fromkeys(name for step in run.history.steps
                               for name in step.get("loss_by_source", {})))
    chart = Chart("Training loss by source", "nats a token")
    for k, name in enumerate(names):
        points = over_steps(run, functools.partial(_loss_of_source, name))
        chart.lines.append(Line(name, smooth(points), k))
    return chart


def _statistic(name: str, step: dict) -> float | None:
    return step.get("objective", {}).get(name)


def objective_charts(runs: Runs) -> list[Chart]:
    """One for each statistic of an objective of groups, with the values of evaluations as marks."""
    names = dict.fromkeys(name for run in runs for step in run.history.steps for name in step.get("objective", {}))
    charts = []
    for name in names:
        chart = Chart(name.replace("_", " ").capitalize(), "line: training, marks: validation")
        for run in runs:
            points = over_steps(run, functools.partial(_statistic, name))
            chart.lines.append(Line(run.name, smooth(points), run.colour))
            marks = [(e["step"], e["validation_objective"][name]) for e in run.history.evaluations
                     if name in e.get("validation_objective", {})]
            chart.lines.append(Line(run.name, marks, run.colour, markers=True))
        charts.append(chart)
    return charts


def any_value(runs: Runs, key: str, neutral: float) -> bool:
    return any(step.get(key, neutral) != neutral for run in runs for step in run.history.steps)


def curves(runs: Runs) -> str:
    """The charts, except empty ones."""
    def plain(title, y_label, key, factor=1.0, **more):
        return chart_of(runs, title, y_label,
                        lambda step: step[key] * factor if key in step else None, **more)

    charts = [loss_chart(runs), validation_chart(runs), *objective_charts(runs), *command_charts(runs),
              plain("Throughput", "real tokens/s a device", "tokens_per_second_per_device",
                    from_zero=True)]
    if any_value(runs, "mfu", 0):
        charts.append(plain("MFU", "% of the device's peak", "mfu", 100, from_zero=True))
    charts += [plain("Step time", "seconds", "step_time_s", from_zero=True),
               plain("Peak memory", "GiB, rank 0", "peak_memory_bytes", 1 / GIB, from_zero=True),
               plain("Padding", "% of rows", "padding_fraction", 100, from_zero=True),
               plain("Fill", "% of the token budget", "fill", 100, from_zero=True)]
    if any_value(runs, "cost_imbalance", 1) or any_value(runs, "token_imbalance", 1):
        charts += [plain("Cost imbalance", "slowest rank / mean", "cost_imbalance"),
                   plain("Token imbalance", "slowest rank / mean", "token_imbalance")]
    if any_value(runs, "comm_wait_s", 0):
        charts.append(chart_of(runs, "Waiting for communication", "% of the step",
                               lambda step: 100 * step["comm_wait_s"] / step["step_time_s"],
                               from_zero=True))
    charts += [plain("Gradient norm", "before clipping", "grad_norm"),
               plain("Learning rate", "", "learning_rate", from_zero=True)]
    if len(runs) == 1:
        charts.append(by_source_chart(runs[0]))
    drawn = "".join(map(draw, charts))
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def swatches(entries: list[tuple[str, str]]) -> str:
    return '<ul class="legend">' + "".join(
        f'<li><span class="swatch" style="background: var({colour})"></span>{escape(name)}</li>'
        for name, colour in entries) + "</ul>"


def time(runs: Runs) -> str:
    parts, rows = [], []
    heads: list = []
    for run in runs:
        if not run.history.steps:
            continue
        shares = report_packing.time_shares(run.history.steady)
        heads = heads or shares
        parts.append(f"<h3>{escape(run.name)}</h3>"
                     + report_packing.time_bar(run.history.steady, run.name))
        cells = [html_page.cell(f"{share:.2%}", value=share) for *_, share in shares]
        rows.append(f"<tr>{html_page.cell(run.name, 'text')}{''.join(cells)}</tr>")
    if not rows:
        return ""
    table = html_page.table([("share of step time", "text"), *((head[0], "") for head in heads)],
                            rows)
    return swatches([(name, colour) for name, colour, _ in heads]) + "".join(parts) + table


def packings(runs: Runs) -> str:
    parts = []
    for run in runs:
        strategy = run.config.get("batch.strategy", "")
        parts.append(f"<h3>{escape(run.name)} "
                     f'<span class="soft">{escape(strategy)}</span></h3>')
        if run.no_plan:
            parts.append(f'<p class="soft">Not shown: {escape(run.no_plan)}</p>')
        for k, step in enumerate(run.plan.get("steps", [])):
            words = f"<p>{escape(report_packing.packing_words(step))}</p>"
            picture = f'<div class="pictures">{report_packing.packing(step, strategy == "padding")}</div>'
            if k == 0:
                parts += [words, picture]
            else:
                parts.append(f"<details><summary>Step {step['step'] + 1}</summary>"
                             f"{words}{picture}</details>")
    colours = swatches([("examples", "--c0"), ("the next one each", "--c2"), ("padding", "--bad")])
    return colours + "".join(parts)


def histograms(runs: Runs) -> str:
    """One histogram for all runs with the same examples."""
    groups: dict[str, tuple[list[dict], list[str]]] = {}
    for run in runs:
        bins = run.plan.get("lengths")
        if bins:
            groups.setdefault(repr(bins), (bins, []))[1].append(run.name)
    figures = [f"<figure><figcaption>{escape(', '.join(names) if len(groups) > 1 else 'All runs')}"
               f"</figcaption>{report_packing.lengths(bins)}</figure>"
               for bins, names in groups.values()]
    if not figures:
        return ""
    colours = swatches([("share of examples", "--c0"), ("share of tokens", "--c1")])
    return f'{colours}<div class="charts">{"".join(figures)}</div>'


def memory(runs: Runs) -> str:
    """The planned parts of a rank's memory, and the measured total."""
    entries = [{**run.memory.get("allocated_bytes", {}), **run.memory.get("outside_bytes", {})}
               for run in runs]
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    if not names:
        return ""
    planned = [sum(entry.values()) for entry in entries]
    measured = [run.memory["measured_allocated_bytes"] + run.memory["measured_outside_bytes"]
                if "measured_allocated_bytes" in run.memory else None for run in runs]
    unit, name_of_unit = (GIB, "GiB") if max(planned) >= GIB else (2.0**20, "MiB")

    def row(title: str, values: list[int | None], kind: str = "") -> str:
        cells = [html_page.cell("-" if value is None else f"{value / unit:,.2f}")
                 for value in values]
        return f"<tr{kind}>{html_page.cell(title, 'text')}{''.join(cells)}</tr>"

    rows = [row(name, [entry.get(name) for entry in entries]) for name in names]
    rows.append(row("in all, planned", planned, ' class="best"'))
    if any(measured):
        rows.append(row("in all, measured", measured, ' class="best"'))
    heads = [(f"{name_of_unit} of a rank", "text"), *((run.name, "") for run in runs)]
    return html_page.table(heads, rows, sortable=False)


def configurations(runs: Runs) -> str:
    parts = []
    rows = ["<tr>" + html_page.cell(key, "text")
            + "".join(html_page.cell(value, "text long") for value in values) + "</tr>"
            for key, values in differences(runs)]
    if rows:
        heads = [("key", "text"), *((run.name, "text") for run in runs)]
        parts.append(html_page.table(heads, rows, sortable=False))
    elif len(runs) > 1:
        parts.append("<p>All runs have the same configuration.</p>")
    for run in runs:
        parts.append(f"<details><summary>{escape(run.name)}: all keys</summary>"
                     f"<pre>{escape(run.config_text)}</pre></details>")
    return "".join(parts)


STYLE = """
pre { overflow-x: auto; font-size: 12px; background: var(--panel); padding: 8px; }
summary { cursor: pointer; margin: 6px 0; }
"""


def render(runs: Runs, title: str) -> str:
    body = [f"<h1>{escape(title)}</h1>", summary(runs), remarks(runs),
            section("Over the steps", curves(runs)),
            section("Where the time goes", time(runs)),
            section("How steps are packed", packings(runs)),
            section("Lengths of examples", histograms(runs)),
            section("What the model writes", "".join(map(report_samples.continuations, runs))),
            section("Planned memory", memory(runs)),
            section("Configuration differences" if len(runs) > 1 else "Configuration",
                    configurations(runs))]
    style = report_charts.STYLE + report_packing.STYLE + STYLE
    return html_page.page(title, body, style, report_charts.SCRIPT)
