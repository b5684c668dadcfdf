"""The forms in which templates want messages: contents as lists of parts or as text, no content, none
(null) or an empty one, arguments of calls as an object or as JSON. Which one a template takes is found by
trying."""

import itertools
import json
from collections.abc import Callable, Iterator


def forms_of(messages: list[dict]) -> Iterator[list[dict]]:
    """The most faithful form first, then those that change one thing, then more. A form that would
    change nothing in these messages is left out."""
    changes = [change for applies, change in _CHANGES if any(map(applies, messages))]
    base = [_arguments_as_objects(message) for message in messages]
    for count in range(len(changes) + 1):
        for chosen in itertools.combinations(changes, count):
            yield [_changed(message, original, chosen)
                   for message, original in zip(base, messages)]


def _changed(message: dict, original: dict, chosen: tuple[Callable, ...]) -> dict:
    for change in chosen:
        message = change(message, original)
    return message


def _with_arguments(message: dict, make: Callable[[object], object]) -> dict:
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        is_nested = isinstance(call.get("function"), dict)
        function = call["function"] if is_nested else call
        if "arguments" in function:
            function = {**function, "arguments": make(function["arguments"])}
        calls.append({**call, "function": function} if is_nested else function)
    return {**message, "tool_calls": calls}


def _arguments_as_objects(message: dict) -> dict:
    return _with_arguments(message, lambda value: json.loads(value) if isinstance(value, str)
                           else value)


def _arguments_as_text(message: dict, original: dict) -> dict:
    """The string that the data has, or the object as JSON."""
    told = _with_arguments(original, lambda value: value if isinstance(value, str)
                           else json.dumps(value, ensure_ascii=False))
    return {**message, "tool_calls": told["tool_calls"]} if "tool_calls" in message else message


def _parts_joined(message: dict, original: dict) -> dict:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join(part["text"] for part in content)}


def _null_content(message: dict, original: dict) -> dict:
    """Not the first form: some templates print it, as None."""
    return message if "content" in message else {**message, "content": None}


def _empty_content(message: dict, original: dict) -> dict:
    return message if message.get("content") is not None else {**message, "content": ""}


_CHANGES = (
    (lambda message: isinstance(message.get("content"), list), _parts_joined),
    (lambda message: "content" not in message, _null_content),
    (lambda message: "content" not in message, _empty_content),
    (lambda message: bool(message.get("tool_calls")), _arguments_as_text),
)
