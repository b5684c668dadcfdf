"""Continuations that the model of a run generated at several steps, as HTML."""

from html import escape

from packtrain_tools import html_page
from packtrain_tools.report_runs import RunFolder
from packtrain_tools.run_samples import answers_of, read_samples, text_of, title
from packtrain_tools.showing import Decoders


def continuations(run: RunFolder) -> str:
    """For each prompt the continuations of the first, the middle and the last step."""
    samples = read_samples(run.folder)
    steps = sorted({sample["step"] for sample in samples})
    shown = {steps[0], steps[len(steps) // 2], steps[-1]} if steps else set()
    by_prompt: dict[tuple[str, str], list[dict]] = {}  # by store and title
    for sample in samples:
        if sample["step"] in shown:
            by_prompt.setdefault((sample["store"], title(sample)), []).append(sample)
    decoders = Decoders()
    return "".join(_of_prompt(f"{run.name}, {name}", found, decoders)
                   for (_, name), found in by_prompt.items())


def _of_prompt(name: str, samples: list[dict], decoders: Decoders) -> str:
    written = [(f"step {sample['step']:,}", text_of(sample, "continuation", decoders)) for sample in samples]
    if "without_adapter" in samples[-1]:
        written.append(("without the adapter", text_of(samples[-1], "without_adapter", decoders)))
    written += [(name, text_of(samples[-1], part, decoders)) for name, part in answers_of(samples[-1]).items()]
    rows = [f"<tr>{html_page.cell(who, 'text')}{html_page.cell(what, 'text long')}</tr>"
            for who, what in written]
    return (f"<h3>{escape(name)}</h3><pre>{escape(text_of(samples[-1], 'prompt', decoders))}</pre>"
            + html_page.table([("", "text"), ("continues with", "text")], rows, sortable=False))
