"""Chat templates of tokenizers, rendered as transformers' `apply_chat_template` does: the same
environment, variables and choice of template (tests hold both against each other), without
transformers, whose import takes seconds and half a gigabyte."""

import datetime
import json
import os
import re
from dataclasses import dataclass

import jinja2
import jinja2.ext
import jinja2.sandbox

from packtrain_tools.chat.conversations import REASONING
from packtrain_tools.errors import CONFIG, ToolError

# Characters that are in no text (Unicode's noncharacters) mark what {% generation %} encloses.
BEGIN, END = "\ufdd0", "\ufdd1"
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True, slots=True)
class Rendering:
    text: str
    generated: list[tuple[int, int]]  # begin and end of what {% generation %} encloses


class _Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller) -> str:
        return BEGIN + caller() + END


def _environment() -> jinja2.Environment:
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


class ChatTemplate:
    def __init__(self, sources: dict[str, str], variables: dict[str, object], place: str):
        """`sources`: templates by name, of which there is "default" or another alone. Raises
        ToolError naming `place`."""
        self._sources = sources
        self._variables = variables
        environment = _environment()
        try:
            self._templates = {name: environment.from_string(source)
                               for name, source in sources.items()}
        except jinja2.TemplateSyntaxError as error:
            raise ToolError(f"{place}: line {error.lineno} of the chat template: {error}",
                            exit_code=CONFIG) from None

    def _name(self, tools: list | None) -> str:
        if tools and "tool_use" in self._sources:
            return "tool_use"
        return "default" if "default" in self._sources else next(iter(self._sources))

    def marks_generation(self, tools: list | None) -> bool:
        return bool(_GENERATION.search(self._sources[self._name(tools)]))

    def render(self, messages: list[dict], tools: list | None,
               add_generation_prompt: bool = False) -> Rendering:
        """Raises ValueError where the template refuses the messages."""
        name = self._name(tools)
        reasoning = [key for key in REASONING if key in self._sources[name]]
        messages = [_with_reasoning(message, reasoning) for message in messages]
        try:
            marked = self._templates[name].render(
                **self._variables, messages=messages, tools=tools, documents=None,
                add_generation_prompt=add_generation_prompt)
        except Exception as error:  # templates call methods of what they are given
            raise ValueError(f"the chat template refuses it: {error}") from None
        return _unmark(marked)


def _with_reasoning(message: dict, keys: list[str]) -> dict:
    """Under the names that the template reads."""
    if "reasoning_content" not in message:
        return message
    return {**message, **{key: message["reasoning_content"] for key in keys}}


def _unmark(marked: str) -> Rendering:
    parts = re.split(f"([{BEGIN}{END}])", marked)
    text, generated, begin = "", [], None
    for part in parts:
        if part == BEGIN:
            if begin is not None:
                raise ValueError("the chat template nests {% generation %}")
            begin = len(text)
        elif part == END:
            generated.append((begin, len(text)))
            begin = None
        else:
            text += part
    return Rendering(text, generated)


def load_chat_template(folder: str, file: str | None, settings: dict,
                       options: dict[str, object]) -> ChatTemplate | None:
    """`file`, or the template of the tokenizer's folder, where it has one. `settings`:
    tokenizer_config.json; `options`: further variables."""
    variables = special_tokens(settings) | options
    path = file or os.path.join(folder, "chat_template.jinja")
    if file or os.path.isfile(path):
        sources = {"default": _read(path)}
        if not file:
            sources = _additional(folder) | sources
        return ChatTemplate(sources, variables, path)
    place = os.path.join(folder, "tokenizer_config.json")
    source = settings.get("chat_template")
    if isinstance(source, list):
        return ChatTemplate({entry["name"]: entry["template"] for entry in source}, variables,
                            place)
    return ChatTemplate({"default": source}, variables, place) if source else None


def special_tokens(settings: dict) -> dict[str, str]:
    """Such as bos_token: <s>."""
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
    with open(path, encoding="utf-8") as stream:
        return stream.read()
