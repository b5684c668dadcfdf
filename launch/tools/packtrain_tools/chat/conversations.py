"""Conversations of the forms people have, as one: messages of transformers' chat templates
(role, content, tool_calls, reasoning_content), and which of them are asked to be learned."""

import json
from dataclasses import dataclass

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
REASONING = ("reasoning_content", "thinking", "reasoning")  # names of the same thing
# ShareGPT's `from`, with the names its descendants use.
SHAREGPT_ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant",
                  "assistant": "assistant", "chatgpt": "assistant", "model": "assistant",
                  "function_call": "function_call", "tool": "tool", "observation": "tool",
                  "function_response": "tool"}


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: list[dict]
    tools: list[dict] | None
    asked: list[float | None]  # a message's weight, from 0 to 1; None: as --train-on says
    group: str = ""  # the value of --group-by's column, as JSON
    weight: float = 1.0  # of the example, from 0 to 1

    @property
    def assistant_turns(self) -> list[int]:
        return [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]


def read_messages(value: object, tools: object = None, learn: bool | None = None) -> Conversation:
    """Of `messages` and `tools` columns. Raises ValueError naming the turn."""
    messages, asked = [], []
    for number, entry in enumerate(_list(value, "messages"), start=1):
        try:
            message, flag = _message(entry)
        except ValueError as fault:
            raise ValueError(f"turn {number}: {fault}") from None
        messages.append(message)
        asked.append(learn if flag is None and message["role"] == "assistant" else flag)
    return Conversation(messages, _tools(tools), asked)


def read_prompt_completion(prompt: object, completion: object, tools: object) -> Conversation:
    """Of messages in both columns: only those of the completion are learned."""
    before = read_messages(prompt, tools, learn=False)
    after = read_messages(completion, learn=True)
    return Conversation(before.messages + after.messages, before.tools, before.asked + after.asked)


def read_sharegpt(value: object, system: object, tools: object) -> Conversation:
    """Turns of {from, value}, or of messages under ShareGPT's name of the column."""
    turns = _list(value, "conversations")
    if all(isinstance(turn, dict) and "role" in turn for turn in turns):
        messages = list(turns)
    else:
        messages = [_sharegpt_turn(number, turn) for number, turn in enumerate(turns, start=1)]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return read_messages(messages, tools)


def _sharegpt_turn(number: int, turn: object) -> dict:
    if not isinstance(turn, dict) or "from" not in turn or "value" not in turn:
        raise ValueError(f"turn {number}: lacks 'from' or 'value'")
    role = SHAREGPT_ROLES.get(turn["from"])
    if role is None:
        raise ValueError(f"turn {number}: is from '{turn['from']}', wanted one of "
                         f"{', '.join(SHAREGPT_ROLES)}")
    flags = {key: turn[key] for key in ("train", "weight") if key in turn}
    if role != "function_call":
        return {"role": role, "content": turn["value"], **flags}
    calls = _parsed(turn["value"], f"turn {number}: the call")
    calls = calls if isinstance(calls, list) else [calls]
    return {"role": "assistant", "content": "", **flags,
            "tool_calls": [{"type": "function", "function": call} for call in calls]}


def _message(entry: object) -> tuple[dict, bool | None]:
    if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
        raise ValueError("is no object with a 'role'")
    message = dict(entry)
    if message["role"] not in ROLES:
        raise ValueError(f"has the role '{message['role']}', wanted one of {', '.join(ROLES)}")
    flag = _flag(message)
    content = message.get("content")
    if not isinstance(content, (str, list, type(None))):
        raise ValueError("'content' is neither text nor a list of parts")
    _check_text(json.dumps(content, ensure_ascii=False))
    for key in REASONING:
        if message.get(key):
            message["reasoning_content"] = message[key]
        if key != "reasoning_content" or not message.get(key):
            message.pop(key, None)
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    else:
        message["tool_calls"] = [_tool_call(call) for call in
                                 _list(message["tool_calls"], "tool_calls")]
    if content is None and not message.get("tool_calls"):
        raise ValueError("has neither 'content' nor 'tool_calls'")
    return message, flag


def _flag(message: dict) -> bool | None:
    """Takes `train` (true or false) or `weight` (0 or 1, OpenAI's name) out of the message."""
    given = [message.pop(key) for key in ("train", "weight") if message.get(key) is not None]
    message.pop("train", None)
    message.pop("weight", None)
    if not given:
        return None
    if any(flag not in (0, 1) for flag in given) or len(set(map(bool, given))) > 1:
        raise ValueError(f"'train' is {given[0]}, wanted true or false")
    if given[0] and message["role"] != "assistant":
        raise ValueError(f"is of the {message['role']}, and 'train' asks to learn it")
    return bool(given[0])


def _tool_call(call: object) -> dict:
    """Templates want the arguments as an object; OpenAI's form has JSON in a string."""
    if not isinstance(call, dict):
        raise ValueError("'tool_calls' holds something that is no object")
    call = without_nulls(call)
    function = dict(call["function"]) if isinstance(call.get("function"), dict) else None
    holder = function if function is not None else dict(call)
    if isinstance(holder.get("arguments"), str):
        holder["arguments"] = _parsed(holder["arguments"], "the arguments of a tool call")
    return {**call, "function": holder} if function is not None else holder


def _tools(value: object) -> list[dict] | None:
    if value in (None, "", []):
        return None
    return [_parsed(tool, "a tool") if isinstance(tool, str) else without_nulls(tool)
            for tool in _list(value, "tools")]


def _list(value: object, name: str) -> list:
    """Tables often hold such lists as JSON."""
    if isinstance(value, str):
        value = _parsed(value, f"'{name}'")
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{name}' is no list, or an empty one")
    return value


def _parsed(text: str, name: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is no valid JSON: {error}") from None


def _check_text(text: str):
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no text") from None


def without_nulls(value):
    """Tables give every row all keys that any row has."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    return value
