"""DeepSpeed's and FSDP's settings to parallel.zero_stage."""

import json
import os
import re

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.importing.conversion import Conversion
from packtrain_tools.importing.keys import leaves, short
from packtrain_tools.importing.reading import MAX_BYTES

STAGE = re.compile(r"(?:zero|z|stage)[-_]?([0-3])(?![0-9])", re.IGNORECASE)
FSDP = {"FULL_SHARD": 3, "HYBRID_SHARD": 3, "SHARD_GRAD_OP": 2, "HYBRID_SHARD_ZERO2": 2, "NO_SHARD": 2}
OWN_WAY = "packtrain shards, gathers and loads weights in its own way"


def _read_deepspeed(c: Conversion, path: str) -> dict | None:
    """The file that the key names, where it is there."""
    for folder in (os.path.dirname(os.path.abspath(c.keys.file)), os.getcwd()):
        found = os.path.join(folder, path)
        if os.path.isfile(found) and os.path.getsize(found) <= MAX_BYTES:
            try:
                with open(found, encoding="utf-8") as stream:
                    values = json.load(stream)
            except (ValueError, RecursionError) as error:
                raise ToolError(f"{found}: is no valid JSON: {str(error)[:200]}", exit_code=CONFIG) from None
            return values if isinstance(values, dict) else None
    return None


def _zero_of(values: dict) -> dict:
    zero = values.get("zero_optimization")
    return zero if isinstance(zero, dict) else {}


def convert_deepspeed(c: Conversion):
    given = c.keys.get("deepspeed")
    if given is None or given == "":
        return
    if not isinstance(given, str | dict):
        raise c.keys.fail("deepspeed", "the name of a file, or a mapping")
    values = given if isinstance(given, dict) else _read_deepspeed(c, given)
    stage, how = None, ""
    if values is not None:
        stage = _zero_of(values).get("stage", 0)
        how = f"stage {stage}"
    elif found := STAGE.search(os.path.basename(str(given))):
        stage, how = int(found[1]), f"stage {found[1]}, by the file's name: the file is not here"
    if stage not in (0, 1, 2, 3):
        c.leave("deepspeed", "its ZeRO stage is unknown, as the file is not here: set parallel.zero_stage to 2 or "
                             "3", False)
        return
    if stage < 2:
        how += "; 2 is the lowest here, with the same losses"
    c.write("parallel.zero_stage", max(2, stage), "deepspeed", note=how)
    _leave_deepspeed(c, values or {})


def _leave_deepspeed(c: Conversion, values: dict):
    """Lists its settings that decide results. DeepSpeed takes them before those of the trainer."""
    for key in ("optimizer", "scheduler", "gradient_clipping", "train_batch_size", "gradient_accumulation_steps"):
        if values.get(key) not in (None, "auto"):
            c.leave(f"deepspeed: {key}",
                    f"{short(values[key])}: DeepSpeed takes this before the trainer's own, so set it here")
    zero = _zero_of(values)
    ways = {"offload_optimizer": "memory.offload: auto does it where nothing else fits, and optimizer in any case",
            "offload_param": "weights stay on the GPUs here: `packtrain plan` shows whether they fit"}
    for part, way in ways.items():
        device = zero.get(part, {}).get("device") if isinstance(zero.get(part), dict) else None
        if device not in (None, "none"):
            c.leave(f"deepspeed: {part}", way)


def convert_fsdp(c: Conversion):
    keys = c.keys
    words = [] if isinstance(keys.get("fsdp"), bool) else re.split(r"[\s,]+", " ".join(_words(c))) if _words(c) else []
    config = keys.section("fsdp_config")
    sharding = next((str(config.get(key)).upper() for key in ("fsdp_sharding_strategy", "sharding_strategy")
                     if config.has(key)), None)
    names = [key for key in ("fsdp",) if keys.has(key)]
    names += [config.path(key) for key in ("fsdp_sharding_strategy", "sharding_strategy") if config.has(key)]
    if sharding is None:
        sharding = next((word.upper() for word in words if word.upper() in FSDP), None)
    reshards = next((config.flag(key) for key in ("reshard_after_forward", "fsdp_reshard_after_forward")
                     if isinstance(config.get(key), bool)), None)
    if sharding is None and (words or config.values or keys.get("fsdp") is True):
        sharding = "SHARD_GRAD_OP" if reshards is False else "FULL_SHARD"
    if sharding in FSDP:
        c.write("parallel.zero_stage", FSDP[sharding], *names, note=sharding.lower())
        if sharding.startswith("HYBRID"):
            c.write("parallel.shard_size", "auto", note="the ranks of a host, where the memory fits")
    if keys.has("fsdp") and not c.is_done("fsdp"):
        c.leave("fsdp", "off" if not words else f"{' '.join(words)}: {OWN_WAY}", False)
    _leave_fsdp_config(c, config)


def _words(c: Conversion) -> list[str]:
    given = c.keys.get("fsdp")
    if given is None or isinstance(given, bool):
        return []
    return c.keys.texts("fsdp") or []


def _leave_fsdp_config(c: Conversion, config):
    for key, value in leaves(config.values):
        path = config.path(key)
        if c.is_done(path):
            continue
        if "offload_params" in key and value is True:
            c.leave(path, "weights stay on the GPUs here: `packtrain plan` shows whether they fit")
        elif "activation_checkpointing" in key and value is True:
            c.write("memory.recompute", "auto", path, note="recomputes only what the memory of the GPU needs "
                                                           "(memory.fit)")
        else:
            c.leave(path, OWN_WAY, False)


def convert_sharding(c: Conversion):
    convert_deepspeed(c)
    convert_fsdp(c)
    for key in ("dp_shard_size", "dp_replicate_size"):
        size = c.keys.integer(key, 1)
        if size is None:
            continue
        if key == "dp_shard_size":
            c.write("parallel.shard_size", size, key)
        else:
            c.leave(key, "follows from the number of ranks and parallel.shard_size", False)
    for key in ("context_parallel_size", "sequence_parallel_degree", "tensor_parallel_size", "expert_parallel_size"):
        size = c.keys.integer(key, 0)
        if size is not None:
            c.leave(key, "off" if size <= 1 else "does not exist here: each rank computes whole examples", size > 1)
