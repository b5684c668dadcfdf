"""The formats of records: the required and optional columns of each, and the file's columns for them."""

from dataclasses import dataclass, field

from packtrain_tools.chat.names import DEFAULT_NAMES, Names
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.sources.documents import printable


@dataclass(frozen=True, slots=True)
class Columns:
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


WEIGHT = "weight"  # of the example, in every format
_CHAT = ("system", "tools", "functions", WEIGHT)
FORMATS = {
    "text": Columns(("text",), (WEIGHT,)),
    "prompt-completion": Columns(("prompt", "completion"), _CHAT),
    "instruction": Columns(("instruction", "output"), ("input", "system", "history", WEIGHT)),
    "messages": Columns(("messages",), _CHAT),
    "sharegpt": Columns(("conversations",), _CHAT),
}
OURS = {name for columns in FORMATS.values() for name in columns.required + columns.optional}
REQUIRED = {name for columns in FORMATS.values() for name in columns.required}
_PAIRS = ("chosen", "rejected")
_THREADS = {"parent_id", "message_tree_id", "conversation_id", "thread_id"}  # of one message
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of the command that apply to all records."""

    group_by: str = ""  # a column of the file, by its name in the file
    names: Names = DEFAULT_NAMES
    reshaping: Reshaping = Reshaping()


@dataclass(frozen=True, slots=True)
class FileFormat:
    name: str
    columns: tuple[str, ...] = ()  # columns of the format that were found
    ignored: tuple[str, ...] = ()  # of the file
    theirs: dict[str, str] = field(default_factory=dict)  # our name: the file's name, "" to leave it out
    absent: tuple[str, ...] = ()  # columns of --column that the file does not have
    later: dict[str, str] = field(default_factory=dict)  # of these, columns that single records may have
    reading: Reading = Reading()

    def __str__(self) -> str:
        if not self.columns:
            return self.name
        ignored = f"; ignored: {', '.join(self.ignored)}" if self.ignored else ""
        columns = [f"{our}={self.theirs[our]}" if our in self.theirs else our
                   for our in self.columns]
        return printable(f"{self.name} ({', '.join(columns)}{ignored})")


def wanted_columns() -> str:
    return "; or ".join(" and ".join(f"'{name}'" for name in columns.required)
                        for columns in FORMATS.values())


def listed(names) -> str:
    return ", ".join(f"'{name}'" for name in list(names)[:_SHOWN]) or "none"


def format_of_columns(names: list[str], wanted: str | None, renamed: list[tuple[str, str]],
                      reading: Reading = Reading()) -> FileFormat:
    """Finds the one format that has all its columns. `renamed`: (ours, theirs). Raises ValueError."""
    theirs = _columns_named(names, renamed)
    ours = [name for name in names if name not in theirs and name not in theirs.values()]
    ours += [name for name, their in theirs.items() if their]
    name = _fitting(names, ours, wanted)
    columns = FORMATS[name]
    used = columns.required + tuple(column for column in columns.optional if column in ours)
    theirs = {our: their for our, their in theirs.items() if our in used or not their}
    taken = {theirs.get(column, column) for column in used} | {reading.group_by}
    twice = next((column for column in names if names.count(column) > 1 and column in taken), None)
    if twice is not None:
        raise ValueError(f"has the column '{twice}' twice")
    absent = {our: their for our, their in renamed if their and their not in names}
    later = {our: their for our, their in absent.items()
             if our in columns.optional and our not in ours}
    return FileFormat(name, used, tuple(column for column in names if column not in taken), theirs,
                      tuple(their for our, their in renamed if their and their not in names and
                            our not in later), later, reading)


def _columns_named(names: list[str], renamed: list[tuple[str, str]]) -> dict[str, str]:
    """Columns that the command renames: our name, and the file's name if the file has it."""
    theirs: dict[str, str] = {}
    for our, their in renamed:
        if their and their not in names:
            continue
        if theirs.get(our, their) != their:
            raise ValueError(f"has '{theirs[our]}' and '{their}', and --column calls both "
                             f"'{our}'")
        theirs[our] = their
    return theirs


def _fitting(names: list[str], ours: list[str], wanted: str | None) -> str:
    fitting = [name for name, columns in FORMATS.items()
               if wanted in (None, name) and set(columns.required) <= set(ours)]
    if wanted is None and set(_PAIRS) <= set(ours):
        raise ValueError("holds preference pairs ('chosen' and 'rejected'): not yet read")
    if not fitting:
        expected = wanted_columns() if wanted is None else \
            f"{listed(FORMATS[wanted].required)} for --format {wanted}"
        if "input_ids" in names:
            raise ValueError(f"has the columns {listed(names)}, and token ids are read with "
                             "`packtrain prepare --pretokenized FILE... --vocab-size N`; wanted "
                             f"{expected}")
        raise ValueError(f"has the columns {listed(names)}; wanted {expected}")
    if wanted is None and fitting == ["text"] and "role" in names and _THREADS & set(names):
        raise ValueError(f"has the columns {listed(names)}, one message of a conversation a record; wanted "
                         "whole conversations")
    if len(fitting) > 1:
        raise ValueError(f"has the columns {listed(names)}, which fit the formats "
                         f"{' and '.join(fitting)}")
    return fitting[0]
