"""Converts records to documents. A file has one format, which its columns determine (columns.py). A record
becomes a document (documents.py) or is a bad one."""

import json
import re
from collections.abc import Iterator

from packtrain_tools.chat.calls import read_tools
from packtrain_tools.chat.content import text_of
from packtrain_tools.chat.conversations import (Conversation, read_conversation,
                                                read_prompt_completion, with_messages)
from packtrain_tools.chat.media import check_columns_of_media
from packtrain_tools.chat.shapes import history_turns
from packtrain_tools.chat.values import (DoubledKey, Unreadable, json_fault, kind, optional_string,
                                         share, string, unique_keys, without_nulls)
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.columns import (FORMATS, JUDGEMENTS, REQUIRED, WEIGHT, FileFormat,
                                             Reading, format_of_columns, has_margins, listed)
from packtrain_tools.sources.delimited import delimiter_advice
from packtrain_tools.sources.documents import (BadRecord, Document, Instruction, Preference, Rollouts,
                                               Text)
from packtrain_tools.sources.judgements import check_judged, is_judged
from packtrain_tools.sources.preferences import read_judged, read_pair
from packtrain_tools.sources.rollout_columns import ROLLOUTS
from packtrain_tools.sources.rollouts import read_rollouts
from packtrain_tools.sources.readers import MAX_LINE_BYTES, Reader, Record, columns_of
from packtrain_tools.sources.source_file import SourceFile
from packtrain_tools.sources.suggestions import advice_for
from packtrain_tools.sources.tables import first_row

__all__ = ["DOCUMENT", "FORMATS", "BadRecord", "Document", "FileFormat", "Instruction", "Reading",
           "Text", "decode", "find_format", "format_of_columns", "read_texts"]
RECORDS_ASKED = 100  # searched for the first JSON object, and for columns of later ones
BYTES_ASKED = 1 << 20
_INTEGER = re.compile(r"-?[0-9]{1,18}(\.0+)?")
DOCUMENT = "document"  # of plain text files, which have no columns


def find_format(file: SourceFile, wanted: str | None, renamed: list[tuple[str, str]],
                reading: Reading = Reading()) -> FileFormat:
    """Finds the format by the table's schema, the header, or the file's first JSON object. `renamed`:
    (ours, theirs). Raises ToolError."""
    if file.is_text:
        if reading.group_by:
            raise ToolError(f"{file.path}: is plain text, which has no column "
                            f"'{reading.group_by}' for --group-by")
        return FileFormat(DOCUMENT)
    line, names, first = _first_columns(file, renamed)
    if names is None:
        return FileFormat(wanted or "text", reading=reading)  # every line of the file is bad
    try:
        if reading.group_by and file.has_schema and reading.group_by not in names:
            raise ValueError(f"has the columns {listed(names)}; wanted '{reading.group_by}', "
                             "which --group-by names")
        if file.has_schema and set(names) & set(JUDGEMENTS):
            first = first_row(file) if file.is_table else _first_cells(file)
        return format_of_columns(names, wanted, renamed, reading, is_judged(first))
    except ValueError as fault:
        place = file.path if file.is_table else file.place(line)
        first = first_row(file) if file.is_table else first
        advice = delimiter_advice(file, names) or advice_for(names, wanted, first)
        raise ToolError(f"{place}: {BadRecord(str(fault), line).fault}", advice) from None


def _first_cells(file: SourceFile) -> dict | None:
    """The first valid row of a delimited file."""
    rows = (record.data for record in Reader([file], None).records(file, is_look=True))
    return next((row for row in rows if isinstance(row, dict)), None)


def _first_columns(file: SourceFile, renamed: list[tuple[str, str]]) \
        -> tuple[int, list[str] | None, dict | None]:
    """For a JSON file: the line, the columns and the value of the first object, which determine the
    format. Columns of the next objects are added."""
    if file.has_schema:
        return 1, columns_of(file), None
    needed = REQUIRED | {theirs for ours, theirs in renamed if ours in REQUIRED}
    line, names, first, num_bytes = 0, None, None, 0
    for _, record in zip(range(RECORDS_ASKED), Reader([file], None).records(file, is_look=True)):
        num_bytes += record.num_bytes
        try:
            value = json.loads(record.content)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict):
            continue
        if names is None:
            line, names, first = record.line, list(value), value
        names += [name for name in value if name not in names and name not in needed]
        if num_bytes > BYTES_ASKED:
            break
    return line, names, first


def decode(record: Record, form: FileFormat | None = None) -> Document:
    """Raises BadRecord for an invalid record. Without a format the record's own format is used."""
    data = record.data
    if isinstance(data, dict):
        return _convert(record, {name: without_nulls(value) for name, value in data.items()}, form)
    if isinstance(data, Unreadable):
        raise BadRecord(data.fault, record.line)
    if not record.file.is_text and record.num_bytes > MAX_LINE_BYTES + 1:  # with its line feed
        raise BadRecord(f"the line has {record.num_bytes} bytes, wanted at most {MAX_LINE_BYTES}",
                        record.line)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = record.line + data.count(b"\n", 0, error.start)
        raise BadRecord(f"is not UTF-8: byte 0x{data[error.start]:02x}", line) from None
    if record.line == 1:
        text = text.removeprefix("\ufeff")  # a byte order mark does not belong to the text
    if record.file.is_text:
        return Text(None, text.replace("\r\n", "\n"))
    return _convert(record, _json_object(text, record.line), form)


def _json_object(text: str, line: int) -> dict:
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except DoubledKey as fault:
        raise BadRecord(str(fault), line) from None
    except ValueError as error:
        raise BadRecord(json_fault(error), line) from None
    except RecursionError:
        raise BadRecord("is nested too deeply", line) from None
    if not isinstance(value, dict):
        raise BadRecord(f"is {kind(value)}, wanted a JSON object", line)
    return value


def read_texts(files: list[SourceFile], separator: str | None) -> Iterator[Text]:
    """Every document, each in a format of its own. The first bad one raises an error."""
    for chunk in Reader(files, separator).chunks():
        for record in chunk.records():
            try:
                document = decode(record)
            except BadRecord as bad:
                raise ToolError(f"{record.file.place(bad.line)}: {bad.fault}") from None
            if isinstance(document, Conversation):
                document = Text(None, "\n".join(text_of(message.get("content"))
                                                for message in document.messages))
            if isinstance(document, (Preference, Rollouts)):
                raise ToolError(f"{record.file.place(record.line)}: holds answers to compare, wanted texts")
            yield document.as_text() if isinstance(document, Instruction) else document


def _convert(record: Record, value: dict, form: FileFormat | None) -> Document:
    is_of_file = form is not None
    try:
        if form is None:
            form = format_of_columns(list(value), None, [], is_judged=is_judged(value))
        group = _group(value, form.reading.group_by) if form.reading.group_by else ""
        if form.theirs or form.absent or form.later:
            value = _renamed(value, form)
        known = form.columns + form.ignored
        if any(name in REQUIRED and name not in known for name in value):
            raise ValueError(f"has the columns {listed(value)}, others than the file's first: "
                             f"{listed(known)}")
        required = FORMATS[form.name].required
        if form.name == "rollouts":  # all records have the columns of the first, and only those are read
            required = tuple(name for name in form.columns if name in ROLLOUTS)
            value = {name: entry for name, entry in value.items() if name in required or name not in ROLLOUTS}
        missing = [name for name in required if name not in value]
        if missing:
            names = [form.theirs.get(name, name) for name in missing]
            raise ValueError(f"has the columns {listed(value)}; wanted {listed(names)} "
                             f"for the format {form.name}")
        if is_of_file:
            check_columns_of_media(value, form.columns)
        weight = _weight(record, value[WEIGHT]) if WEIGHT in value else 1.0
        document = CONVERSIONS[form.name](value, form.reading, group, weight)
        if isinstance(document, Preference):
            _check_margin(document, form)
        return document
    except ValueError as fault:
        raise BadRecord(_in_their_words(str(fault), form), record.line) from None
    except RecursionError:
        raise BadRecord("is nested too deeply", record.line) from None


def _check_margin(document: Preference, form: FileFormat):
    if has_margins(form) != (document.margin is not None):
        raise ValueError(f"has {'no' if has_margins(form) else 'a'} margin, unlike the file's first pairs "
                         "('margin', or 'score_chosen' and 'score_rejected'; --column margin= leaves it out)")


def _in_their_words(fault: str, form: FileFormat | None) -> str:
    """Replaces our name of the column at the begin of a fault by the file's name."""
    for ours, theirs in (form.theirs if form else {}).items():
        if theirs and fault.startswith(f"'{ours}' "):
            return f"'{theirs}' (--column {ours}={theirs}){fault[len(ours) + 2:]}"
    return fault


def _renamed(value: dict, form: FileFormat) -> dict:
    """Renames columns to our names. A column of --column takes precedence over one that has our name."""
    found = next((name for name in form.absent if name in value), None)
    if found is not None:
        raise ValueError(f"has the column '{found}', which --column names and the file's first "
                         "record does not have")
    theirs = form.theirs | {ours: name for ours, name in form.later.items() if name in value}
    taken = {*theirs, *theirs.values()}
    kept = {name: entry for name, entry in value.items() if name not in taken}
    return kept | {our: value[their] for our, their in theirs.items() if their in value}


def _group(value: dict, column: str) -> str:
    found = value.get(column)
    if found is None or found == "" or found != found:  # a float may be no number
        what = "is missing" if column not in value else "is empty" if found == "" else \
            "is null" if found is None else "is no number"
        raise ValueError(f"'{column}' {what}, wanted a value, since --group-by names it")
    if isinstance(found, str) and _INTEGER.fullmatch(found):
        found = int(found.partition(".")[0])  # CSV holds numbers as text
    elif isinstance(found, float) and found.is_integer():
        found = int(found)  # tables store integers as floats where some are missing
    return json.dumps(found, sort_keys=True, separators=(",", ":"), default=str)


def _weight(record: Record, value: object) -> float:
    if value is None:
        return 1.0
    if isinstance(value, str) and record.file.is_delimited:
        if not value.strip():
            return 1.0
        try:
            value = float(value)
        except ValueError:
            pass  # reported below
    try:
        return share(value, f"'{WEIGHT}'")
    except ValueError as fault:
        raise ValueError(f"{fault} (--column {WEIGHT}= leaves the column out)") from None


def _text(value: dict, reading: Reading, group: str, weight: float) -> Text:
    return Text(None, string(value, "text"), group, weight)


def _prompt_completion(value: dict, reading: Reading, group: str, weight: float) -> Document:
    value = with_messages(value, reading.names)
    prompt, completion = value["prompt"], value["completion"]
    check_judged(value)
    if isinstance(prompt, (list, dict)) or isinstance(completion, (list, dict)):
        return _final(read_prompt_completion(value, reading.names), reading, group, weight)
    if read_tools(value.get("tools"), value.get("functions")):
        raise ValueError("has tools, which only messages can call, and 'prompt' and 'completion' "
                         "are text and no calls (--column tools= leaves the column out)")
    prompt = string(value, "prompt")
    system = optional_string(value, "system") or reading.reshaping.system
    if system:
        prompt = f"{system}\n\n{prompt}"
    return Text(prompt, string(value, "completion"), group, weight)


def _instruction(value: dict, reading: Reading, group: str, weight: float) -> Instruction:
    check_judged(value)
    history = tuple(history_turns(value.get("history")))
    return Instruction(optional_string(value, "system"), string(value, "instruction"),
                       optional_string(value, "input"), string(value, "output"), group, weight, history,
                       reading.reshaping, read_tools(value.get("tools"), value.get("functions")))


def _messages(value: dict, reading: Reading, group: str, weight: float) -> Conversation:
    check_judged(value)
    return _final(read_conversation("messages", value, reading.names), reading, group, weight)


def _sharegpt(value: dict, reading: Reading, group: str, weight: float) -> Conversation:
    check_judged(value)
    return _final(read_conversation("conversations", value, reading.names), reading, group, weight)


def _final(read: Conversation, reading: Reading, group: str, weight: float) -> Conversation:
    return reading.reshaping.of(Conversation(read.messages, read.tools, read.asked, group, weight))


CONVERSIONS = {"text": _text, "prompt-completion": _prompt_completion, "instruction": _instruction,
               "messages": _messages, "sharegpt": _sharegpt, "pairs": read_pair, "judged": read_judged,
               "rollouts": read_rollouts}
