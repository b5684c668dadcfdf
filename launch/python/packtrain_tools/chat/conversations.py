"""Reads conversations of common formats into one: messages of transformers' chat templates (role, content,
tool_calls, reasoning_content), each with a requested weight."""

from dataclasses import dataclass

from packtrain_tools.chat.calls import (calls_in_text, message_of_calls, read_calls,
                                        read_tools)
from packtrain_tools.chat.content import read_content, text_of
from packtrain_tools.chat.media import check_keys_of_media
from packtrain_tools.chat.names import CALL, DEFAULT_NAMES, ROLES, Names, named_message
from packtrain_tools.chat.shapes import messages_in_text, turns_of
from packtrain_tools.chat.thoughts import without_repeated_thought
from packtrain_tools.chat.values import check_depth, check_text, kind, share

__all__ = ["ROLES", "REASONING", "SYSTEM_ROLES", "Conversation", "read_conversation",
           "read_messages", "read_prompt_completion", "read_sharegpt", "with_messages"]
SYSTEM_ROLES = ("system", "developer")
_WEIGHTS = ("train", "weight", "loss", "trainable")  # weight: of OpenAI, loss: of ms-swift
REASONING = ("reasoning_content", "thinking", "reasoning")  # names of the same thing


@dataclass(frozen=True, slots=True)
class Conversation:
    """Each of `messages` has `role`. It may have `content`, text or a list of {"type": "text", "text"};
    `reasoning_content`; `tool_calls`, whose arguments are objects or JSON in a string."""

    messages: list[dict]
    tools: list[dict] | None
    asked: list[float | None]  # a message's weight, from 0 to 1; None: decided by --train-on
    group: str = ""  # the value of --group-by's column, as JSON
    weight: float = 1.0  # of the example, from 0 to 1
    merged_system: str = ""  # the system prompts that the first user's turn begins with, by --merge-system

    @property
    def assistant_turns(self) -> list[int]:
        return [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]


def read_messages(value: object, tools: object = None, names: Names = DEFAULT_NAMES,
                  name: str = "messages") -> Conversation:
    """Reads the values of the columns `name` and `tools`. Raises ValueError naming the turn."""
    messages: list[dict] = []
    asked: list[float | None] = []
    for number, entry in enumerate(turns_of(value, name), start=1):
        try:
            message, weight = _message(entry, names)
        except ValueError as fault:
            raise ValueError(f"turn {number}: {fault}") from None
        messages.append(message)
        asked.append(weight)
    return Conversation(messages, read_tools(tools), asked)


def read_conversation(name: str, value: dict, names: Names = DEFAULT_NAMES) -> Conversation:
    """Reads a record with the column `name`, and optional `system`, `tools`, `functions`."""
    read = read_messages(value[name], None, names, name)
    return _completed(read, value)


def read_prompt_completion(value: dict, names: Names = DEFAULT_NAMES) -> Conversation:
    """Reads messages in `prompt` or `completion`, or both; a text in one of them is a message. Only
    messages of the completion are learned."""
    before = _side(value["prompt"], "prompt", "user", names)
    after = _side(value["completion"], "completion", "assistant", names)
    learned = [1.0 if weight is None and message["role"] == "assistant" else weight
               for message, weight in zip(after.messages, after.asked)]
    not_learned: list[float | None] = [0.0 if weight is None else weight for weight in before.asked]
    return _completed(Conversation(before.messages + after.messages, None,
                                   not_learned + learned), value, 0.0)


def with_messages(value: dict, names: Names = DEFAULT_NAMES) -> dict:
    """Returns a record of `prompt` and `completion` in which messages given as JSON strings are parsed.
    With `tools`, a completion that is a list of calls becomes a message."""
    keys = ("role", "from", names.role_key)
    found = {name: messages_in_text(value[name], keys) for name in ("prompt", "completion")}
    if value.get("tools") or value.get("functions"):
        found["completion"] = message_of_calls(found["completion"])
    return value | found


def read_sharegpt(turns: object, system: object = None, tools: object = None) -> Conversation:
    """Reads turns of {from, value}, or messages under ShareGPT's column name."""
    return read_conversation("conversations", {"conversations": turns, "system": system,
                                               "tools": tools})


def _side(value: object, name: str, role: str, names: Names) -> Conversation:
    if isinstance(value, str):
        check_text(value, f"'{name}'")
        return Conversation([{"role": role, "content": value}], None, [None])
    if isinstance(value, list) and value and isinstance(value[0], str):
        raise ValueError(f"'{name}' is a list of strings, wanted a string or a list of messages")
    try:
        return read_messages(value, None, names, name)
    except ValueError as fault:
        raise ValueError(f"{fault} (of '{name}')" if str(fault).startswith("turn") else
                         str(fault)) from None


def _completed(read: Conversation, value: dict,
               system_weight: float | None = None) -> Conversation:
    """Adds the values of other columns."""
    messages, asked = read.messages, read.asked
    system = value.get("system")
    if system is not None and system != "":
        if not isinstance(system, str):
            raise ValueError(f"'system' is {kind(system)}, wanted a string")
        check_text(system, "'system'")
        own = messages[0]
        if own["role"] not in SYSTEM_ROLES:
            messages = [{"role": "system", "content": system}, *messages]
            asked = [system_weight, *asked]
        elif text_of(own.get("content")) != system:
            raise ValueError("'system' is another system prompt than the messages begin with "
                             "(--column system= leaves the column out)")
    tools = read_tools(value.get("tools"), value.get("functions"))
    check_depth(tools, "'tools'")
    return Conversation(messages, tools, asked)


def _message(entry: object, names: Names) -> tuple[dict, float | None]:
    """A message and its requested weight."""
    message = named_message(entry, names)
    weight = _weight(message)
    check_keys_of_media(message)
    if message["role"] == CALL:
        calls = calls_in_text(message.pop("content", None))
        message["role"] = "assistant"
    else:
        calls = read_calls(message)
    content, thoughts = read_content(message.pop("content", None), message["role"])
    if content is not None:
        message["content"] = content
    elif not calls:
        raise ValueError("has neither 'content' nor 'tool_calls' (--message-key content=YOURS says what "
                         "yours is called)")
    if calls:
        message["tool_calls"] = calls
    _set_reasoning(message, thoughts)
    if message["role"] == "assistant":
        message = without_repeated_thought(message)
    for key, value in message.items():
        if isinstance(value, (dict, list)):
            check_depth(value, f"'{key}'")
    return message, weight


def _set_reasoning(message: dict, thoughts: str):
    """Stores the reasoning under one name, for any name that the message uses."""
    values = {key: message.pop(key) for key in REASONING if key in message}
    values = {key: value for key, value in values.items() if value}
    given = next(iter(values.values()), "")
    other = next((key for key, value in values.items() if value != given), None)
    if other is not None:
        raise ValueError(f"has different reasoning in '{next(iter(values))}' and '{other}'")
    if given and thoughts and given != thoughts:
        raise ValueError("has its reasoning twice: as a key and as a part of the content")
    given = given or thoughts
    if given and not isinstance(given, str):
        raise ValueError(f"the reasoning is {kind(given)}, wanted a string")
    if given:
        message["reasoning_content"] = given


def _weight(message: dict) -> float | None:
    """Removes `train` (true, false, or a number from 0 to 1), or another name of it, and returns its
    value."""
    given = {key: share(message.pop(key), f"'{key}'") for key in _WEIGHTS if key in message}
    if "masked" in message:  # of torchtune
        given["masked"] = 1 - share(message.pop("masked"), "'masked'")
    if len(set(given.values())) > 1:
        asked = " and ".join(f"'{key}' for {weight:g}" for key, weight in given.items())
        raise ValueError(f"its keys ask for different weights: {asked}")
    if message.pop("train_detail", None):
        raise ValueError("has 'train_detail', which weighs parts of a message: not read (divide the "
                         "message, or remove the key)")
    return next(iter(given.values()), None)
