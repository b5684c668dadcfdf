"""Reads records of answers that were compared (`chosen`, `rejected`) or judged (`label`)."""

import json
import math
import re

from packtrain_tools.chat.calls import read_tools
from packtrain_tools.chat.conversations import (SYSTEM_ROLES, Conversation, read_messages,
                                                read_prompt_completion)
from packtrain_tools.chat.names import Names
from packtrain_tools.chat.shapes import history_turns, messages_in_text, turns_of
from packtrain_tools.chat.values import kind, optional_string, string
from packtrain_tools.sources.columns import JUDGEMENTS, PROMPTS, Reading
from packtrain_tools.sources.documents import Instruction, Preference, Role, Text

_ANSWERS = {"chosen": Role.CHOSEN, "rejected": Role.REJECTED}
_ANSWER_MARK = "\n\nAssistant:"  # of Anthropic's texts; the last one that both have ends the prompt
_LAST_WORD = re.compile(r"\s+\S*\Z")
# What data sets call the prompt, where it is no column of the format: with it the answers say nothing of a prompt.
_ASKED = ("question", "query", "problem", "input", "user", "human", "instructions", "prompts")
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def read_pair(value: dict, reading: Reading, group: str, weight: float) -> Preference:
    """`value` has `chosen` and `rejected`: texts or messages, after a prompt in a column of its own, or with
    their common prompt at the beginning. Raises ValueError."""
    missing = next((name for name in _ANSWERS if value[name] is None), None)
    if missing is not None:
        raise ValueError(f"'{missing}' is null: this is half a pair")
    value = value | {name: _messages_or_text(value[name], name, reading.names) for name in _ANSWERS}
    if isinstance(value["chosen"], str) != isinstance(value["rejected"], str):
        raise ValueError("has text in one of 'chosen' and 'rejected', and messages in the other")
    prompt = next((name for name in PROMPTS if name in value), None)
    margin = _margin(value)
    if prompt == "instruction":
        members, key = _instruction_members(value, reading, weight)
        return Preference(members, key, margin, group, weight)
    value = value | {"prompt": _prompt_of(value, prompt, reading.names)}
    if isinstance(value["chosen"], str) and not isinstance(value["prompt"], list):
        members, key = _text_members(value, reading, weight)
    else:
        members, key = _chat_members(value, reading, weight)
    return Preference(members, key, margin, group, weight)


def read_judged(value: dict, reading: Reading, group: str, weight: float) -> Preference:
    """`value` has a prompt with its completion, or a conversation, and `label`: true where the answer is
    desirable. Raises ValueError."""
    role = Role.DESIRABLE if _judgement(value) else Role.UNDESIRABLE
    if "prompt" in value:
        if "completion" not in value:
            raise ValueError("has 'prompt' and no 'completion'")
        names = ("prompt", "completion")
        value = value | {name: _messages_or_text(value[name], name, reading.names) for name in names}
    elif "instruction" in value and "output" in value:
        return Preference(*_judged_instruction(value, role, reading, weight), None, group, weight)
    else:
        column = next((name for name in ("messages", "conversations") if name in value), None)
        if column is None:
            raise ValueError("has no answer: wanted 'prompt' and 'completion', 'instruction' and 'output', or "
                             "'messages'")
        turns = turns_of(value[column], column)
        roles = _roles(read_messages(turns, None, reading.names, column))
        last = max((i for i, name in enumerate(roles) if name != "assistant"), default=-1) + 1
        if last == len(roles):
            raise ValueError(f"'{column}' ends with a message of the {roles[-1]}, and the answer of the "
                             "assistant is judged")
        value = value | {"prompt": turns[:last], "completion": turns[last:]}
    is_text = isinstance(value["prompt"], str) and isinstance(value["completion"], str)
    member, key = _text_member(value, "completion", reading, weight) if is_text else \
        _chat_member(value, "completion", value["prompt"], value["completion"], reading, weight)
    return Preference(((role, member),), key, None, group, weight)


def _judgement(value: dict) -> bool:
    label = value["label"]
    found = TRUTHS.get(label.strip().lower()) if isinstance(label, str) else label
    if found not in (True, False):
        raise ValueError(f"'label' is {kind(label)}, wanted true or false ({' or '.join(JUDGEMENTS)} says "
                         "whether the answer is desirable)")
    return bool(found)


def _messages_or_text(value: object, name: str, names: Names) -> str | list:
    """One message becomes a list of it, and messages as JSON are parsed."""
    value = messages_in_text(value, ("role", "from", names.role_key))
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, (str, list)):
        raise ValueError(f"'{name}' is {kind(value)}, wanted text, a message or a list of messages")
    return value if isinstance(value, list) else string({name: value}, name)


def _prompt_of(value: dict, column: str | None, names: Names) -> str | list | None:
    if column is None:
        return None
    if column == "prompt":
        return _messages_or_text(value["prompt"], "prompt", names)
    return turns_of(value[column], column)


def _margin(value: dict) -> float | None:
    """The column `margin`, else the difference of two scores."""
    if "margin" in value:
        return _number(value, "margin")
    if "score_chosen" in value and "score_rejected" in value:
        return _number(value, "score_chosen") - _number(value, "score_rejected")
    return None


def _number(value: dict, name: str) -> float:
    found = value[name]
    try:
        number = math.nan if isinstance(found, bool) or not isinstance(found, (int, float, str)) else float(found)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or abs(number) > 1e30:  # it is stored as float32
        raise ValueError(f"'{name}' is {kind(found)}, wanted a finite number (--column {name}= leaves the "
                         "column out)")
    return number


def _check_answer(text: str, name: str):
    if not text.strip():
        raise ValueError(f"'{name}' has an empty answer")


def _check_has_prompt(value: dict, common: str):
    """Texts whose prompt is in a column of another name are refused. `common`: what both texts begin with."""
    for name in _ASKED:
        found = value.get(name)
        if isinstance(found, str) and found.strip() and found.strip() not in common:
            raise ValueError(f"has no column 'prompt', and '{name}' is not in the texts 'chosen' and 'rejected' "
                             f"(--column prompt={name} reads it as the prompt; --column {name}= leaves it out)")


def _text_members(value: dict, reading: Reading, weight: float) -> tuple[tuple, str]:
    if value["prompt"] is None:
        _check_has_prompt(value, _common_beginning(value["chosen"], value["rejected"]))
        value = value | _divided_texts(value["chosen"], value["rejected"])
    read = {name: _text_member(value, name, reading, weight) for name in _ANSWERS}
    return tuple((role, read[name][0]) for name, role in _ANSWERS.items()), read["chosen"][1]


def _text_member(value: dict, name: str, reading: Reading, weight: float) -> tuple[Text, str]:
    """The answer in the column `name` as a text after its prompt, and the prompt."""
    if read_tools(value.get("tools"), value.get("functions")):
        raise ValueError("has tools, which only messages can call, and its answers are text (--column "
                         "tools= leaves the column out)")
    prompt = value["prompt"]
    system = optional_string(value, "system") or reading.reshaping.system
    if system:
        prompt = f"{system}\n\n{prompt}"
    _check_answer(value[name], name)
    return Text(prompt, value[name], "", weight), prompt


def _common_beginning(first: str, second: str) -> str:
    length = next((i for i, pair in enumerate(zip(first, second)) if pair[0] != pair[1]), min(len(first), len(second)))
    return first[:length]


def _divided_texts(chosen: str, rejected: str) -> dict:
    """Divides texts that begin with the same prompt. The prompt ends with the last mark of an answer that
    both have, else before the first word that differs."""
    common = _common_beginning(chosen, rejected)
    mark = common.rfind(_ANSWER_MARK)
    if mark >= 0:
        end = mark + len(_ANSWER_MARK)
    else:
        word = _LAST_WORD.search(common)
        end = word.start() if word else 0
    if not common[:end].strip():
        raise ValueError("'chosen' and 'rejected' do not begin with the same prompt, and there is no column "
                         "'prompt'")
    return {"prompt": common[:end], "chosen": chosen[end:], "rejected": rejected[end:]}


def _instruction_members(value: dict, reading: Reading, weight: float) -> tuple[tuple, str]:
    read = {name: _instruction_member(value, name, reading, weight) for name in _ANSWERS}
    return tuple((role, read[name][0]) for name, role in _ANSWERS.items()), read["chosen"][1]


def _judged_instruction(value: dict, role: Role, reading: Reading, weight: float) -> tuple[tuple, str]:
    member, key = _instruction_member(value | {"output": string(value, "output")}, "output", reading, weight)
    return ((role, member),), key


def _instruction_member(value: dict, name: str, reading: Reading, weight: float) -> tuple[Instruction, str]:
    """The answer in the column `name` to an instruction, and what identifies the instruction."""
    if not isinstance(value[name], str):
        raise ValueError(f"'{name}' is messages, wanted text, as 'instruction' is")
    _check_answer(value[name], name)
    history = tuple(history_turns(value.get("history")))
    member = Instruction(optional_string(value, "system"), string(value, "instruction"),
                         optional_string(value, "input"), value[name], "", weight, history, reading.reshaping,
                         read_tools(value.get("tools"), value.get("functions")))
    return member, json.dumps([member.system, member.prompt, member.input, history])


def _chat_members(value: dict, reading: Reading, weight: float) -> tuple[tuple, str]:
    if isinstance(value["chosen"], list):
        turns = {name: turns_of(value[name], name) for name in _ANSWERS}
        read = {name: read_messages(turns[name], None, reading.names, name) for name in _ANSWERS}
        are_whole = [_is_whole(read[name]) for name in _ANSWERS]
        if are_whole[0] != are_whole[1]:
            raise ValueError("one of 'chosen' and 'rejected' is a whole conversation, and the other only an "
                             "answer")
        if are_whole[0]:
            at = _num_common(read["chosen"].messages, read["rejected"].messages)
            _check_prompt(value["prompt"], read["chosen"].messages[:at], reading.names)
            value = value | {"prompt": turns["chosen"][:at], **{name: turns[name][at:] for name in _ANSWERS}}
        elif value["prompt"] is None:
            raise ValueError("has answers without a prompt: wanted a column 'prompt', or whole conversations "
                             "in 'chosen' and 'rejected'")
    found = {name: _chat_member(value, name, value["prompt"], value[name], reading, weight)
             for name in _ANSWERS}
    return tuple((role, found[name][0]) for name, role in _ANSWERS.items()), found["chosen"][1]


def _chat_member(value: dict, name: str, prompt: str | list, answer: str | list, reading: Reading,
                 weight: float) -> tuple[Conversation, str]:
    """A conversation of which only the answer is learned, and what identifies its prompt."""
    try:
        whole = read_prompt_completion(value | {"prompt": prompt, "completion": answer}, reading.names)
    except ValueError as fault:
        raise ValueError(str(fault).replace("'completion'", f"'{name}'")) from None
    num_answers = 1 if isinstance(answer, str) else len(answer)
    answers = [message for message in whole.messages[-num_answers:] if message["role"] == "assistant"]
    if not any(_says_something(message) for message in answers):
        raise ValueError(f"'{name}' has an empty answer")
    key = json.dumps([whole.messages[:-num_answers], whole.tools], sort_keys=True, default=str)
    return reading.reshaping.of(Conversation(whole.messages, whole.tools, whole.asked, "", weight)), key


def _says_something(message: dict) -> bool:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return bool(text.strip() or message.get("tool_calls") or message.get("reasoning_content"))


def _roles(read: Conversation) -> list[str]:
    return [message["role"] for message in read.messages]


def _is_whole(read: Conversation) -> bool:
    """True for a conversation with its prompt, false for an answer alone."""
    roles = _roles(read)
    return next((role for role in roles if role not in SYSTEM_ROLES), "user") != "assistant"


def _num_common(chosen: list[dict], rejected: list[dict]) -> int:
    """Number of messages of the prompt of two whole conversations. Raises ValueError."""
    at = next((i for i, pair in enumerate(zip(chosen, rejected)) if pair[0] != pair[1]),
              min(len(chosen), len(rejected)))
    if at == len(chosen) == len(rejected):  # equal answers
        at = max((i for i, message in enumerate(chosen) if message["role"] == "assistant"), default=at)
    for name, messages in (("chosen", chosen), ("rejected", rejected)):
        if at == len(messages):
            raise ValueError(f"'{name}' has no answer of its own: the other conversation begins with all of it")
        if messages[at]["role"] != "assistant":
            raise ValueError(f"the prompts of 'chosen' and 'rejected' are different: turn {at + 1} of '{name}' "
                             f"({messages[at]['role']}) is the first that differs")
    if at == 0:
        raise ValueError("'chosen' and 'rejected' have no common prompt")
    return at


def _check_prompt(prompt: str | list | None, common: list[dict], names: Names):
    """Checks that the column of the prompt has what whole conversations begin with. Raises ValueError."""
    if prompt is None:
        return
    if isinstance(prompt, str):
        is_same = any(message["role"] == "user" and isinstance(message.get("content"), str) and
                      message["content"].strip() == prompt.strip() for message in common)
    else:
        is_same = common[:len(prompt)] == read_messages(prompt, None, names, "prompt").messages
    if not is_same:
        raise ValueError("'prompt' is not what the conversations 'chosen' and 'rejected' begin with (--column "
                         "prompt= leaves it out)")
