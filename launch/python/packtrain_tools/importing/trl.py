"""Configuration files of `trl sft --config`."""

import os

from packtrain_tools.importing.adapting import convert_trl_adapter
from packtrain_tools.importing.conversion import Conversion
from packtrain_tools.importing.keys import Keys, refusal
from packtrain_tools.importing.no_effect import CHANGES, NO_EFFECT, TRL_NO_EFFECT
from packtrain_tools.importing.preparing import (LIBRARY_READERS, DataSet, add_lengths, convert_length,
                                                 convert_model, held_out_options, hub_name, is_local, set_stores)
from packtrain_tools.importing.sharding import convert_sharding
from packtrain_tools.importing.training import convert_training, hugging_face

DIALECT = hugging_face(2e-5)
OTHER_TRAINING = ("beta", "num_generations", "reward_funcs", "reward_model_name_or_path", "ref_model",
                  "desirable_weight")


def convert_trl(c: Conversion):
    keys = c.keys
    for key in OTHER_TRAINING:
        if keys.has(key):
            raise refusal(keys, f"{key} is of preference or reinforcement learning")
    model = convert_model(c, "model_name_or_path", "model_revision")
    convert_trl_adapter(c)
    packed, too_long = _strategy(c)
    length = _length(c, too_long)
    convert_training(c, DIALECT, length, packed)
    if not c.keys.has("gradient_checkpointing"):
        c.write("memory.recompute", "auto", note="recomputes only what the memory of the GPU needs (memory.fit)")
    convert_sharding(c)
    _leave_loss(c)
    _convert_data(c, model)
    c.leave_all(CHANGES, True)
    c.leave_all(NO_EFFECT | TRL_NO_EFFECT, False)


def _strategy(c: Conversion) -> tuple[bool, str]:
    """Whether steps are of packed sequences, and data.too_long."""
    keys = c.keys
    kind = keys.text("packing_strategy") or "bfd"
    names = [key for key in ("packing", "packing_strategy") if keys.has(key)]
    if not keys.flag("packing"):
        c.write("batch.strategy", "balanced", *names, note="the same steps as padded batches, without padding")
        return False, "truncate"
    if kind == "wrapped":
        c.write("batch.strategy", "fixed_length", *names, note="texts one after the other, cut into rows")
        c.write("batch.cross_example_attention", True)
        return True, "split"
    if kind not in ("bfd", "bfd_split", "bfd-requeue", "ffd"):
        raise keys.fail("packing_strategy", "bfd, bfd_split or wrapped")
    c.write("batch.strategy", "multipack", *names, note="packs of whole examples, without attention across them")
    return True, "truncate" if kind in ("bfd", "ffd") else "split"


def _length(c: Conversion, too_long: str) -> int | None:
    keys = c.keys
    key = "max_length" if keys.has("max_length") or not keys.has("max_seq_length") else "max_seq_length"
    names = [key] if keys.has(key) else []
    if "max_length" in keys.values and not keys.has("max_length") and key == "max_length":
        c.leave("max_length", "null: nothing is cut. Set data.max_length to the longest example, which `packtrain "
                              "plan` prints")
        return None
    length = convert_length(c, key, 1024, too_long, *names)
    if keys.text("truncation_mode") == "keep_end":
        c.leave("truncation_mode", "keep_end does not exist here: the beginning is kept")
    elif keys.has("truncation_mode"):
        c.use("truncation_mode", "data.too_long", too_long)
    return length


def _leave_loss(c: Conversion):
    if c.keys.text("loss_type") in ("nll", "chunked_nll"):
        c.leave("loss_type", "the cross entropy of learned tokens, as here", False)


def _convert_data(c: Conversion, model: str):
    keys = c.keys
    sets = [_mixed(c, entry) for entry in keys.sections("datasets")]
    evaluates = keys.word("eval_strategy") not in (None, "no")
    name = keys.text("dataset_name")
    if sets and name:
        c.leave("dataset_name", "`datasets` comes before it", False)
    elif name:
        sets = _named(c, name, evaluates)
    _set_options(c, sets)
    add_lengths(c, sets)
    tokenizer = model
    size = keys.number("test_split_size", 0)
    if any(one.share is not None for one in sets):
        c.write("data.mixture_until", "first_exhausted")
    set_stores(c, sets, tokenizer, held_out_options(size), ("test_split_size",) if size else ())
    for key in ("dataset_config", "dataset_train_split", "dataset_test_split"):
        if keys.has(key) and not c.is_done(key):
            c.leave(key, "eval_strategy is not set: nothing is evaluated" if key == "dataset_test_split" else
                    "`datasets` names the data", False)


def _named(c: Conversion, name: str, evaluates: bool) -> list[DataSet]:
    keys = c.keys
    train, test = (keys.text(f"dataset_{part}_split") for part in ("train", "test"))
    config = keys.text("dataset_config")
    used = [key for key in ("dataset_name", "dataset_config", "dataset_train_split") if keys.has(key)]
    if is_local(name):
        if train not in (None, "train") or config or evaluates:
            c.leave("dataset_name: splits", "a local source has no splits for `prepare`: name the file of each")
        return [DataSet(name, keys=used)]
    sets = [DataSet(hub_name(name, config, split=train), keys=used)]
    if evaluates:
        held = DataSet(hub_name(name, config, split=test or "test"), is_validation=True)
        held.keys = ["dataset_test_split"] if keys.has("dataset_test_split") else []
        sets.append(held)
    return sets


def _mixed(c: Conversion, entry: Keys) -> DataSet:
    path = entry.text("path")
    if path is None:
        raise entry.fail("path", "a file, a folder, or the name of a data set")
    files = entry.get("data_files")
    files = next(iter(files.values()), None) if isinstance(files, dict) else files
    named = [file for file in (files if isinstance(files, list) else [files]) if isinstance(file, str)]
    one = DataSet(hub_name(path, entry.text("name"), split=entry.text("split")))
    if named and (path in LIBRARY_READERS or is_local(path)):
        one.source, *one.more = [file if path in LIBRARY_READERS else os.path.join(path, file) for file in named]
    elif is_local(path):
        one.source = path
    elif files is not None:
        c.leave(entry.path("data_files"), "all files of the data set are read: download these and name them")
    one.keys = [entry.path(key) for key in ("path", "name", "split", "data_files") if entry.has(key)
                and not c.is_done(entry.path(key))]
    one.share = entry.number("fraction", 0, 1e9)
    if one.share is not None:
        c.use(entry.path("fraction"), "data.train", "probability", note="their share of the examples of an epoch")
    for key in ("columns", "data_dir"):
        if entry.has(key):
            c.leave(entry.path(key), "`prepare` finds its columns by their names" if key == "columns" else
                    "download the data set and name this folder", key != "columns")
    return one


def _set_options(c: Conversion, sets: list[DataSet]):
    keys = c.keys
    options: list[tuple[str, list[str]]] = []
    column = keys.text("dataset_text_field")
    if column not in (None, "text"):
        options.append(("dataset_text_field", ["--column", f"text={column}"]))
    elif column is not None:
        c.use("dataset_text_field", "prepare", "text")
    if (end := keys.text("eos_token")) is not None:
        options.append(("eos_token", ["--end-token", end]))
    if (template := keys.text("chat_template_path")) is not None:
        file = template if template.endswith(".jinja") else f"{template}/chat_template.jinja"
        options.append(("chat_template_path", ["--chat-template", file]))
    assistant_only = keys.flag("assistant_only_loss")
    words = ["--train-on", "assistant" if assistant_only else "all"]
    if assistant_only is not None:
        options.append(("assistant_only_loss", words))
    elif keys.flag("completion_only_loss") is not True:
        c.leave("assistant_only_loss", "not set: TRL learns whole conversations, so `prepare` gets --train-on all. "
                                       "Most "
                                       "want --train-on assistant")
        for one in sets:
            one.add(*words)
    if keys.flag("completion_only_loss"):
        c.use("completion_only_loss", "prepare", "completions alone are learned")
    elif keys.has("completion_only_loss"):
        c.leave("completion_only_loss", "`prepare` never learns prompts of its format prompt-completion: make lines "
                                        "of text")
    for key, added in options:
        c.use(key, f"prepare {added[0]}", added[1])
        for one in sets:
            one.add(*added)
