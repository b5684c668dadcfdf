"""Renders chat templates of tokenizers as transformers' `apply_chat_template` does: with the same
environment, variables and choice of template. Tests compare both. It does not import transformers, which
takes seconds and half a gigabyte."""

import datetime
import os
import re
from dataclasses import dataclass

import jinja2

from packtrain_tools.chat import tracked
from packtrain_tools.chat.conversations import REASONING
from packtrain_tools.chat.environment import GENERATED, make_environment
from packtrain_tools.chat.tracked import Span
from packtrain_tools.chat.values import kind
from packtrain_tools.errors import CONFIG, ToolError

DEFAULT_DATE = "2024-07-26"
_RESERVED = {"messages", "tools", "documents", "add_generation_prompt", "strftime_now",
             "raise_exception"}
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")


@dataclass(frozen=True, slots=True)
class Rendering:
    text: str
    spans: list[Span]  # positions of the record's parts; empty for messages that are not tracked
    generated: list[tuple[int, int]]  # begin and end of each text that {% generation %} encloses


class Refused(ValueError):
    """The template refuses the messages."""


class ChatTemplate:
    def __init__(self, sources: dict[str, str], variables: dict[str, object], place: str,
                 date: str = DEFAULT_DATE):
        """`sources`: templates by name; "default", or the only one, is used. `date`: today's date for
        templates, YYYY-MM-DD. Raises ToolError naming `place`."""
        self._sources = sources
        self._variables = variables
        self.uses_date = False  # whether a rendering asked for it
        self._named: dict[tuple[str, str], bool] = {}  # by template and key
        self._marked = {name for name, source in sources.items()
                        if _GENERATION.search(_COMMENT.sub("", source))}
        environment = make_environment(datetime.datetime.fromisoformat(date), self._note_date)
        self._templates: dict[str, jinja2.Template] = {}
        for name, source in sources.items():
            try:
                self._templates[name] = environment.from_string(source)
            except jinja2.TemplateSyntaxError as error:
                raise ToolError(f"{place}: line {error.lineno} of the chat template: {error}",
                                exit_code=CONFIG) from None

    def _note_date(self):
        self.uses_date = True

    def _name(self, tools: list | None) -> str:
        if tools and "tool_use" in self._sources:
            return "tool_use"
        return "default" if "default" in self._sources else next(iter(self._sources))

    def marks_generation(self, tools: list | None) -> bool:
        return self._name(tools) in self._marked

    def knows_generation_prompt(self, tools: list | None) -> bool:
        return "add_generation_prompt" in self._sources[self._name(tools)]

    def names(self, key: str, tools: list | None) -> bool:
        """True when the source of the template has this key as the name of a member: message.key, message['key']."""
        name = self._name(tools)
        if (name, key) not in self._named:
            source = _COMMENT.sub("", self._sources[name])
            found = re.search(rf"\.\s*{re.escape(key)}(?![\w-])|(['\"]){re.escape(key)}\1", source)
            self._named[name, key] = bool(found)
        return self._named[name, key]

    def render(self, messages: list[dict], tools: list | None,
               add_generation_prompt: bool = False) -> Rendering:
        """Raises Refused where the template refuses the messages."""
        name = self._name(tools)
        reasoning = [key for key in REASONING if key in self._sources[name]]
        messages = [_with_reasoning(message, reasoning) for message in messages]
        try:
            text = self._templates[name].render(
                **self._variables, messages=messages, tools=tools, documents=None,
                add_generation_prompt=add_generation_prompt)
        except Exception as error:  # a template may raise any error
            raise Refused(f"the chat template refuses it: {_printable(error)}") from None
        spans = tracked.spans_of(text)
        generated = [(begin, end) for begin, end, part, *_ in spans if part == GENERATED]
        parts = [span for span in spans if span[2] != GENERATED]
        return Rendering(tracked.plain(text), sorted(parts), sorted(generated))


def _printable(error: Exception) -> str:
    return str(error).encode(errors="backslashreplace").decode() or type(error).__name__


def _with_reasoning(message: dict, keys: list[str]) -> dict:
    """Stores the reasoning under the names that the template reads."""
    if "reasoning_content" not in message:
        return message
    return {**message, **dict.fromkeys(keys, message["reasoning_content"])}


def load_chat_template(folder: str, file: str | None, settings: dict, options: dict[str, object],
                       date: str = DEFAULT_DATE,
                       special_tokens: dict[str, str] | None = None) -> ChatTemplate | None:
    """Loads `file`, or else the template of the tokenizer's folder. `settings`: tokenizer_config.json.
    `options`: further variables. `special_tokens`: by name, such as bos_token, from all files of the
    folder; by default those of `settings`."""
    if special_tokens is None:
        special_tokens = named_tokens(settings)
    taken = sorted(_RESERVED & options.keys())
    if taken:
        raise ToolError(f"--template-option {taken[0]}: is what packtrain itself gives a template",
                        "The date is set with --date." if taken[0] == "strftime_now" else "", CONFIG)
    variables = special_tokens | options
    path = file or os.path.join(folder, "chat_template.jinja")
    if file or os.path.isfile(path):
        sources = {"default": _read(path)}
        if not file:
            sources = _additional(folder) | sources
        return ChatTemplate(sources, variables, path, date)
    place = os.path.join(folder, "tokenizer_config.json")
    sources = _told_sources(settings.get("chat_template"), place)
    return ChatTemplate(sources, variables, place, date) if sources else None


def _told_sources(told: object, place: str) -> dict[str, str]:
    """Templates by name. `told`: one text, or transformers' list of {"name", "template"}. Raises ToolError."""
    if not told:
        return {}
    if isinstance(told, str):
        return {"default": told}
    if not isinstance(told, list):
        raise _odd_template(place, f"is {kind(told)}")
    sources: dict[str, str] = {}
    for entry in told:
        named = entry if isinstance(entry, dict) else {}
        name, source = named.get("name"), named.get("template")
        if not isinstance(name, str) or not isinstance(source, str):
            raise _odd_template(place, f"holds {kind(entry)}")
        sources[name] = source
    return sources


def _odd_template(place: str, what: str) -> ToolError:
    return ToolError(f"{place}: 'chat_template' {what}, wanted text or a list of "
                     '{"name": TEXT, "template": TEXT}',
                     "Correct it, or give a template with --chat-template FILE.", CONFIG)


def named_tokens(settings: dict) -> dict[str, str]:
    """Special tokens by name, such as bos_token: <s>."""
    tokens = {}
    for key, token in settings.items():
        token = token.get("content") if isinstance(token, dict) else token
        if key.endswith("_token") and isinstance(token, str):
            tokens[key] = token
    return tokens


def _additional(folder: str) -> dict[str, str]:
    folder = os.path.join(folder, "additional_chat_templates")
    if not os.path.isdir(folder):
        return {}
    return {name.removesuffix(".jinja"): _read(os.path.join(folder, name))
            for name in sorted(os.listdir(folder)) if name.endswith(".jinja")}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as stream:  # a byte order mark is no text of the template
            return stream.read()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path}: is not UTF-8: {error.reason}", exit_code=CONFIG) from None
