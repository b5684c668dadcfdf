"""Reads records of rollouts: a prompt with one answer of a policy or several, and numbers of each."""

import json
import math

from packtrain_tools.chat.calls import read_tools
from packtrain_tools.chat.conversations import Conversation, read_prompt_completion
from packtrain_tools.chat.shapes import messages_in_text
from packtrain_tools.chat.values import as_list, kind, optional_string, string
from packtrain_tools.sources.columns import Reading
from packtrain_tools.sources.documents import Rollout, Rollouts, Text, Tokens
from packtrain_tools.sources.rollout_columns import ADVANTAGE, OLD_LOG_PROB, ROLLOUTS, TOKEN_WEIGHT

Member = Text | Conversation | Tokens
_MOST = 1e30  # numbers are stored as float32
_MOST_LOG_PROB = 1e-3  # rounding of a probability of 1


def read_rollouts(value: dict, reading: Reading, group: str, weight: float) -> Rollouts:
    """`value` has `prompt` and `completion`, or `prompt_ids` and `completion_ids`, with `advantage` or
    `reward`, perhaps `old_log_prob`. A list of completions has a list of each. Raises ValueError."""
    missing = next((name for name in ROLLOUTS if name in value and value[name] is None), None)
    if missing is not None:
        raise ValueError(f"'{missing}' is null")
    if value.get("completion") == [] and "completion_ids" not in value:
        raise ValueError("'completion' is an empty list")
    members, prompt = _token_members(value, weight) if "completion_ids" in value else \
        _said_members(value, reading, weight)
    numbers = {name: _of_each(value, name, len(members)) for name in (ADVANTAGE, "reward", OLD_LOG_PROB, TOKEN_WEIGHT)
               if name in value}
    rollouts = tuple(_rollout(member, {name: each[i] for name, each in numbers.items()})
                     for i, member in enumerate(members))
    if "group" in value and not group:
        group = json.dumps(value["group"], sort_keys=True, default=str)
    return Rollouts(rollouts, prompt, group, weight)


def _rollout(member: Member, numbers: dict) -> Rollout:
    values: dict[str, float | list[float]] = {}
    reward = None
    if ADVANTAGE in numbers:
        values[ADVANTAGE] = _numbers(numbers[ADVANTAGE], ADVANTAGE)
    else:
        found = _numbers(numbers["reward"], "reward")
        reward = math.fsum(found) if isinstance(found, list) else found
        values[ADVANTAGE] = 0.0  # of the whole group: rollout_groups.py
    if OLD_LOG_PROB in numbers:
        log_probs = _numbers(numbers[OLD_LOG_PROB], OLD_LOG_PROB)
        if not isinstance(log_probs, list):
            raise ValueError(f"'{OLD_LOG_PROB}' is {kind(numbers[OLD_LOG_PROB])}, wanted a list with a number for "
                             "each token of the answer")
        wrong = next((i for i, each in enumerate(log_probs) if each > _MOST_LOG_PROB), None)
        if wrong is not None:
            raise ValueError(f"'{OLD_LOG_PROB}' has {log_probs[wrong]:g} at {wrong}, wanted the logarithm of a "
                             "probability, which is at most 0")
        values[OLD_LOG_PROB] = [min(each, 0.0) for each in log_probs]
    if TOKEN_WEIGHT in numbers:
        weights = _numbers(numbers[TOKEN_WEIGHT], TOKEN_WEIGHT)
        least = min(weights, default=0.0) if isinstance(weights, list) else weights
        if least < 0:
            raise ValueError(f"'{TOKEN_WEIGHT}' has {least:g}, wanted numbers of at least 0")
        values[TOKEN_WEIGHT] = weights
    return Rollout(member, values, reward)


def _of_each(value: dict, name: str, num_members: int) -> list:
    """What each answer of the record has in a column. One answer may have its value without a list."""
    found = value[name]
    if not _is_list_of_answers(value):
        return [found]
    found = as_list(found, name)
    if len(found) != num_members:
        raise ValueError(f"'{name}' has {len(found)} entries for {num_members} completions")
    return found


def _is_list_of_answers(value: dict) -> bool:
    """True for a list of texts, of lists of messages, or of lists of ids. A list of messages is one answer."""
    found = value.get("completion_ids", value.get("completion"))
    return isinstance(found, list) and bool(found) and isinstance(found[0], (str, list))


def _numbers(value: object, name: str) -> float | list[float]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = as_list(value, name)
    if isinstance(value, list):
        return [_number(entry, f"{name}[{i}]") for i, entry in enumerate(value)]
    return _number(value, name)


def _number(value: object, name: str) -> float:
    try:
        number = math.nan if not isinstance(value, (int, float, str)) else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or abs(number) > _MOST:
        raise ValueError(f"'{name}' is {kind(value)}, wanted a finite number")
    return number


def _token_members(value: dict, weight: float) -> tuple[list[Member], str]:
    prompt = _ids(value["prompt_ids"], "prompt_ids")
    several = _is_list_of_answers(value)
    completions = value["completion_ids"] if several else [value["completion_ids"]]
    masks = _of_each(value, "completion_mask", len(completions)) if "completion_mask" in value else \
        [None] * len(completions)
    members: list[Member] = []
    for completion, mask in zip(completions, masks):
        ids = _ids(completion, "completion_ids")
        members.append(Tokens(prompt, ids, None if mask is None else _mask(mask, len(ids)), weight))
    return members, json.dumps(prompt)


def _ids(value: object, name: str) -> list[int]:
    found = as_list(value, name)
    wrong = next((entry for entry in found if isinstance(entry, bool) or not isinstance(entry, int)), None)
    if wrong is not None:
        raise ValueError(f"'{name}' holds {kind(wrong)}, wanted token ids")
    return found


def _mask(value: object, length: int) -> list[bool]:
    found = as_list(value, "completion_mask")
    wrong = next((entry for entry in found if entry not in (0, 1)), None)
    if wrong is not None:
        raise ValueError(f"'completion_mask' holds {kind(wrong)}, wanted 0 and 1")
    if len(found) != length:
        raise ValueError(f"'completion_mask' has {len(found)} entries, wanted {length} as 'completion_ids' has")
    return [bool(entry) for entry in found]


def _said_members(value: dict, reading: Reading, weight: float) -> tuple[list[Member], str]:
    """Answers as texts or messages."""
    completions = value["completion"] if _is_list_of_answers(value) else [value["completion"]]
    prompt = messages_in_text(value["prompt"], ("role", "from", reading.names.role_key))
    found = [_said_member(value | {"prompt": prompt}, completion, reading, weight) for completion in completions]
    return [member for member, _ in found], found[0][1]


def _said_member(value: dict, completion: object, reading: Reading,
                 weight: float) -> tuple[Text | Conversation, str]:
    prompt = value["prompt"]
    if isinstance(prompt, str) and isinstance(completion, str):
        if read_tools(value.get("tools"), value.get("functions")):
            raise ValueError("has tools, which only messages can call, and its answers are text (--column tools= "
                             "leaves the column out)")
        system = optional_string(value, "system") or reading.reshaping.system
        prompt = f"{system}\n\n{string(value, 'prompt')}" if system else string(value, "prompt")
        return Text(prompt, string({"completion": completion}, "completion"), "", weight), f"t{prompt}"
    if isinstance(completion, dict):
        completion = [completion]
    whole = read_prompt_completion(value | {"completion": completion}, reading.names)
    num_answers = 1 if isinstance(completion, str) else len(whole.messages) - _num_before(whole)
    key = json.dumps([whole.messages[:-num_answers], whole.tools], sort_keys=True, default=str)
    return reading.reshaping.of(Conversation(whole.messages, whole.tools, whole.asked, "", weight)), f"c{key}"


def _num_before(whole: Conversation) -> int:
    """Messages before the first that is learned."""
    return next((i for i, weight in enumerate(whole.asked) if weight), len(whole.messages) - 1)
