"""Figures of a run from its metrics.jsonl. The definitions are those of `packtrain compare`
(training/comparison)."""

import json
import math
import os
from dataclasses import dataclass, field

from packtrain_tools.errors import ToolError

NUM_WARM_UPS = 3  # steps that are left out of speeds
NUM_LAST = 10  # steps whose mean is the training loss
GIB = 2.0**30


@dataclass
class History:
    steps: list[dict] = field(default_factory=list)
    evaluations: list[dict] = field(default_factory=list)
    commands: list[dict] = field(default_factory=list)  # what run.evaluate_command printed, by order of its end

    @property
    def steady(self) -> list[dict]:
        """Steps without warm-up; all steps of a run that has nothing else."""
        return self.steps[NUM_WARM_UPS:] or self.steps


def read_history(folder: str) -> History:
    """Empty where nothing was written yet; an unfinished last line is ignored. Non-finite values are null
    in the file and are left out here."""
    path = os.path.join(folder, "metrics.jsonl")
    history = History()
    if not os.path.exists(path):
        return history
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith("\n"):
                break
            try:
                record = {key: math.nan if value is None else value
                          for key, value in json.loads(line).items()}
                is_evaluation = "validation_loss" in record
                is_step = "grad_norm" in record
            except (ValueError, AttributeError):
                raise ToolError(f"{path}:{number}: is no line of metrics") from None
            if is_evaluation:
                history.evaluations.append(record)
            elif is_step:
                history.steps.append(record)
            elif "evaluate_command" in record:
                history.commands.append(record)
    return history


def of_adapter(history: History, name: str) -> History:
    """The steps of one of several adapters, with its own loss, tokens and learning rate. The time of a step
    is divided among adapters by their tokens, so that speeds are those of the whole run."""
    own = History()
    for step in history.steps:
        if name not in step.get("adapters", {}):
            continue
        numbers = {key: math.nan if value is None else value for key, value in step["adapters"][name].items()}
        share = numbers["num_tokens"] / step["num_tokens"]
        times = {key: step[key] * share for key in ("step_time_s", "comm_wait_s")}
        record = {**step, **numbers, **times}
        del record["num_examples"]  # of all adapters
        own.steps.append(record)
    for line in history.evaluations:
        # The first set of an adapter is that of its own run's validation_loss.
        sets = [values["loss"] for name_of_set, values in line.get("validation_sets", {}).items()
                if name_of_set == name or name_of_set.startswith(name + ".")]
        if sets:
            own.evaluations.append({"step": line["step"], "validation_loss": sets[0]})
    return own


def total(steps: list[dict], key: str) -> float:
    return sum(step[key] for step in steps)


def mean(steps: list[dict], key: str) -> float:
    return total(steps, key) / len(steps)


def device_seconds(history: History) -> float:
    """Seconds of all steps; each warm-up step counts as the mean of the others."""
    return len(history.steps) * mean(history.steady, "step_time_s")


def figures(history: History) -> dict[str, float]:
    """The figures of the run so far; empty for a run without a step."""
    if not history.steps:
        return {}
    steps, steady = history.steps, history.steady
    seconds = total(steady, "step_time_s")
    last = steps[-NUM_LAST:]
    loss_tokens = total(last, "num_loss_tokens")
    num_devices = round(steps[-1]["tokens_per_second"] / steps[-1]["tokens_per_second_per_device"])
    found = {
        "steps": steps[-1]["step"],
        "loss": sum(step["loss"] * step["num_loss_tokens"] for step in last) / loss_tokens,
        "tokens_per_second_per_device": total(steady, "num_tokens") / seconds / num_devices,
        "tflops_per_device": sum(step["model_tflops_per_device"] * step["step_time_s"]
                                 for step in steady) / seconds,
        "mfu": sum(step["mfu"] * step["step_time_s"] for step in steady) / seconds,
        "peak_memory_gib": max(step["peak_memory_bytes"] for step in steps) / GIB,
        "comm_wait_fraction": total(steady, "comm_wait_s") / seconds,
        "device_seconds": device_seconds(history),
        "tokens_per_step": mean(steps, "num_tokens"),
        "tokens": total(steps, "num_tokens"),
        "peak_learning_rate": max(step["learning_rate"] for step in steps),
    }
    if "num_examples" in steps[0]:
        found["examples_per_step"] = mean(steps, "num_examples")
    for key in ("padding_fraction", "fill", "token_imbalance", "cost_imbalance"):
        found[key] = mean(steps, key)
    if history.evaluations and history.evaluations[-1]["step"] == steps[-1]["step"]:
        found["validation_loss"] = history.evaluations[-1]["validation_loss"]
    return found
