"""The formats of records: the required and optional columns of each, and the file's columns for them."""

from dataclasses import dataclass, field

from packtrain_tools.chat.names import DEFAULT_NAMES, Names
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.sources import rollout_columns
from packtrain_tools.sources.documents import printable
from packtrain_tools.sources.rollout_columns import ROLLOUTS


@dataclass(frozen=True, slots=True)
class Columns:
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


WEIGHT = "weight"  # of the example, in every format
_CHAT = ("system", "tools", "functions", WEIGHT)
FORMATS = {
    "text": Columns(("text",), (WEIGHT,)),
    "prompt-completion": Columns(("prompt", "completion"), _CHAT),
    "instruction": Columns(("instruction", "output"), ("input", "history", *_CHAT)),
    "messages": Columns(("messages",), _CHAT),
    "sharegpt": Columns(("conversations",), _CHAT),
    "pairs": Columns(("chosen", "rejected"),
                     ("prompt", "messages", "conversations", "instruction", "input", "history", *_CHAT,
                      "margin", "score_chosen", "score_rejected")),
    "judged": Columns(("label",), ("prompt", "completion", "messages", "conversations", "instruction", "output",
                                   "input", "history", *_CHAT)),
    "rollouts": Columns((), (*ROLLOUTS, *_CHAT)),  # rollout_columns.py says which of them it needs
}
PREFERENCES = ("pairs", "judged", "rollouts")  # formats whose stores have groups
JUDGEMENTS = ("label", "kto_tag")  # of TRL, of LLaMA-Factory: true or false next to an answer
PROMPTS = ("prompt", "conversations", "messages", "instruction")  # of pairs; the first one counts
_SCORES = {"score_chosen", "score_rejected"}
_JUDGED = ({"prompt", "completion"}, {"instruction", "output"}, {"messages"}, {"conversations"})
_INSTRUCTED = {"instruction", "output"}  # of a judged answer without a prompt of its own
OURS = {name for columns in FORMATS.values() for name in columns.required + columns.optional}
# `label` has many meanings: it is no sign of another format.
REQUIRED = {name for columns in FORMATS.values() for name in columns.required} - {"label"}
_ON_REQUEST = ("judged", "rollouts")  # recognised by more than their required columns
_THREADS = {"parent_id", "message_tree_id", "conversation_id", "thread_id"}  # of one message
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of the command that apply to all records."""

    group_by: str = ""  # a column of the file, by its name in the file
    names: Names = DEFAULT_NAMES
    reshaping: Reshaping = Reshaping()
    advantage_from: str = ""  # of rollouts: how rewards become advantages (rollout_groups.py); "": where needed


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


def has_margins(form: FileFormat) -> bool:
    """True when pairs have a margin: a column of its own, or the difference of two scores."""
    return form.name == "pairs" and ("margin" in form.columns or _SCORES.issubset(form.columns))


def wanted_columns() -> str:
    return "; or ".join(" and ".join(f"'{name}'" for name in columns.required)
                        for name, columns in FORMATS.items() if name not in _ON_REQUEST)


def listed(names) -> str:
    return ", ".join(f"'{name}'" for name in list(names)[:_SHOWN]) or "none"


def format_of_columns(names: list[str], wanted: str | None, renamed: list[tuple[str, str]],
                      reading: Reading = Reading(), is_judged: bool = False) -> FileFormat:
    """Finds the one format that has all its columns. `renamed`: (ours, theirs). `is_judged`: a column of
    JUDGEMENTS is true or false. Raises ValueError."""
    _refuse_shared(names, renamed)
    wanted, renamed = _judged(names, wanted, renamed, is_judged)
    wanted, renamed = rollout_columns.completed(names, wanted, renamed)
    theirs = _columns_named(names, renamed)
    ours = [name for name in names if name not in theirs and name not in theirs.values()]
    ours += [name for name, their in theirs.items() if their]
    name = _fitting(names, ours, wanted)
    columns = FORMATS[name]
    used = columns.required + tuple(column for column in columns.optional if column in ours)
    if name == "rollouts":
        used = rollout_columns.needed(used, reading.advantage_from)
    used = _without_superseded(name, used)
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


def _judged(names: list[str], wanted: str | None, renamed: list[tuple[str, str]],
            is_judged: bool) -> tuple[str | None, list[tuple[str, str]]]:
    """Completes the format and the columns of answers that are judged. Raises ValueError where nothing is an answer."""
    left_out = {our for our, their in renamed if not their}
    ours = {*names, *(our for our, their in renamed if their in names)} - left_out
    if wanted is None and is_judged and not {"chosen", "rejected"} <= ours and ours & {*JUDGEMENTS}:
        if not any(columns <= ours for columns in _JUDGED):
            label = next(name for name in JUDGEMENTS if name in ours)
            raise ValueError(f"has the columns {listed(names)}, of which '{label}' is true or false, as of a judged "
                             "answer, and none is an answer; wanted 'prompt' and 'completion', 'instruction' and "
                             "'output', 'messages' or 'conversations'")
        wanted = "judged"
    if wanted == "judged" and "label" not in names and "kto_tag" in names and \
            all(ours != "label" for ours, _ in renamed):
        renamed = [*renamed, ("label", "kto_tag")]
    return wanted, renamed


def _without_superseded(name: str, used: tuple[str, ...]) -> tuple[str, ...]:
    """Data sets of pairs repeat the prompt in other columns, and have scores next to margins."""
    if name == "judged" and ("prompt" in used or not _INSTRUCTED.issubset(used)):
        return tuple(column for column in used if column not in _INSTRUCTED | {"input", "history"})
    if name != "pairs":
        return used
    superseded = {column for column in PROMPTS if column in used} - \
        {next((column for column in PROMPTS if column in used), "")}
    if "instruction" in superseded or "instruction" not in used:
        superseded |= {"input", "history"}
    if "margin" in used or not _SCORES.issubset(used):
        superseded |= _SCORES
    return tuple(column for column in used if column not in superseded)


def _refuse_shared(names: list[str], renamed: list[tuple[str, str]]):
    """A column of the file has one meaning."""
    ours: dict[str, str] = {}
    for our, their in renamed:
        if their and their in names and ours.setdefault(their, our) != our:
            raise ValueError(f"has '{their}', and --column calls it both '{ours[their]}' and '{our}'; wanted a column "
                             "of its own for each")


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
    if wanted is None:
        fitting = ["pairs"] if "pairs" in fitting else [name for name in fitting if name not in _ON_REQUEST]
    if not fitting:
        expected = wanted_columns() if wanted is None else \
            f"{listed(FORMATS[wanted].required)} for --format {wanted}"
        if "input_ids" in names:
            raise ValueError(f"has the columns {listed(names)}, and token ids are read with "
                             "`packtrain prepare --pretokenized FILE... --vocab-size N`; wanted "
                             f"{expected}")
        if wanted is None and len({"chosen", "rejected"} & set(ours)) == 1:
            expected = "both answers, 'chosen' and 'rejected', in one record: this is half a pair"
        raise ValueError(f"has the columns {listed(names)}; wanted {expected}")
    if wanted is None and fitting == ["text"] and "role" in names and _THREADS & set(names):
        raise ValueError(f"has the columns {listed(names)}, one message of a conversation a record; wanted "
                         "whole conversations")
    if len(fitting) > 1:
        raise ValueError(f"has the columns {listed(names)}, which fit the formats "
                         f"{' and '.join(fitting)}")
    return fitting[0]
