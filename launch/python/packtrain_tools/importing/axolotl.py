"""axolotl's configuration files."""

import os

from packtrain_tools.importing.adapting import convert_axolotl_adapter
from packtrain_tools.importing.conversion import Conversion
from packtrain_tools.importing.keys import Keys, refusal
from packtrain_tools.importing.no_effect import AXOLOTL_CHANGES, AXOLOTL_NO_EFFECT, CHANGES, NO_EFFECT
from packtrain_tools.importing.preparing import (LIBRARY_READERS, DataSet, add_lengths, convert_length,
                                                 convert_model, held_out_options, hub_name, is_local, set_stores)
from packtrain_tools.importing.sharding import convert_sharding
from packtrain_tools.importing.training import Dialect, convert_training

DIALECT = Dialect(epochs="num_epochs", schedule="lr_scheduler", optimizer="optimizer", batch="micro_batch_size",
                  learning_rate=1e-5, default_schedule="cosine", num_epochs=1, batch_size=1, warmup_ratio=0.03,
                  evaluate="epoch", save="epoch")
TEXT_PROMPTS = ("alpaca", "alpaca:", "alpaca_w_system", "alpaca_chat", "explainchoice", "gpteacher")


def convert_axolotl(c: Conversion):
    keys = c.keys
    _refuse_other_training(keys)
    model = convert_model(c, "base_model", "revision_of_model")
    convert_axolotl_adapter(c)
    packed = _strategy(c)
    length = convert_length(c, "sequence_len", 512, *_too_long(keys))
    convert_training(c, DIALECT, length, packed)
    convert_sharding(c)
    _convert_data(c, model)
    _leave_padding_token(c)
    c.leave_all(CHANGES | AXOLOTL_CHANGES, True)
    c.leave_all(NO_EFFECT | AXOLOTL_NO_EFFECT, False)


def _refuse_other_training(keys: Keys):
    for key in ("rl", "reward_model", "process_reward_model", "pretraining_dataset"):
        if keys.get(key) not in (None, False):
            raise refusal(keys, f"{key}: {str(keys.get(key))[:40]}")


def _leave_padding_token(c: Conversion):
    tokens = c.keys.section("special_tokens")
    if tokens.values and all(key == "pad_token" or not tokens.has(key) for key in tokens.values):
        c.leave("special_tokens", "there is no padding here", False)


def _too_long(keys: Keys) -> tuple[str, str]:
    named = keys.text("excess_length_strategy")
    if named is not None and named not in ("drop", "truncate", "raise"):
        raise keys.fail("excess_length_strategy", "drop, truncate or raise")
    return ("error" if named == "raise" else named or "drop"), ("excess_length_strategy" if named else "")


def _strategy(c: Conversion) -> bool:
    keys = c.keys
    names = [key for key in ("sample_packing",) if keys.has(key)]
    if keys.flag("sample_packing"):
        c.write("batch.strategy", "multipack", *names, note="packs of whole examples, without attention across them")
        group = keys.integer("sample_packing_group_size", 1)
        c.take("batch.packing_window", group, "sample_packing_group_size")
        if c.flag("sample_packing_sequentially"):
            c.write("batch.packing_window", 1, "sample_packing_sequentially", note="examples are packed in their order")
        if c.flag("curriculum_sampling"):
            c.write("batch.order", "sequential", "curriculum_sampling")
        return True
    c.write("batch.strategy", "balanced", *names, note="the same steps as padded batches, without padding")
    if keys.word("batch_flattening") in ("yes", "auto"):
        c.use("batch_flattening", "batch.strategy", "balanced")
    return False


def _convert_data(c: Conversion, model: str):
    keys = c.keys
    sets = [_data_set(c, entry) for entry in keys.sections("datasets")]
    for entry in keys.sections("test_datasets"):
        one = _data_set(c, entry)
        one.is_validation = True
        sets.append(one)
    add_lengths(c, [one for one in sets if one.command is None])
    if c.flag("dataset_exact_deduplication"):
        for one in sets:
            one.add("--deduplicate")
        c.use("dataset_exact_deduplication", "prepare --deduplicate")
    system = keys.text("default_system_message")
    if system:
        for one in sets:
            one.add("--system", system)
        c.use("default_system_message", "prepare --system")
    size = keys.number("val_set_size")
    if size == 0:
        c.leave("val_set_size", "off", False)
    tokenizer = keys.text("tokenizer_config") or model
    if keys.has("tokenizer_config"):
        c.use("tokenizer_config", "prepare --tokenizer")
    set_stores(c, sets, tokenizer, held_out_options(size), ("val_set_size",) if size else ())


def _file_of(entry: Keys, file: str) -> str:
    path = entry.text("path") or ""
    return file if path in LIBRARY_READERS else os.path.join(path, file)


def _source(entry: Keys) -> str:
    path = entry.text("path") or ""
    files = entry.texts("data_files")
    if not path:
        raise entry.fail("path", "a file, a folder, or the name of a data set")
    if files and (path in LIBRARY_READERS or is_local(path)):
        return _file_of(entry, files[0])
    if is_local(path):
        return path
    return hub_name(path, entry.text("name"), entry.text("revision"), entry.text("split"))


def _data_set(c: Conversion, entry: Keys) -> DataSet:
    one = DataSet(_source(entry))
    local = not one.source.startswith("hf:")
    one.keys = [entry.path(key) for key in ("path", "name", "revision", "split") if entry.has(key)]
    if local and entry.text("split") not in (None, "train"):
        c.leave(entry.path("split"), "a local source has no splits for `prepare`: name its file")
        one.keys.remove(entry.path("split"))
    files = entry.texts("data_files")
    if files and local:
        one.keys.append(entry.path("data_files"))
        if len(files) > 1:
            one.more = [_file_of(entry, file) for file in files[1:]]
    elif files:
        c.leave(entry.path("data_files"), "all files of the data set are read: download these and name them")
    _add_format(c, entry, one)
    for key in entry.values:
        if entry.path(key) not in one.keys:
            _leave_entry(c, entry, key, one.keys)
    return one


def _leave_entry(c: Conversion, entry: Keys, key: str, known_keys: list[str]):
    path, value = entry.path(key), entry.get(key)
    if c.is_done(path) or any(known.startswith(path + ".") for known in known_keys):
        return
    if value is None or value is False:
        c.leave(path, "off" if value is False else "null: as if it were not there", False)
    elif key in ("ds_type", "preprocess_shards", "trust_remote_code", "train_on_eot"):
        c.leave(path, "`prepare` finds it itself", False)
    elif key == "train_on_eos" and value == "turn":
        c.leave(path, "`prepare` always learns the end of learned turns", False)
    else:
        c.leave(path, "`prepare` has no such option: look at what is learned with `packtrain inspect STORE`")


def _add_format(c: Conversion, entry: Keys, one: DataSet):
    kind = entry.get("type")
    if isinstance(kind, dict):
        _add_own_columns(c, entry.section("type"), one)
        return
    kind = entry.text("type") or ""
    path = entry.path("type")
    one.keys += [path] if kind else []
    if kind == "chat_template":
        _add_chat(c, entry, one)
    elif kind.startswith("sharegpt"):
        one.add("--format", "sharegpt")
    elif kind in TEXT_PROMPTS or kind.startswith("alpaca"):
        one.add("--format", "instruction", "--instructions-as", "text")
        c.leave(f"{path}: prompt", "the headings are those of Alpaca, without its first sentence: look with `packtrain "
                                   "inspect STORE`")
        if c.keys.flag("train_on_inputs"):
            c.leave("train_on_inputs", "`prepare` learns only the outputs of instructions")
    elif kind in ("completion", "pretrain"):
        one.add("--format", "text", *_renamed(entry, one, text="field"))
    elif kind == "":
        one.command = ["packtrain", "prepare", "--pretokenized", one.source, "--vocab-size", "N"]
        c.leave(f"{entry.prefix}type", "a data set without a type holds token ids (input_ids, labels): put the "
                                       "vocabulary "
                                       "size for N, and give a JSONL file")
    else:
        one.keys.remove(path)
        c.leave(path, f"`prepare` has no format {kind[:40]}: bring the data into one of docs/data.md")


def _renamed(entry: Keys, one: DataSet, **names: str) -> list[str]:
    """Options for columns: ours by their key."""
    words: list[str] = []
    for ours, key in names.items():
        if entry.has(key):
            one.keys.append(entry.path(key))
            if entry.text(key) != ours:
                words += ["--column", f"{ours}={entry.text(key)}"]
    return words


def _add_own_columns(c: Conversion, entry: Keys, one: DataSet):
    words = _renamed(entry, one, instruction="field_instruction", input="field_input", output="field_output",
                     system="field_system")
    one.add("--format", "instruction", "--instructions-as", "text", *words)
    for key in entry.values:
        path = entry.path(key)
        if path in one.keys:
            continue
        if entry.has(key):
            c.leave(path, "`prepare` writes headings of its own: make lines of prompt and completion to keep this text")
        else:
            c.leave(path, "null: as if it were not there", False)


def _add_chat(c: Conversion, entry: Keys, one: DataSet):
    one.add("--format", "messages", *_renamed(entry, one, messages="field_messages", tools="field_tools"))
    mapping = entry.section("message_property_mappings")
    for ours, key in (("role", "message_field_role"), ("content", "message_field_content")):
        source, name = (mapping, ours) if mapping.has(ours) else (entry, key)
        if source.has(name):
            one.keys.append(source.path(name))
            one.add("--message-key", f"{ours}={source.text(name)}")
    for role in entry.section("roles").values:
        one.keys.append(f"{entry.path('roles')}.{role}")
        one.add("--role", f"{role}={','.join(entry.section('roles').texts(role) or [])}")
    if c.keys.flag("train_on_inputs"):
        one.add("--train-on", "all")
        c.use("train_on_inputs", "prepare --train-on all")
    trained = entry.texts("roles_to_train")
    if trained is not None:
        one.keys.append(entry.path("roles_to_train"))
        for role in trained:
            if role in ("tool", "user", "system"):
                one.add("--also-train-on", role)
            elif role not in ("assistant", "gpt"):
                c.leave(f"{entry.path('roles_to_train')}: {role[:40]}", "is no role that `prepare` learns")
    _add_template(c, entry, one)


def _add_template(c: Conversion, entry: Keys, one: DataSet):
    for keys in (entry, c.keys):
        if keys.has("chat_template_jinja"):
            path = keys.path("chat_template_jinja")
            text = keys.text("chat_template_jinja") or ""
            is_file = "{" not in text and "\n" not in text
            one.add("--chat-template", text if is_file else "TEMPLATE.jinja")
            c.use(path, "prepare --chat-template")
            if not is_file:
                c.leave(f"{path}: text", "write the template into TEMPLATE.jinja")
            if keys.has("chat_template"):
                c.use(keys.path("chat_template"), "prepare --chat-template")
            return
        name = keys.text("chat_template")
        if name is not None:
            path = keys.path("chat_template")
            if name.startswith("tokenizer_default"):
                c.use(path, "the tokenizer's own template")
            else:
                c.leave(path, f"{name[:40]} is a template of axolotl: the tokenizer's own is used; --chat-template "
                              "FILE gives "
                              "another")
            return
