"""Suggests options for a file whose columns fit no format, from common names of data sets."""

import re
import shlex
from collections.abc import Iterator

from packtrain_tools.sources.columns import FORMATS, format_of_columns
from packtrain_tools.sources.judgements import judgement

GENERAL = ("Say which with --format, or what yours are called with --column OURS=YOURS, such as "
           "--column prompt=question.")
_ASKED = ("question", "query", "problem", "inputs", "prompt", "instruction", "instructions", "input",
          "user", "human")
_ANSWERED = ("response", "answer", "output", "outputs", "targets", "target", "completion",
             "answers", "generated_solution", "solution", "assistant", "reply")
_TURNS = ("conversation", "conversations", "messages", "thread", "dialogue", "dialog", "chat", "turns",
          "items", "data", "chat_messages", "contents")
_RECORDS = ("data", "rows", "records", "examples", "items", "samples", "instances", "train", "dataset")
# By our name: common other names, the likeliest first.
_NAMES = {"messages": _TURNS, "conversations": _TURNS, "prompt": _ASKED, "completion": _ANSWERED,
          "instruction": _ASKED, "output": _ANSWERED, "input": ("context",),
          "system": ("system_prompt", "system_message", "sys_prompt"),
          "text": ("content", "document", "body", "code", "article", "passage"),
          "chosen": ("chosen_response", "response_chosen", "chosen_answer", "preferred", "accepted", "winner",
                     "response_j"),
          "rejected": ("rejected_response", "response_rejected", "rejected_answer", "reject", "dispreferred",
                       "loser", "response_k")}
_ORDER = ("pairs", "messages", "sharegpt", "instruction", "prompt-completion", "text")
_MESSAGE_KEYS = {"role", "from", "speaker", "author"}
_MOST = 2


def advice_for(names: list[str], wanted: str | None, first: dict | None) -> str:
    """`first`: a record, where the file holds JSON. The suggested options make the file readable."""
    label = judgement(first or {}) if wanted is None else None
    if label is not None and not {"chosen", "rejected"} & set(names):
        found = sorted((text for text in _suggestions(names, None, first) if "text=" not in text),
                       key=lambda text: "prompt=" not in text)
        return (f"Try {found[0]} where answers are judged. " if found else "") + \
            f"--column {label}= leaves the column out. To learn it as an answer, write it as text."
    fitting = [name for name in FORMATS if _is_read(names, name, [])]
    if wanted is None and len(fitting) > 1:
        return f"Say which with {' or '.join(f'--format {name}' for name in fitting)}."
    if wanted is None and "text" in names and "role" in names and not _is_read(names, None, []):
        return "Join the messages of each conversation in one record, or take texts with --format text"
    inside = _list_of_records(first)
    if inside is not None:
        return f"Its records lie in '{inside}': `jq -c '.[\"{inside}\"][]' FILE > NEW.jsonl` takes them out."
    found = sorted(dict.fromkeys(_suggestions(names, wanted, first)), key=lambda text: text.count("--"))
    if not found and wanted is not None:
        other = advice_for(names, None, first)
        return "Leave --format out" if _is_read(names, None, []) else \
            other if other == GENERAL else f"Without --format: {other}"
    return f"Try {', or '.join(found[:_MOST])}" if found else GENERAL


def _suggestions(names: list[str], wanted: str | None, first: dict | None) -> Iterator[str]:
    for form in _ORDER:
        if wanted not in (None, form) or (wanted is None and form == "sharegpt"):
            continue
        renamed = _renamed(names, form, first)
        if renamed and _is_read(names, wanted, renamed):
            yield " ".join(f"--column {shlex.quote(f'{ours}={theirs}')}" for ours, theirs in renamed)


def _renamed(names: list[str], form: str, first: dict | None) -> list[tuple[str, str]]:
    """(ours, theirs) pairs; empty where a column is missing."""
    columns = FORMATS[form]
    renamed: list[tuple[str, str]] = []
    taken = {name for name in columns.required if name in names}
    for ours in columns.required + columns.optional:
        if ours in names:
            continue
        theirs = next((name for name in _called(names, ours)
                       if name not in taken and _may_be(ours, name, first)), None)
        if theirs is None and ours in columns.required:
            return []
        if theirs is not None:
            taken.add(theirs)
            renamed.append((ours, theirs))
    unused = {"prompt-completion": ("input",), "instruction": ("tools", "functions")}.get(form, ())
    has_more = any(name not in taken for column in unused for name in _called(names, column))
    return [] if has_more else renamed


def _called(names: list[str], ours: str) -> Iterator[str]:
    """Columns that may be this one; another spelling of our name comes first."""
    for wanted in (ours, *_NAMES.get(ours, ())):
        yield from (name for name in names if _plain(name) == wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip()).lower()


def _may_be(ours: str, theirs: str, first: dict | None) -> bool:
    """True when the record's value has a type that the column can have."""
    value = (first or {}).get(theirs)
    if value is None:
        return True
    if ours in ("messages", "conversations"):
        return isinstance(value, (list, dict)) or (isinstance(value, str) and value[:1] in ("[", "{"))
    if ours in ("prompt", "completion") and isinstance(value, list):
        return bool(value) and isinstance(value[0], dict)
    return isinstance(value, str)


def _is_read(names: list[str], form: str | None, renamed: list[tuple[str, str]]) -> bool:
    try:
        format_of_columns(names, form, renamed)
    except ValueError:
        return False
    return True


def _list_of_records(first: dict | None) -> str | None:
    """The key of a list of objects that fit a format themselves."""
    for name, value in ((name, (first or {}).get(name)) for name in _RECORDS):
        record = value[0] if isinstance(value, list) and value else None
        if isinstance(record, dict) and not _MESSAGE_KEYS & set(record) and \
                _is_read(list(record), None, []):
            return name
    return None
