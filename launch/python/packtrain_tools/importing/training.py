"""Keys that axolotl, LLaMA-Factory and TRL have in common, mostly those of transformers' TrainingArguments."""

import math
from dataclasses import dataclass

from packtrain_tools.importing.conversion import Conversion

SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant", "constant_with_warmup": "constant",
             "cosine_with_min_lr": "cosine", "inverse_sqrt": "inverse_sqrt",
             "warmup_stable_decay": "warmup_stable_decay"}
EIGHT_BIT = ("8bit", "4bit")
EVERY_EPOCH = "epoch"


@dataclass(frozen=True)
class Dialect:
    """Names of keys, and defaults where a file does not have them."""

    epochs: str
    schedule: str
    optimizer: str
    batch: str
    learning_rate: float
    default_schedule: str
    num_epochs: int
    batch_size: int
    warmup_ratio: float
    evaluate: object  # how often, by default
    save: object


def hugging_face(learning_rate: float) -> Dialect:
    """Names and defaults of transformers' TrainingArguments."""
    return Dialect(epochs="num_train_epochs", schedule="lr_scheduler_type", optimizer="optim",
                   batch="per_device_train_batch_size", learning_rate=learning_rate, default_schedule="linear",
                   num_epochs=3, batch_size=8, warmup_ratio=0, evaluate=0, save=500)


def convert_optimizer(c: Conversion, d: Dialect):
    keys = c.keys
    c.take("optimizer.learning_rate", keys.number("learning_rate"), "learning_rate", d.learning_rate)
    c.take("optimizer.weight_decay", keys.number("weight_decay"), "weight_decay", 0)
    c.take("optimizer.max_grad_norm", keys.number("max_grad_norm"), "max_grad_norm")
    c.take("optimizer.epsilon", keys.number("adam_epsilon"), "adam_epsilon")
    betas = [keys.number("adam_beta1", 0, 0.999999), keys.number("adam_beta2", 0, 0.999999)]
    named = [key for key, beta in zip(("adam_beta1", "adam_beta2"), betas) if beta is not None]
    betas = [default if beta is None else beta for beta, default in zip(betas, (0.9, 0.999))]
    c.write("optimizer.betas", betas, *named)
    name = keys.text(d.optimizer)
    if name is None:
        return
    if name == "muon":
        c.write("optimizer.name", "muon", d.optimizer)
    elif "adamw" not in name:
        c.leave(d.optimizer, f"{name} does not exist here: AdamW is used, whose best learning rate is another")
    elif any(bits in name for bits in EIGHT_BIT):
        c.write("optimizer.name", "adamw", d.optimizer,
              note=f"{name} keeps moments in 8 bits, here they are float32; optimizer.moments: bf16 saves memory")
    else:
        c.write("optimizer.name", "adamw", d.optimizer)


def convert_schedule(c: Conversion, d: Dialect):
    keys = c.keys
    name = keys.text(d.schedule)
    if name is not None and name not in SCHEDULES:
        c.leave(d.schedule, f"{name} does not exist here: cosine is used")
    ours = SCHEDULES.get(name or d.default_schedule, "cosine")
    c.take("schedule.name", ours if name in SCHEDULES else None, d.schedule, ours)
    options = keys.section("lr_scheduler_kwargs")
    lowest = _lowest_rate(c, options, d)
    if lowest is None and ours not in ("constant",):
        c.write("schedule.min_ratio", 0)
    decay = options.integer("num_decay_steps", 1)
    if decay is not None and ours == "warmup_stable_decay":
        c.write("schedule.decay_steps", decay, options.path("num_decay_steps"))
    elif decay is not None:
        c.leave(options.path("num_decay_steps"), "only warmup_stable_decay reads it")
    _convert_warmup(c, d, name or d.default_schedule)


def _lowest_rate(c: Conversion, options, d: Dialect) -> float | None:
    for keys, key in ((options, "min_lr_rate"), (options, "min_lr_ratio"), (c.keys, "cosine_min_lr_ratio")):
        ratio = keys.number(key, 0, 1)
        if ratio is not None:
            c.write("schedule.min_ratio", ratio, keys.path(key))
            return ratio
    least = options.number("min_lr")
    rate = c.settings["optimizer"]["learning_rate"]
    if least is None or rate == 0 or least > rate:
        return None
    ratio = round(least / rate, 9)
    c.write("schedule.min_ratio", ratio, options.path("min_lr"), note="min_lr / learning_rate")
    return ratio


def _convert_warmup(c: Conversion, d: Dialect, name: str):
    steps, ratio = c.keys.number("warmup_steps"), c.keys.number("warmup_ratio", 0, 1)
    named = [key for key in ("warmup_steps", "warmup_ratio") if c.keys.has(key)]
    if name == "constant":  # it has no warm-up in transformers
        c.write("schedule.warmup_ratio", 0)
        for key in named:
            c.leave(key, "the schedule `constant` has no warm-up in transformers", False)
    elif steps and steps >= 1:
        c.write("schedule.warmup_steps", math.ceil(steps), "warmup_steps")
        if ratio is not None:
            c.leave("warmup_ratio", "warmup_steps comes before it", False)
    elif steps:  # transformers 5: below 1 it is a share of the run
        c.write("schedule.warmup_ratio", steps, "warmup_steps")
    elif ratio is not None:
        c.write("schedule.warmup_ratio", ratio, *named)
    else:
        c.write("schedule.warmup_ratio", 0 if named else d.warmup_ratio, *named)


def convert_run(c: Conversion, d: Dialect):
    keys = c.keys
    c.take("run.output", keys.text("output_dir"), "output_dir")
    c.take("run.seed", keys.integer("seed", 0, 2**63 - 1), "seed", 42)
    epochs = keys.number(d.epochs, 0, 1e6)
    steps = keys.integer("max_steps", -1)
    if steps is not None and steps > 0:
        c.write("run.max_steps", steps, "max_steps")
    elif steps is not None:
        c.leave("max_steps", "off", False)
    if epochs is None:
        c.write("run.num_epochs", d.num_epochs)
    elif epochs == int(epochs) and epochs >= 1:
        c.write("run.num_epochs", int(epochs), d.epochs)
    else:
        c.write("run.num_epochs", max(1, math.ceil(epochs)), d.epochs)
        c.leave(d.epochs, f"{epochs:g} epochs: here they are whole, so run.max_steps must end the run. `packtrain "
                          "plan` "
                          "prints the steps of an epoch")


def convert_batch(c: Conversion, d: Dialect, length: int | None, packed: bool):
    """Examples of a step without packing, else packed sequences of `length` tokens."""
    keys = c.keys
    size = keys.integer(d.batch, 1)
    accumulated = keys.integer("gradient_accumulation_steps", 1)
    named = [key for key in (d.batch, "gradient_accumulation_steps") if keys.has(key)]
    per_rank = d.batch_size if size is None else size
    whole = keys.integer("batch_size", 1)  # axolotl's older name for their product
    if whole is not None:
        accumulated = accumulated or max(1, whole // per_rank)
        named.append("batch_size")
    total = per_rank * (accumulated or 1) * c.num_ranks
    what = f"packed sequences of {length} tokens" if packed else "examples"
    c.write("batch.global_batch_size", total, *named,
          note=f"{per_rank} x {accumulated or 1} x {c.num_ranks} rank{'s' if c.num_ranks > 1 else ''} (--ranks): "
               f"{what}")
    if packed and length:
        c.write("batch.max_tokens_per_micro_batch", per_rank * length, *named,
              note=f"{per_rank} x {length} tokens: what a rank computes together")
    elif length and length > 16384:
        c.write("batch.max_tokens_per_micro_batch", length, note="at least data.max_length")


def convert_order(c: Conversion):
    keys = c.keys
    if c.flag("group_by_length"):
        c.write("batch.order", "group_by_length", "group_by_length")
    sampling = keys.text("train_sampling_strategy")
    if sampling in ("random", "sequential", "group_by_length"):
        c.write("batch.order", sampling, "train_sampling_strategy")


def convert_precision(c: Conversion):
    """fp16 needs a scale of the loss. bf16 has the range of float32 and needs none."""
    keys = c.keys
    names = [key for key in ("bf16", "fp16", "bfloat16", "float16", "float32", "pure_bf16") if keys.has(key)]
    on = [key for key in names if keys.word(key) not in ("no", "false")]
    if "bf16" in on or "bfloat16" in on or "pure_bf16" in on:
        c.write("precision.compute", "bf16", *names, note="master weights stay float32")
    elif "fp16" in on or "float16" in on:
        c.write("precision.compute", "bf16", *names, note="fp16 does not exist here: bf16 needs no scale of the loss")
    elif "float32" in on or keys.word("bf16") in ("no", "false"):
        c.write("precision.compute", "fp32", *names)
        c.write("precision.reduce", "fp32")
    else:
        c.write("precision.compute", "bf16", *names)


def convert_products(c: Conversion):
    """torchao's float8 layers, which the others use, multiply 8-bit floats in all three products. Under an adapter the
    weights are frozen and have two."""
    if not c.flag("fp8"):
        return
    note = "a scale for each tensor; e4m3 forward, e5m2 gradients"
    c.write("precision.linear", "fp8_tensor", "fp8", note=note)
    if "kind" not in c.settings.get("adapter", {}):
        c.write("precision.weight_gradient", "fp8", "fp8")


def convert_memory(c: Conversion):
    keys = c.keys
    recomputes = keys.word("gradient_checkpointing")
    if recomputes in ("no", "false"):
        c.write("memory.recompute", "none", "gradient_checkpointing")
    elif recomputes is not None:
        c.write("memory.recompute", "auto", "gradient_checkpointing",
              note="recomputes only what the memory of the GPU needs (memory.fit); losses do not change")
    if recomputes in ("offload", "offload_disk") or keys.word("activation_offloading") not in (None, "no", "false"):
        key = "gradient_checkpointing" if recomputes in ("offload", "offload_disk") else "activation_offloading"
        c.write("memory.offload", "activations", key)
    for key in ("gradient_checkpointing_kwargs", "activation_offloading"):
        if keys.has(key) and not c.is_done(key):
            c.leave(key, "of their recomputation: `packtrain plan` shows what is recomputed here", False)


def how_often(c: Conversion, what: str, ours: str, d: Dialect):
    """`what`: eval or save. Steps, a share of the run, or each epoch."""
    keys = c.keys
    strategy, steps = keys.word(f"{what}_strategy"), keys.number(f"{what}_steps")
    per_epoch = keys.integer(f"{what}s_per_epoch")
    names = [key for key in (f"{what}_strategy", f"{what}_steps", f"{what}s_per_epoch") if keys.has(key)]
    if strategy == "no" or (per_epoch == 0 and not steps):
        c.write(ours, 0, *names, note="only at the end")
    elif per_epoch is not None and not steps:
        epochs = c.settings["run"]["num_epochs"]
        share = round(1.0 / (per_epoch * epochs), 6)
        c.write(ours, share if share < 1 else EVERY_EPOCH, *names, note=f"{per_epoch} an epoch, of {epochs}")
    elif strategy == EVERY_EPOCH:
        c.write(ours, EVERY_EPOCH, *names)
    elif steps:
        c.write(ours, steps if steps < 1 else math.ceil(steps), *names)
    elif strategy == "steps" and what == "eval":
        c.write(ours, max(1, math.ceil(keys.number("logging_steps") or 500)), *names, note="logging_steps")
    else:
        if strategy == "best":
            c.write("checkpoint.keep_best", 1, "save_strategy", note="the newest are kept as well (checkpoint.keep)")
        names = [name for name in names if not c.is_done(name)]
        c.write(ours, d.evaluate if what == "eval" else d.save, *names)


def convert_saving(c: Conversion, d: Dialect):
    keys = c.keys
    how_often(c, "eval", "run.evaluate_steps", d)
    how_often(c, "save", "checkpoint.save_steps", d)
    c.take("checkpoint.keep", keys.integer("save_total_limit", 1), "save_total_limit")
    c.take("run.early_stopping_patience", keys.integer("early_stopping_patience"), "early_stopping_patience")
    if c.flag("load_best_model_at_end"):
        c.write("checkpoint.keep_best", 1, "load_best_model_at_end", note="`packtrain export --best` writes it")
    if c.flag("save_only_model"):
        c.write("checkpoint.weights_only", True, "save_only_model", note="such a run cannot resume")
    if c.flag("eval_on_start"):
        c.write("run.evaluate_at_start", True, "eval_on_start")
    for key in ("resume_from_checkpoint", "auto_resume_from_checkpoints"):
        if keys.has(key):
            is_path = isinstance(keys.get(key), str)
            c.leave(key, "a checkpoint of another trainer cannot be resumed; export it and name it in model.path"
                    if is_path else "a run resumes by itself here (checkpoint.resume)", is_path)


def convert_training(c: Conversion, d: Dialect, length: int | None, packed: bool):
    convert_batch(c, d, length, packed)
    convert_order(c)
    convert_optimizer(c, d)
    convert_schedule(c, d)
    convert_precision(c)
    convert_products(c)
    convert_memory(c)
    convert_run(c, d)
    convert_saving(c, d)
