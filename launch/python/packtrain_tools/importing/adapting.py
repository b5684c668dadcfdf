"""Adapters and quantised bases of the other trainers to `adapter` and model.base."""

from packtrain_tools.importing.conversion import Conversion

# PEFT's own targets for llama, mistral, gemma and qwen, where a configuration names none.
PEFT_TARGETS = ["q_proj", "v_proj"]
REGEX = "\\^$|()+?[]{}"
ALL = ("all", "all-linear", "all_linear")


def _targets(c: Conversion, key: str) -> list[str] | None:
    names = c.keys.texts(key)
    if any(set(name) & set(REGEX) for name in names or []):
        c.leave(key, "is a regular expression: list names of modules in adapter.targets, where * matches any text")
        return None
    return ["all-linear"] if names and len(names) == 1 and names[0] in ALL else names


def _set_base(c: Conversion, four_bits: bool, *names: str):
    if four_bits:
        c.write("model.base", "nf4", *names)


def _init(c: Conversion, key: str):
    init = c.keys.get(key)
    if init is None:
        return
    if isinstance(init, bool):
        c.write("adapter.init", "default", key)
    elif init in ("gaussian", "pissa", "loftq") or str(init).startswith("pissa_niter_"):
        c.write("adapter.init", init, key)
    else:
        c.leave(key, f"{str(init)[:40]} does not exist here: adapter.init has default, gaussian, pissa and loftq")


def _leave_other_kinds(c: Conversion):
    c.leave_all({"LoRA+ does not exist here: A and B have one learning rate": "loraplus_lr_ratio loraplus_lr_embedding",
                 "does not exist here": "relora relora_* jagged_restart_* peft_layer_replication "
                                        "peft_trainable_token_indices bnb_config_kwargs gptq "
                                        "gptq_* quantize_moe_experts"}, True)


def _eight_bits(c: Conversion, key: str):
    if c.flag(key):
        c.leave(key, "int8 weights do not exist here: model.base: fp8 stores 8-bit floats, and nf4 4 bits")


def convert_axolotl_adapter(c: Conversion):
    keys = c.keys
    kind = keys.word("adapter")
    _eight_bits(c, "load_in_8bit")
    four_bits = keys.flag("load_in_4bit")
    if kind in (None, "no", "none"):
        for key in ("adapter", "load_in_4bit"):
            if keys.has(key):
                c.leave(key, "off" if not keys.get(key) or key == "adapter" else
                        "no adapter is trained: whole models are not trained in 4 bits", bool(four_bits))
        c.leave_all({"no adapter is trained": "lora_r lora_alpha lora_dropout lora_target_* lora_modules_to_save "
                                              "lora_model_dir peft_*"}, False)
        return
    if kind not in ("lora", "qlora"):
        c.leave("adapter", f"{kind} does not exist here: a LoRA of rank lora_r is trained")
    c.write("adapter.kind", "lora", *(["adapter"] if kind in ("lora", "qlora") else []))
    _set_base(c, bool(four_bits), "load_in_4bit")
    if four_bits is False:
        c.leave("load_in_4bit", "off", False)
    c.take("adapter.path", keys.text("lora_model_dir"), "lora_model_dir")
    c.take("adapter.rank", keys.integer("lora_r", 1), "lora_r", 8)
    c.take("adapter.alpha", keys.number("lora_alpha", 1e-9), "lora_alpha", 8)
    c.take("adapter.dropout", keys.number("lora_dropout", 0, 0.999), "lora_dropout", 0)
    _convert_axolotl_targets(c)
    c.take("adapter.save", keys.texts("lora_modules_to_save"), "lora_modules_to_save")
    for ours, key in (("rank_pattern", "lora_rank_pattern"), ("alpha_pattern", "lora_alpha_pattern")):
        c.take(f"adapter.{ours}", keys.section(key).values or None, key)
    layers = keys.get("peft_layers_to_transform")
    c.take("adapter.layers_to_transform", layers, "peft_layers_to_transform")
    c.take("adapter.use_rslora", True if c.flag("peft_use_rslora") else None, "peft_use_rslora")
    c.take("adapter.use_dora", True if c.flag("peft_use_dora") else None, "peft_use_dora")
    _init(c, "peft_init_lora_weights")
    if keys.section("peft").has("loftq_config"):
        c.write("adapter.init", "loftq", "peft.loftq_config")
        c.write("model.base", "nf4", *(["load_in_4bit"] if four_bits else []), "peft.loftq_config")
    _leave_other_kinds(c)


def _convert_axolotl_targets(c: Conversion):
    keys = c.keys
    targets = _targets(c, "lora_target_modules")
    linear = keys.flag("lora_target_linear")
    names = [key for key in ("lora_target_linear", "lora_target_modules") if keys.has(key) and not c.is_done(key)]
    experts = keys.texts("lora_target_parameters") or []
    if linear:
        targets = ["all-linear"] + [name for name in targets or [] if name != "all-linear"]
    if experts:
        names.append("lora_target_parameters")
    c.write("adapter.targets", (targets or PEFT_TARGETS) + experts, *names,
          note="" if targets else "PEFT's targets for most families")


def convert_factory_adapter(c: Conversion):
    keys = c.keys
    kind = keys.text("finetuning_type") or "lora"
    bits = keys.integer("quantization_bit", 0)
    if kind == "full":
        c.use("finetuning_type", "training of the whole model")
    elif kind != "lora":
        c.leave("finetuning_type", f"{kind} does not exist here: the whole model is trained; model.frozen names what "
                                   "is not")
    else:
        c.write("adapter.kind", "lora", *(["finetuning_type"] if keys.has("finetuning_type") else []))
        _convert_factory_lora(c)
    if bits == 4 and kind == "lora":
        _set_base(c, True, "quantization_bit")
    elif bits is not None:
        c.leave("quantization_bit", f"{bits} bits: only adapters over 4 bits (model.base: nf4) exist here", bits > 0)
    if keys.text("quantization_type") == "fp4":
        c.leave("quantization_type", "fp4 does not exist here: nf4 is used")
    elif keys.has("quantization_type"):
        c.use("quantization_type", "model.base")
    if keys.flag("double_quantization") is False:
        c.leave("double_quantization", "constants are always quantised here: the base takes 0.4 bits less a weight")
    elif keys.has("double_quantization"):
        c.use("double_quantization", "model.base")


def _convert_factory_lora(c: Conversion):
    keys = c.keys
    rank = keys.integer("lora_rank", 1)
    c.take("adapter.rank", rank, "lora_rank", 8)
    c.take("adapter.alpha", keys.number("lora_alpha", 1e-9), "lora_alpha", 2 * (rank or 8))
    c.take("adapter.dropout", keys.number("lora_dropout", 0, 0.999), "lora_dropout", 0)
    c.take("adapter.targets", _targets(c, "lora_target"), "lora_target", ["all-linear"])
    c.take("adapter.save", keys.texts("additional_target"), "additional_target")
    c.take("adapter.use_rslora", True if c.flag("use_rslora") else None, "use_rslora")
    c.take("adapter.use_dora", True if c.flag("use_dora") else None, "use_dora")
    paths = keys.texts("adapter_name_or_path")
    if paths:
        c.write("adapter.path", paths[-1], "adapter_name_or_path",
              note="" if len(paths) == 1 else "the last one: merge the others into the model first (`packtrain merge`)")
    if c.flag("pissa_init"):
        rounds = keys.integer("pissa_iter", -1)
        names = ["pissa_init"] + (["pissa_iter"] if rounds is not None else [])
        rounds = 16 if rounds is None else rounds
        c.write("adapter.init", "pissa" if rounds == -1 else f"pissa_niter_{rounds}", *names)
    if c.flag("pissa_convert"):
        c.leave("pissa_convert", "`packtrain export` always writes PiSSA as a plain adapter", False)
    _leave_other_kinds(c)


def convert_trl_adapter(c: Conversion):
    keys = c.keys
    _eight_bits(c, "load_in_8bit")
    if not c.flag("use_peft"):
        c.leave_all({"use_peft is not true: the whole model is trained": "lora_* load_in_4bit use_rslora "
                                                                         "use_dora"}, False)
        return
    c.write("adapter.kind", "lora", "use_peft")
    _set_base(c, c.flag("load_in_4bit"), "load_in_4bit")
    c.take("adapter.rank", keys.integer("lora_r", 1), "lora_r", 16)
    c.take("adapter.alpha", keys.number("lora_alpha", 1e-9), "lora_alpha", 32)
    c.take("adapter.dropout", keys.number("lora_dropout", 0, 0.999), "lora_dropout", 0.05)
    targets = _targets(c, "lora_target_modules")
    experts = keys.texts("lora_target_parameters") or []
    names = [key for key in ("lora_target_modules", "lora_target_parameters") if keys.has(key) and not c.is_done(key)]
    c.write("adapter.targets", (targets or PEFT_TARGETS) + experts, *names,
          note="" if targets else "PEFT's targets for most families")
    c.take("adapter.save", keys.texts("lora_modules_to_save"), "lora_modules_to_save")
    c.take("adapter.use_rslora", True if c.flag("use_rslora") else None, "use_rslora")
    c.take("adapter.use_dora", True if c.flag("use_dora") else None, "use_dora")
    _leave_other_kinds(c)
