"""The model card: README.md with the metadata that the hub reads."""

import os
import re
from dataclasses import dataclass

import yaml

from packtrain_tools.pushing.facts import CACHED, RunFacts, public_config, public_name

MOST_EVALUATIONS = 20
# Those that decide the result.
SECTIONS = ("model", "adapter", "data", "objective", "batch", "optimizer", "schedule", "precision", "run")
CURVES = "training/curves.svg"
CONFIG_FILE = "training/config.yaml"


@dataclass(frozen=True)
class Base:
    """The model before training."""

    name: str  # OWNER/NAME of the hub, the name of a folder, or empty
    is_on_hub: bool


def hub_set(source: str) -> str:
    """OWNER/NAME of hf:OWNER/NAME[/CONFIG][@REVISION][:SPLIT]"""
    return "/".join(re.split("[@:]", source.removeprefix("hf:"))[0].split("/")[:2])


def _metadata(name: str, is_adapter: bool, base: Base, run: RunFacts | None) -> str:
    values: dict[str, object] = {"library_name": "peft" if is_adapter else "transformers",
                                 "pipeline_tag": "text-generation", "tags": ["packtrain"]}
    if base.is_on_hub:
        values["base_model"] = base.name
        values["base_model_relation"] = "adapter" if is_adapter else "finetune"
    sources = [source for store in (run.stores if run else []) for source in store.sources]
    datasets = list(dict.fromkeys(hub_set(source) for source in sources if source.startswith("hf:")))
    if datasets:
        values["datasets"] = datasets
    return f"---\n{yaml.safe_dump(values, sort_keys=False)}---\n\n# {name}\n"


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'|'.join('---' for _ in header)}|",
            *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows), ""]


def _data(run: RunFacts) -> list[str]:
    rows = [[store.role, ", ".join(store.sources), f"{store.num_examples:,}", f"{store.num_tokens:,}",
             f"{store.num_loss_tokens:,}", f"`{store.digest}`"] for store in run.stores]
    lines = ["## Data", "", *_table(["for", "sources", "examples", "tokens", "learned tokens", "digest"], rows),
             "A digest is the SHA-256 of the digests of the store's files, in their order.", ""]
    if run.gone:
        lines += [f"Not described, because they are gone: {', '.join(run.gone)}.", ""]
    return lines


def _losses(run: RunFacts) -> list[str]:
    lines = ["## Losses", ""]
    found = run.figures
    if found:
        lines += [f"{found['steps']:,.0f} optimizer steps, {found['tokens']:,.0f} tokens. Training loss at the end: "
                  f"{found['loss']:.4f} (mean of the last steps).", ""]
    evaluations = run.history.evaluations
    if evaluations:
        every = -(-len(evaluations) // MOST_EVALUATIONS)
        shown = evaluations[::every]
        shown += [evaluations[-1]] if shown[-1] is not evaluations[-1] else []
        rows = [[f"{one['step']:,}", f"{one['validation_loss']:.4f}"] for one in shown]
        lines += _table(["step", "validation loss"], rows)
    if run.history.steps:
        lines += [f"![loss and learning rate]({CURVES})", ""]
    return lines


def _use(name: str, is_adapter: bool, base: str) -> list[str]:
    load = [f'model = AutoModelForCausalLM.from_pretrained("{base if is_adapter else name}")']
    load += [f'model = PeftModel.from_pretrained(model, "{name}")'] if is_adapter else []
    imports = ["from peft import PeftModel"] if is_adapter else []
    return ["## Use", "", "```python", *imports, "from transformers import AutoModelForCausalLM, AutoTokenizer", "",
            f'tokenizer = AutoTokenizer.from_pretrained("{base if is_adapter else name}")', *load, "```", ""]


def make_card(name: str, is_adapter: bool, base: Base, version: str, run: RunFacts | None) -> str:
    """`name`: OWNER/NAME."""
    what = "A LoRA adapter" if is_adapter else "A language model"
    origin = (f" of {base.name}" if is_adapter else f", trained from {base.name}") if base.name else ""
    lines = [_metadata(name.partition("/")[2], is_adapter, base, run),
             f"{what}{origin}. It was trained with {version} on packed examples, which have the losses of examples "
             "trained one by one.", "", *_use(name, is_adapter, base.name)]
    if run is not None:
        shown = {section: run.config[section] for section in SECTIONS if section in run.config}
        lines += [*_data(run), *_losses(run), "## Configuration", "", "```yaml", public_config(shown).rstrip(), "```",
                  "", f"[{CONFIG_FILE}]({CONFIG_FILE}) has all keys.", ""]
    return "\n".join(lines)


def base_of(given: str | None, run: RunFacts | None, adapter: dict) -> Base:
    """The model before training. A folder of this machine has no name on the hub, unless it is of the hub's cache."""
    path = given or (run.base if run else "") or str(adapter.get("base_model_name_or_path") or "")
    is_on_hub = path.startswith("hf:") or CACHED.search(path) is not None
    return Base(public_name(path) if is_on_hub else os.path.basename(path.rstrip("/")), is_on_hub)
