"""Values of decoded records: names in messages, JSON in strings, nulls of tables."""

import json
from collections.abc import Callable
from dataclasses import dataclass

SHOWN = 80  # characters of a value
MOST_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces a value that Python cannot hold, such as a time in nanoseconds, or an invalid row of CSV."""

    fault: str
    text: str = ""

    def __str__(self) -> str:
        return f"cannot be read ({self.fault})"


def kind(value: object) -> str:
    """Describes a value of a wrong type in messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, Unreadable):
        return f"a value that {value}"
    if isinstance(value, (bytes, bytearray)):
        return f"binary data ({len(value)} bytes)"
    return json.dumps(value, default=str)[:SHOWN]


def json_fault(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is no valid JSON: {error}"
    return f"holds a number of too many digits: {str(error).partition(';')[0]}"


class DoubledKey(ValueError):
    """An object has a key twice, so that one of the values would be lost."""


def unique_keys(pairs: list[tuple[str, object]]) -> dict:
    """For json.loads. Raises DoubledKey."""
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise DoubledKey(f"the key '{twice}' appears twice")
    return value


def parsed(text: str, name: str) -> object:
    """Parses JSON in a string. Raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except DoubledKey as fault:
        raise ValueError(f"{name} is JSON in which {fault}") from None
    except ValueError as error:
        raise ValueError(f"{name} {json_fault(error)}") from None
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None


def parsed_if(is_wanted: Callable[[object], bool], text: str, name: str) -> object:
    """Parses a string that may be JSON. Returns the string itself unless it is JSON of a wanted value. Raises
    ValueError for a wanted value with a doubled key."""
    faults = []

    def note(pairs: list[tuple[str, object]]) -> dict:
        try:
            return unique_keys(pairs)
        except DoubledKey as fault:
            faults.append(fault)
            return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return text
    if not is_wanted(found):
        return text
    if faults:
        raise ValueError(f"{name} is JSON in which {faults[0]}")
    return found


def as_list(value: object, name: str) -> list:
    """Converts to a list; tables often store lists as JSON. Raises ValueError."""
    if isinstance(value, str):
        value = parsed(value, f"'{name}'")
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{name}' is no list, or an empty one")
    return value


def check_text(text: str, name: str):
    """Raises ValueError where it cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} holds half of a surrogate pair, which is no text") from None


def without_nulls(value: object) -> object:
    """Removes nulls, because tables give every row the keys of all rows."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    return value


def check_depth(value: object, name: str, most: int = MOST_DEPTH):
    """Raises ValueError where lists and objects are nested deeper than `most`."""
    if isinstance(value, (dict, list)):
        if most == 0:
            raise ValueError(f"{name}: is nested more than {MOST_DEPTH} deep")
        for entry in value.values() if isinstance(value, dict) else value:
            check_depth(entry, name, most - 1)


def share(value: object, name: str) -> float:
    """Raises ValueError where it is no number from 0 to 1."""
    if not isinstance(value, (bool, int, float)):
        raise ValueError(f"{name} is {kind(value)}, wanted true, false or a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {kind(value)}, wanted a number from 0 to 1")
    return float(value)


def string(value: dict, key: str) -> str:
    """Raises ValueError where it is no string, or cannot be encoded."""
    text = value[key]
    if not isinstance(text, str):
        raise ValueError(f"'{key}' is {kind(text)}, wanted a string")
    check_text(text, f"'{key}'")
    return text


def optional_string(value: dict, key: str) -> str:
    """Returns "" where it is missing, null or empty. Raises ValueError for other values: 0 and false are no
    empty text."""
    found = value.get(key)
    return "" if found is None or found == "" or found == [] or found == {} else string(value, key)
