"""Converts lines of metrics.jsonl to named scalars, for programs that draw curves."""

import math

_GROUPS = {
    "train": ("loss", "grad_norm", "learning_rate", "epoch", "auxiliary_loss",
              "hessian_grad_norm", "hessian_num_skipped", "unclipped_fraction"),
    "speed": ("step_time_s", "tokens_per_second", "tokens_per_second_per_device",
              "model_tflops_per_device", "mfu"),
    "batch": ("num_examples", "num_groups", "num_tokens", "num_loss_tokens", "num_padding_tokens",
              "padding_fraction", "fill", "token_imbalance", "cost_imbalance"),
    "experts": ("expert_load_max", "expert_load_min"),
}
_GROUP_OF = {key: group for group, keys in _GROUPS.items() for key in keys}


def _group_of(key: str) -> str:
    if key in _GROUP_OF:
        return _GROUP_OF[key]
    if key.endswith("memory_bytes") or key == "num_allocation_retries":
        return "memory"
    return "time" if key.endswith("_s") else "run"


def is_evaluation(line: dict) -> bool:
    return "validation_loss" in line


def _evaluation_scalars(line: dict) -> dict:
    scalars = {f"validation/{key.removeprefix('validation_')}": value for key, value in line.items()
               if key.startswith("validation_") and not isinstance(value, (dict, str))}
    for source, loss in line.get("validation_loss_by_source", {}).items():
        scalars[f"validation/loss_by_source/{source}"] = loss
    for statistic, value in line.get("validation_objective", {}).items():
        scalars[f"validation/{statistic}"] = value
    for name, numbers in line.get("validation_sets", {}).items():
        for key in ("loss", "perplexity"):
            if key in numbers:
                scalars[f"validation/{name}/{key}"] = numbers[key]
        for statistic, value in numbers.get("objective", {}).items():
            scalars[f"validation/{name}/{statistic}"] = value
    return scalars


def scalars_of(line: dict) -> dict[str, float]:
    """Scalars by "group/key". Non-finite values are null in the file and NaN here."""
    if "evaluate_command" in line:
        scalars = {f"evaluate_command/{name}": value for name, value in line["evaluate_command"].items()}
    elif is_evaluation(line):
        scalars = _evaluation_scalars(line)
    else:
        scalars = {f"{_group_of(key)}/{key}": value for key, value in line.items()
                   if key != "step" and not isinstance(value, (dict, list, str))}
        for source, loss in line.get("loss_by_source", {}).items():
            scalars[f"train/loss_by_source/{source}"] = loss
        for statistic, value in line.get("objective", {}).items():
            scalars[f"objective/{statistic}"] = value
        for name, numbers in line.get("adapters", {}).items():
            for key in ("loss", "grad_norm", "learning_rate"):
                scalars[f"adapters/{name}/{key}"] = numbers[key]
    return {tag: math.nan if value is None else float(value) for tag, value in scalars.items()}
