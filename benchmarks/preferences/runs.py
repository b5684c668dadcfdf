"""Runs of packtrain with an objective, and what they measured."""

import json
import os
import shutil
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "train"))

from programs import ROOT, Failure, train_steps

WARM_UP = 2
NO_CHECKS = ["run.seed=1", "checkpoint.save_steps=0"]
ADAPTER_8B = "adapters/llama-3-8b-lora.yaml"
FULL_8_LAYERS = "llama-3-8b-8-layers-short.yaml"
FULL_1B = "llama-3.2-1b-short.yaml"
# A model that any machine trains, in place of those of the configurations: for trying these programs.
TINY = ["model.config.hidden_size=64", "model.config.intermediate_size=96", "model.config.num_hidden_layers=2",
        "model.config.num_attention_heads=4", "model.config.num_key_value_heads=2", "model.config.vocab_size=512"]


def config_path(name):
    return os.path.join(ROOT, "configs", name)


def measure(out, name, config, settings, groups_a_step, steps, timeout, num_gpus=1):
    """Groups a second over all steps after the warm-up, or the error."""
    folder = os.path.join(os.path.abspath(out), name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        found = train_steps(config_path(config), folder, WARM_UP + steps, timeout, [
            "batch.strategy=balanced", f"batch.global_batch_size={groups_a_step}", "batch.global_batch_tokens=null",
            *NO_CHECKS, *settings], num_gpus)[WARM_UP:]
    except Failure as failure:
        return {"side": name, "error": str(failure)}
    if not found:
        return {"side": name, "error": "wrote no steps"}
    seconds = sum(step["step_time_s"] for step in found)
    return {"side": name, "groups_s": groups_a_step * len(found) / seconds, "step_s": seconds / len(found),
            "tokens_s": sum(step["num_tokens"] for step in found) / seconds,
            "peak_gib": found[-1].get("peak_memory_bytes", 0) / 2**30, "loss": found[-1]["loss"],
            "median_step_s": statistics.median(step["step_time_s"] for step in found)}


def report(rows, out, name, ratio=None):
    """Prints a line for each row, and `ratio`: (what, left row, right row). Writes them to OUT/NAME.json."""
    for row in rows:
        said = f"error: {row['error']}" if "error" in row else ", ".join(
            f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, float))
        print(f"{row['side']:<40} {said}", flush=True)
    found = {"rows": rows}
    if ratio is not None:
        what, left, right = ratio
        found["ratio"] = left["groups_s"] / right["groups_s"] if "groups_s" in left and "groups_s" in right else None
        print(f"{what}: " + (f"{found['ratio']:.2f} x" if found["ratio"] else "not measured"), flush=True)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    return found
