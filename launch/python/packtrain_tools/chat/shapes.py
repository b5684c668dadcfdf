"""Converts the ways in which data sets store the turns of a conversation to a list of messages."""

from typing import Any

from packtrain_tools.chat.names import DEFAULT_NAMES
from packtrain_tools.chat.values import kind, parsed, parsed_if

# Keys of turns that have both a question and an answer, in upper or lower case.
_ASKED = ("input", "user", "human", "prompt", "question", "query", "instruction")
_ANSWERED = ("output", "assistant", "gpt", "bot", "chatbot", "model", "response", "answer", "completion")
_ROLE_KEYS = ("role", "from")
_SAID = ("content", "value", "tool_calls", "function_call")
_MESSAGE_KEYS = ("role", "from", "content", "value")


def turns_of(value: object, name: str) -> list:
    """Returns a list of messages, not empty. Raises ValueError."""
    for _ in range(2):  # some hold it as JSON twice
        value = parsed(value, f"'{name}'") if isinstance(value, str) else value
    if isinstance(value, dict):
        value = _transposed(value, name)
    if not isinstance(value, list):
        raise ValueError(f"'{name}' is {kind(value)}, wanted a list of messages")
    if not value:
        raise ValueError(f"'{name}' is an empty list, wanted messages")
    first = value[0]
    if isinstance(first, str):
        messages: list[Any] = [messages_in_text(f"[{text}]", _ROLE_KEYS) if isinstance(text, str) and
                               text.lstrip().startswith("{") else None for text in value]
        if all(isinstance(found, list) and len(found) == 1 for found in messages):
            return [message for [message] in messages]
        return _alternating(value)
    if isinstance(first, list):
        return _from_lists(value)
    if isinstance(first, dict):
        pair = _pair_keys(first)
        if pair:
            return _from_pairs(value, *pair)
    return value


def messages_in_text(value: object, role_keys: tuple[str | None, ...]) -> object:
    """Parses a JSON string of messages, as tables and CSV store them. One message becomes a list of it. Returns
    other values unchanged. Raises ValueError for messages with a doubled key."""
    def is_message(found: object) -> bool:
        role = next((found[key] for key in role_keys if key in found), None) if isinstance(found, dict) else None
        return isinstance(role, str) and role.lower() in DEFAULT_NAMES.roles and \
            any(key in found for key in _SAID)  # type: ignore[operator]  # it is an object

    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parsed_if(is_message, value, "a message")
    if is_message(value):
        return [value]
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value

    def is_messages(found: object) -> bool:
        return isinstance(found, list) and bool(found) and \
            all(isinstance(entry, dict) and any(key in entry for key in role_keys) for entry in found)

    return parsed_if(is_messages, value, "a list of messages")


def _transposed(columns: dict, name: str) -> list[dict]:
    """Converts a struct of lists, which older versions of `datasets` make of a sequence of structs."""
    lists = {key: entries for key, entries in columns.items() if isinstance(entries, list)}
    if not lists or len(lists) < len(columns):
        raise ValueError(f"'{name}' is an object, wanted a list of messages")
    if len({len(entries) for entries in lists.values()}) > 1:
        sizes = ", ".join(f"'{key}' with {len(entries)}" for key, entries in lists.items())
        raise ValueError(f"'{name}' holds lists of different lengths: {sizes}")
    return [dict(zip(lists, entries)) for entries in zip(*lists.values())]


def _alternating(texts: list) -> list[dict]:
    """Converts texts of the user and the assistant in turn."""
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ValueError(f"turn {number}: is {kind(text)}, wanted text, as turn 1 is")
    return [{"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(texts)]


def _from_lists(turns: list) -> list[dict]:
    """Converts pairs of [asked, answered]; the last one may lack its answer."""
    messages = []
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, list) or len(turn) != 2 or not isinstance(turn[0], str):
            raise ValueError(f"turn {number}: is {kind(turn)}, wanted [asked, answered], or an object "
                             "with 'role' and 'content'")
        messages.append({"role": "user", "content": turn[0]})
        if turn[1] is not None:
            messages.append({"role": "assistant", "content": turn[1]})
    return messages


def _pair_keys(turn: dict) -> tuple[str, str] | None:
    """The keys of question and answer. Raises ValueError where they are not certain."""
    if any(key in turn for key in _MESSAGE_KEYS):
        return None
    asked = [key for key in turn if key.lower() in _ASKED]
    answered = [key for key in turn if key.lower() in _ANSWERED]
    if not asked or not answered:
        return None
    if len(asked) > 1 or len(answered) > 1:
        names = ", ".join(f"'{key}'" for key in asked + answered)
        raise ValueError(f"turn 1: has {names}, several of which may be what is asked or answered")
    return asked[0], answered[0]


def _from_pairs(turns: list, asks: str, answers: str) -> list[dict]:
    messages: list[dict] = []
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, dict) or turn.get(asks) is None:
            raise ValueError(f"turn {number}: lacks '{asks}', which turn 1 has")
        if turn.get("system"):
            messages.append({"role": "system", "content": turn["system"]})
        messages.append({"role": "user", "content": turn[asks]})
        if turn.get(answers) is not None:
            rest = {key: entry for key, entry in turn.items() if key not in (asks, answers, "system")}
            messages.append({**rest, "role": "assistant", "content": turn[answers]})
    return messages


def _asked_and_answered(messages: list) -> list[list]:
    """Converts messages of the user and the assistant in turn to pairs."""
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    if roles != ["user", "assistant"] * (len(messages) // 2):
        raise ValueError("'history' holds messages that are not of the user and the assistant in turn "
                         "(a conversation in one column is read with --column messages=YOURS)")
    texts = [message.get("content") for message in messages]
    return [list(pair) for pair in zip(texts[::2], texts[1::2])]


def history_turns(value: object) -> list[tuple[str, str]]:
    """Reads Alpaca's `history`: [[question, answer], ...]. Raises ValueError."""
    if isinstance(value, str) and value.strip():
        value = parsed(value, "'history'")
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        return []
    if not isinstance(value, list):
        raise ValueError(f"'history' is {kind(value)}, wanted a list of [asked, answered]")
    if value and isinstance(value[0], dict):
        value = _asked_and_answered(turns_of(value, "history"))
    for number, turn in enumerate(value, start=1):
        if not (isinstance(turn, list) and len(turn) == 2 and
                all(isinstance(text, str) for text in turn)):
            raise ValueError(f"entry {number} of 'history' is not [asked, answered], two texts")
    return [(asked, answered) for asked, answered in value]
