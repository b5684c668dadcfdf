"""Finds pictures, sounds and films in a record. Only text is learned, so an answer about them would be about
nothing."""

import re

from packtrain_tools.chat.values import kind, parsed_if

_NAME = re.compile(r"(image|img|picture|photo|video|audio|speech)s?"
                   r"([_-]?(path|file|filename|url|uri|list|data|bytes|base64))?s?|pixel_values", re.I)


def is_media_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def check_columns_of_media(value: dict, read: tuple[str, ...]):
    """`read`: the columns of the format. Raises ValueError for another column that holds media."""
    for name, entry in value.items():
        if name not in read and is_media_name(name) and not _is_empty(entry):
            raise ValueError(f"'{name}' is {kind(entry)}, wanted nothing: only text is learned, and the answers may be "
                             f"about it (leave such records out, or the column with --column {name}=)")


def check_keys_of_media(message: dict):
    """Raises ValueError for a message with a key that holds media."""
    for name, entry in message.items():
        if is_media_name(name) and not _is_empty(entry):
            raise ValueError(f"'{name}' is {kind(entry)}, wanted nothing: only text is learned, and the answers may be "
                             "about it (leave such records out, or the key)")


def _is_empty(entry: object) -> bool:
    """True for values that hold nothing, also as JSON in a string, and for a flag."""
    if isinstance(entry, str):
        entry = parsed_if(_is_empty, entry.strip(), "the value") if entry.strip() else None
    if isinstance(entry, dict):
        return all(map(_is_empty, entry.values()))
    if isinstance(entry, list):
        return all(map(_is_empty, entry))
    return entry is None or isinstance(entry, bool) or entry in ("", 0) or entry != entry
