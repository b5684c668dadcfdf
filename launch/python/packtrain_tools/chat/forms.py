"""The forms of messages that templates accept. Contents are a list of parts or text;
missing contents have no key, null or an empty text. Arguments of calls are an object or JSON. Reasoning is
next to the content or among its parts. The form for a template is found by trying."""

import itertools
import json
from collections.abc import Callable, Iterator


def forms_of(messages: list[dict]) -> Iterator[list[dict]]:
    """Yields the most faithful form first, then those with one change, then those with more. Skips forms
    that change nothing in these messages."""
    kinds = [[None, *(change for applies, change in choices if any(map(applies, messages)))]
             for choices in _CHOICES]
    base = [_arguments_as_objects(message) for message in messages]
    for chosen in sorted(itertools.product(*kinds), key=lambda each: len(each) - each.count(None)):
        yield [_changed(message, original, chosen)
               for message, original in zip(base, messages)]


def _changed(message: dict, original: dict, chosen: tuple[Callable | None, ...]) -> dict:
    for change in chosen:
        message = change(message, original) if change else message
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
    """The string of the data, or the object as JSON."""
    told = _with_arguments(original, lambda value: value if isinstance(value, str)
                           else json.dumps(value, ensure_ascii=False))
    return {**message, "tool_calls": told["tool_calls"]} if "tool_calls" in message else message


def _parts_joined(message: dict, original: dict) -> dict:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join(part["text"] for part in content)}


def _null_content(message: dict, original: dict) -> dict:
    """Not the first form, because some templates print null as None."""
    return message if "content" in message else {**message, "content": None}


def _empty_content(message: dict, original: dict) -> dict:
    return message if message.get("content") is not None else {**message, "content": ""}


def _text_as_part(message: dict, original: dict) -> dict:
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) \
        else message


def _thoughts_as_part(message: dict, original: dict) -> dict:
    """Before the text, as Mistral's templates require."""
    if "reasoning_content" not in message:
        return message
    content = _text_as_part(message, original).get("content") or []
    thoughts = {"type": "thinking", "thinking": message["reasoning_content"]}
    return {**{key: value for key, value in message.items() if key != "reasoning_content"},
            "content": [thoughts, *content]}


# A form takes at most one of each choice, in the order of preference.
_CHOICES = (
    ((lambda message: isinstance(message.get("content"), list), _parts_joined),
     (lambda message: isinstance(message.get("content"), str), _text_as_part)),
    ((lambda message: "content" not in message, _null_content),
     (lambda message: "content" not in message, _empty_content)),
    ((lambda message: bool(message.get("tool_calls")), _arguments_as_text),),
    ((lambda message: "reasoning_content" in message, _thoughts_as_part),))
