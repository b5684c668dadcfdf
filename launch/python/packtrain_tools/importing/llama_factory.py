"""LLaMA-Factory's configuration files, with its list of data sets (dataset_info.json)."""

import json
import os

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.importing.adapting import convert_factory_adapter
from packtrain_tools.importing.conversion import Conversion
from packtrain_tools.importing.keys import Keys, refusal, short
from packtrain_tools.importing.no_effect import CHANGES, FACTORY_CHANGES, FACTORY_NO_EFFECT, NO_EFFECT
from packtrain_tools.importing.preparing import (DataSet, add_lengths, convert_length, convert_model, held_out_options,
                                                 hub_name, set_stores)
from packtrain_tools.importing.sharding import convert_sharding
from packtrain_tools.importing.training import convert_training, hugging_face

DIALECT = hugging_face(5e-5)
INFO = "dataset_info.json"
ALPACA = {"instruction": "prompt", "input": "query", "output": "response", "system": "system", "history": "history"}
ALPACA_DEFAULTS = {"instruction": "instruction", "input": "input", "output": "output"}
KNOWN = ("hf_hub_url", "ms_hub_url", "om_hub_url", "file_name", "formatting", "ranking", "subset", "split",
         "columns", "tags")
ROLES = {"user": "user_tag", "assistant": "assistant_tag", "tool": "observation_tag", "system": "system_tag"}


def convert_factory(c: Conversion):
    keys = c.keys
    stage = keys.text("stage") or "sft"
    if stage not in ("sft", "pt"):
        raise refusal(keys, f"stage: {stage[:40]}")
    model = convert_model(c, "model_name_or_path", "model_revision")
    convert_factory_adapter(c)
    packed, too_long = _strategy(c, stage)
    length = convert_length(c, "cutoff_len", 2048, too_long)
    convert_training(c, DIALECT, length, packed)
    if keys.has("early_stopping_steps"):
        c.write("run.early_stopping_patience", keys.integer("early_stopping_steps"), "early_stopping_steps")
    if c.flag("disable_gradient_checkpointing"):
        c.write("memory.recompute", "none", "disable_gradient_checkpointing")
    convert_sharding(c)
    _convert_data(c, model, stage)
    c.leave_all(CHANGES | FACTORY_CHANGES, True)
    c.leave_all(NO_EFFECT | FACTORY_NO_EFFECT, False)


def _strategy(c: Conversion, stage: str) -> tuple[bool, str]:
    """Whether steps are of packed sequences, and data.too_long."""
    keys = c.keys
    neat, packing = keys.flag("neat_packing"), keys.flag("packing")
    names = [key for key in ("packing", "neat_packing") if keys.has(key)]
    if stage == "pt" and packing is not False:
        c.write("batch.strategy", "fixed_length", *names, note="texts one after the other, cut into rows")
        c.write("batch.cross_example_attention", True)
        return True, "split"
    if neat or packing:
        note = "" if neat else "without attention across examples, which `packing` alone has there"
        c.write("batch.strategy", "multipack", *names, note=note or "packs of whole examples")
        return True, "truncate"
    c.write("batch.strategy", "balanced", *names, note="the same steps as padded batches, without padding")
    if c.flag("disable_shuffling"):
        c.write("batch.order", "sequential", "disable_shuffling")
    return False, "truncate"


def _read_info(keys: Keys) -> tuple[dict, str]:
    """dataset_info.json, and its folder; an empty list where it is not there."""
    named = keys.text("dataset_dir") or "data"
    for base in (os.getcwd(), os.path.dirname(os.path.abspath(keys.file))):
        folder = os.path.join(base, named)
        path = os.path.join(folder, INFO)
        if os.path.isfile(path):
            try:
                with open(path, encoding="utf-8") as stream:
                    info = json.load(stream)
            except (ValueError, RecursionError) as error:
                raise ToolError(f"{path}: is no valid JSON: {str(error)[:200]}", exit_code=CONFIG) from None
            if not isinstance(info, dict):
                raise ToolError(f"{path}: wanted a mapping of names to data sets", exit_code=CONFIG)
            return info, os.path.normpath(named if base == os.getcwd() else folder)
    return {}, named


def _convert_data(c: Conversion, model: str, stage: str):
    keys = c.keys
    info, folder = _read_info(keys)
    names = keys.texts("dataset") or []
    sets = [_data_set(c, info, folder, name, "dataset", stage) for name in names]
    for name in keys.texts("eval_dataset") or []:
        one = _data_set(c, info, folder, name, "eval_dataset", stage)
        one.is_validation = True
        sets.append(one)
    if keys.has("dataset_dir"):
        c.use("dataset_dir", "prepare: the folder of the files")
    _set_shares(c, [one for one in sets if not one.is_validation])
    add_lengths(c, sets)
    _add_options(c, sets)
    size = keys.number("val_size")
    if size == 0:
        c.leave("val_size", "off", False)
    set_stores(c, sets, model, held_out_options(size), ("val_size",) if size else ())


def _set_shares(c: Conversion, sets: list[DataSet]):
    keys = c.keys
    strategy = keys.text("mix_strategy") or "concat"
    parts = keys.texts("interleave_probs")
    if strategy == "concat":
        if keys.has("mix_strategy"):
            c.use("mix_strategy", "data.train")
        return
    if parts is None or len(parts) != len(sets):
        c.leave("mix_strategy", f"{strategy[:40]} needs interleave_probs with a number for each data set: all are "
                                "used once")
        return
    numbers = Keys({f"[{index}]": part for index, part in enumerate(parts)}, keys.file, "interleave_probs")
    for index, one in enumerate(sets):
        one.share = numbers.number(f"[{index}]", 1e-9, 1)
    until = "all_exhausted" if strategy == "interleave_over" else "first_exhausted"
    c.write("data.mixture_until", until, "mix_strategy")
    c.use("interleave_probs", "data.train", "probability")


def _add_options(c: Conversion, sets: list[DataSet]):
    keys = c.keys
    options: list[tuple[str, list[str]]] = []
    if c.flag("train_on_prompt"):
        options.append(("train_on_prompt", ["--train-on", "all"]))
    elif c.flag("mask_history"):
        options.append(("mask_history", ["--train-on", "last"]))
    if (most := keys.integer("max_samples", 1)) is not None:
        options.append(("max_samples", ["--max-examples", str(most)]))
    if (system := keys.text("default_system")) is not None:
        options.append(("default_system", ["--system", system]))
    if keys.flag("enable_thinking") is False:
        options.append(("enable_thinking", ["--template-option", "enable_thinking=false"]))
    elif keys.has("enable_thinking"):
        c.use("enable_thinking", "the template's own default")
    for key, words in options:
        c.use(key, f"prepare {words[0]}", " ".join(words[1:]))
        for one in sets:
            one.add(*words)
    template = keys.text("template")
    if template is not None:
        c.leave("template", f"{template[:40]} is a template of LLaMA-Factory: the tokenizer's own is used. Compare "
                            "with "
                            "`packtrain inspect STORE`")


def _data_set(c: Conversion, info: dict, folder: str, name: str, key: str, stage: str) -> DataSet:
    if name not in info:
        one = DataSet(f"{folder}/{name}.json", keys=[key])
        c.leave(f"{key}: {name[:60]}", f"{INFO} is not in {folder}, or does not have it: put its file and format "
                                       "into the "
                                       "command")
        return one
    if not isinstance(info[name], dict):
        raise ToolError(f"{folder}/{INFO}: {name[:60]}: wanted a mapping", exit_code=CONFIG)
    entry = Keys(info[name], f"{folder}/{INFO}", f"{name}.")
    if entry.flag("ranking"):
        raise ToolError(f"{c.keys.file}: {key}: {name[:60]} holds preference pairs, which supervised training "
                        "does not read", exit_code=CONFIG)
    hub, file = entry.text("hf_hub_url"), entry.text("file_name")
    if hub is None and file is None:
        c.leave(f"{key}: {name[:60]}", f"{INFO} has neither hf_hub_url nor file_name of it: put its file into the "
                                       "command")
    _leave_description(c, entry, key)
    source = hub_name(hub, entry.text("subset"), split=entry.text("split")) if hub else f"{folder}/{file or name}"
    one = DataSet(source, keys=[key])
    if stage == "pt":
        column = entry.section("columns").text("prompt") or "text"
        one.add("--format", "text", *([] if column == "text" else ["--column", f"text={column}"]))
    elif entry.text("formatting") == "sharegpt":
        _add_messages(entry, one)
    else:
        _add_instructions(entry, one)
    return one


def _leave_description(c: Conversion, entry: Keys, key: str):
    """Lists keys of dataset_info.json that no command takes."""
    columns = entry.section("columns")
    for media in ("images", "videos", "audios", "chosen", "rejected", "kto_tag"):
        if columns.has(media):
            c.leave(f"{key}: {columns.path(media)}", "data of text alone is trained, and no pairs or judgements")
    for name in entry.values:
        if name not in KNOWN and entry.has(name):
            c.leave(f"{key}: {entry.path(name)}",
                    f"{short(entry.get(name))}: `prepare` has no such key; look at the data")


def _add_instructions(entry: Keys, one: DataSet):
    columns = entry.section("columns")
    one.add("--format", "instruction", "--instructions-as", "chat")
    for ours, theirs in ALPACA.items():
        name = columns.text(theirs) or (None if columns.values else ALPACA_DEFAULTS.get(ours))
        if name is not None and name != ours:
            one.add("--column", f"{ours}={name}")


def _add_messages(entry: Keys, one: DataSet):
    columns, tags = entry.section("columns"), entry.section("tags")
    messages = columns.text("messages") or "conversations"
    one.add("--format", "sharegpt" if messages == "conversations" else "messages")
    if messages not in ("messages", "conversations"):
        one.add("--column", f"messages={messages}")
    for ours in ("system", "tools"):
        if columns.text(ours) not in (None, ours):
            one.add("--column", f"{ours}={columns.text(ours)}")
    for ours, tag in (("role", "role_tag"), ("content", "content_tag")):
        if tags.has(tag):
            one.add("--message-key", f"{ours}={tags.text(tag)}")
    for role, tag in ROLES.items():
        if tags.text(tag) not in (None, role):
            one.add("--role", f"{role}={tags.text(tag)}")
