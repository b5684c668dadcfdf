"""What a record says: plain text, prompt and completion, an instruction, a conversation. A file has
one format, which its columns tell; FORMATS lists the columns each must and may have."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from packtrain_tools.chat.conversations import (Conversation, read_messages, read_prompt_completion,
                                           read_sharegpt, without_nulls)
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.readers import MAX_LINE_BYTES, Reader, Record, pyarrow_module, read_batches
from packtrain_tools.sources.files import ARROW, PARQUET, SourceFile

RECORDS_ASKED = 100  # for the first one that is a JSON object
DOCUMENT = "document"  # of plain text files, which have no columns


@dataclass(frozen=True, slots=True)
class Columns:
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


FORMATS = {
    "text": Columns(("text",)),
    "prompt-completion": Columns(("prompt", "completion"), ("tools",)),
    "instruction": Columns(("instruction", "output"), ("input", "system")),
    "messages": Columns(("messages",), ("tools",)),
    "sharegpt": Columns(("conversations",), ("system", "tools")),
}

_REQUIRED = {name for columns in FORMATS.values() for name in columns.required}


class BadRecord(Exception):
    """What is wrong with a record, and in which line (or row)."""

    def __init__(self, fault: str, line: int):
        super().__init__(fault, line)
        self.fault = fault
        self.line = line


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded document: `prompt` is read but not learned, `None` where there is none."""

    prompt: str | None
    text: str
    group: str = ""  # the value of --group-by's column, as JSON
    weight: float = 1.0  # of the example, from 0 to 1


@dataclass(frozen=True, slots=True)
class Instruction:
    system: str
    prompt: str
    input: str
    output: str
    group: str = ""
    weight: float = 1.0

    def as_text(self) -> Text:
        """Laid out under headings, as data for models without a chat template often is."""
        parts = [self.system] if self.system else []
        parts.append(f"### Instruction:\n{self.prompt}")
        if self.input:
            parts.append(f"### Input:\n{self.input}")
        return Text("\n\n".join(parts) + "\n\n### Response:\n", self.output, self.group,
                    self.weight)

    def as_conversation(self) -> Conversation:
        messages = [{"role": "system", "content": self.system}] if self.system else []
        asked = self.prompt + (f"\n\n{self.input}" if self.input else "")
        messages += [{"role": "user", "content": asked},
                     {"role": "assistant", "content": self.output}]
        return Conversation(messages, None, [None] * len(messages), self.group, self.weight)


Document = Text | Instruction | Conversation


@dataclass(frozen=True, slots=True)
class FileFormat:
    name: str
    columns: tuple[str, ...] = ()  # those of the format that were found
    ignored: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)  # a file's column: ours

    def __str__(self) -> str:
        ignored = f"; ignored: {', '.join(self.ignored)}" if self.ignored else ""
        return f"{self.name} ({', '.join(self.columns)}{ignored})" if self.columns else self.name


def wanted_columns() -> str:
    return "; or ".join(" and ".join(f"'{name}'" for name in columns.required)
                        for columns in FORMATS.values())


def _listed(names) -> str:
    return ", ".join(f"'{name}'" for name in list(names)[:20]) or "none"


def format_of_columns(names: list[str], wanted: str | None, renamed: dict[str, str]) -> FileFormat:
    """The one format that has all its columns. Raises ValueError."""
    ours = [renamed.get(name, name) for name in names]
    fitting = [name for name, columns in FORMATS.items()
               if wanted in (None, name) and set(columns.required) <= set(ours)]
    if not fitting:
        expected = wanted_columns() if wanted is None else _listed(FORMATS[wanted].required)
        raise ValueError(f"has the columns {_listed(names)}; wanted {expected}")
    if len(fitting) > 1:
        raise ValueError(f"has the columns {_listed(names)}, which fit the formats "
                         f"{' and '.join(fitting)}")
    columns = FORMATS[fitting[0]]
    used = columns.required + tuple(name for name in columns.optional if name in ours)
    ignored = tuple(name for name, our in zip(names, ours) if our not in used)
    return FileFormat(fitting[0], used, ignored, renamed)


def find_format(file: SourceFile, wanted: str | None, renamed: dict[str, str]) -> FileFormat:
    """By the table's schema, or the file's first JSON object."""
    if file.is_text:
        return FileFormat(DOCUMENT)
    line, names = _first_columns(file)
    if names is None:
        return FileFormat(wanted or "text", renamed=renamed)  # every line of it is bad
    try:
        return format_of_columns(names, wanted, renamed)
    except ValueError as fault:
        place = file.path if file.is_table else file.place(line)
        raise ToolError(f"{place}: {fault}",
                        "Say which with --format, or what yours are called with --column "
                        "OURS=YOURS, such as --column prompt=question.") from None


def _first_columns(file: SourceFile) -> tuple[int, list[str] | None]:
    if file.is_table:
        return 0, _table_columns(file)
    for _, record in zip(range(RECORDS_ASKED), Reader([file], None).records(file)):
        try:
            value = json.loads(record.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return record.line, list(value)
    return 0, None


def _table_columns(file: SourceFile) -> list[str]:
    if file.kind == PARQUET:
        arrow = pyarrow_module(file.path, "lib")
        try:
            return pyarrow_module(file.path, "parquet").read_schema(file.path).names
        except arrow.ArrowException as error:
            raise ToolError(f"{file.path}: cannot be read: {error}") from None
    if file.kind == ARROW:
        for _, batch in read_batches(file):
            return batch.schema.names
        return []
    from packtrain_tools.sources.hub import open_hub
    return open_hub(file.path).column_names


def decode(record: Record, form: FileFormat | None = None) -> Document:
    """Raises BadRecord where a record is not what it should be. Without a format: by its own."""
    if isinstance(record.data, dict):
        return _convert(record, without_nulls(record.data), form)
    if not record.file.is_text and record.num_bytes > MAX_LINE_BYTES + 1:  # with its line feed
        raise BadRecord(f"the line has {record.num_bytes} bytes, wanted at most {MAX_LINE_BYTES}",
                        record.line)
    try:
        text = record.data.decode()
    except UnicodeDecodeError as error:
        line = record.line + record.data.count(b"\n", 0, error.start)
        raise BadRecord(f"is not UTF-8: byte 0x{record.data[error.start]:02x}", line) from None
    if record.line == 1:
        text = text.removeprefix("\ufeff")  # a byte order mark is no part of the text
    if record.file.is_text:
        return Text(None, text.replace("\r\n", "\n"))
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except _DoubledKey as fault:
        raise BadRecord(str(fault), record.line) from None
    except ValueError as error:
        raise BadRecord(f"is no valid JSON: {error}", record.line) from None
    except RecursionError:
        raise BadRecord("is nested too deeply", record.line) from None
    if not isinstance(value, dict):
        raise BadRecord(f"is {_kind(value)}, wanted a JSON object", record.line)
    return _convert(record, value, form)


def read_texts(files: list[SourceFile], separator: str | None) -> Iterator[Text]:
    """Every document, each in a format of its own; the first bad one is an error."""
    for chunk in Reader(files, separator).chunks():
        for record in chunk.records():
            try:
                document = decode(record)
            except BadRecord as bad:
                raise ToolError(f"{record.file.place(bad.line)}: {bad.fault}") from None
            if isinstance(document, Conversation):
                document = Text(None, "\n".join(str(message.get("content") or "")
                                                for message in document.messages))
            yield document.as_text() if isinstance(document, Instruction) else document


def _convert(record: Record, value: dict, form: FileFormat | None) -> Document:
    try:
        if form is None:
            form = format_of_columns(list(value), None, {})
        if form.renamed:
            value = {form.renamed.get(name, name): entry for name, entry in value.items()}
        known = form.columns + form.ignored
        if any(name in _REQUIRED and name not in known for name in value):
            raise ValueError(f"has the columns {_listed(value)}, others than the file's first: "
                             f"{_listed(known)}")
        missing = [name for name in FORMATS[form.name].required if name not in value]
        if missing:
            raise ValueError(f"has the columns {_listed(value)}; wanted {_listed(missing)} "
                             f"for the format {form.name}")
        return CONVERSIONS[form.name](value)
    except ValueError as fault:
        raise BadRecord(str(fault), record.line) from None


def _prompt_completion(value: dict) -> Document:
    if isinstance(value["prompt"], list) and isinstance(value["completion"], list):
        return read_prompt_completion(value["prompt"], value["completion"], value.get("tools"))
    return Text(string(value, "prompt"), string(value, "completion"))


def _instruction(value: dict) -> Instruction:
    def optional(name: str) -> str:
        return string(value, name) if value.get(name) else ""

    return Instruction(optional("system"), string(value, "instruction"), optional("input"),
                       string(value, "output"))


CONVERSIONS = {
    "text": lambda value: Text(None, string(value, "text")),
    "prompt-completion": _prompt_completion,
    "instruction": _instruction,
    "messages": lambda value: read_messages(value["messages"], value.get("tools")),
    "sharegpt": lambda value: read_sharegpt(value["conversations"], value.get("system"),
                                            value.get("tools")),
}


class _DoubledKey(ValueError):
    pass


def _unique_keys(pairs: list[tuple[str, object]]) -> dict:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise _DoubledKey(f"the key '{twice}' appears twice")
    return value


def string(value: dict, key: str) -> str:
    """Raises ValueError where it is none, or cannot be encoded."""
    text = value[key]
    if not isinstance(text, str):
        raise ValueError(f"'{key}' is {_kind(text)}, wanted a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"'{key}' holds half of a surrogate pair, which is no text") from None
    return text


def _kind(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value, default=str)[:80]
