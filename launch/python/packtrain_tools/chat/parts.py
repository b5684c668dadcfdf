"""The parts of a conversation, and which of them are in the text that a template rendered.

`track` numbers every part of every message and tool, and makes its text tracked. `lost_parts` finds parts, or
pieces of them, that are missing in the rendered text. So a part may be short, or occur elsewhere as well."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from packtrain_tools.chat.template import Rendering
from packtrain_tools.chat.tracked import Span, number_of_part, of_part
from packtrain_tools.chat.tracked_json import ContentPart, PrintedDict, PrintedList

TOOLS = -1  # in place of a message's number
SHOWN = 60  # characters of what is lost
# Pieces that templates remove from a content and print themselves: tags and punctuation.
_REPRINTED = re.compile(r"(?:</?[\w|]+>|\[/?\w+\]|[^\w<>]|[<>])*")
_THOUGHT = re.compile(r"\s*<think>.*</think>\s*", re.DOTALL)
_SPACE = re.compile(r"\s+")
# Strings of a tool's schema that describe the tool. Templates print types and the like in other notations.
_SAID_OF_TOOLS = ("name", "description", "enum")


@dataclass(frozen=True, slots=True)
class Part:
    message: int  # from 0, or TOOLS
    what: str  # for messages: "content", "argument 'city' of the call to get_weather"
    text: str
    is_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class TrackedConversation:
    messages: list[dict]
    tools: list | None
    parts: list[Part]


def track(messages: list[dict], tools: list | None) -> TrackedConversation:
    parts: list[Part] = []
    tracker = _Tracker(parts)
    tracked = [tracker.message(number, message) for number, message in enumerate(messages)]
    return TrackedConversation(tracked, tracker.tools(tools), parts)


class _Tracker:
    def __init__(self, parts: list[Part]):
        self._parts = parts

    def _text(self, message: int, what: str, text: str, is_reasoning: bool = False) -> str:
        self._parts.append(Part(message, what, text, is_reasoning))
        return of_part(text, len(self._parts) - 1)

    def message(self, number: int, message: dict) -> dict:
        tracked = dict(message)
        content = message.get("content")
        if isinstance(content, str):
            tracked["content"] = self._text(number, "content", content)
        elif isinstance(content, list):
            tracked["content"] = [self._content_part(number, part) for part in content]
        if isinstance(message.get("reasoning_content"), str):
            tracked["reasoning_content"] = self._text(number, "reasoning",
                                                      message["reasoning_content"], True)
        if message.get("tool_calls"):
            tracked["tool_calls"] = PrintedList(self._call(number, call)
                                                for call in message["tool_calls"])
        return tracked

    def _content_part(self, number: int, part: dict) -> dict:
        if "thinking" in part:
            return ContentPart(part, thinking=self._text(number, "reasoning", part["thinking"], True))
        return ContentPart(part, text=self._text(number, "content", part["text"]))

    def _call(self, number: int, call: dict) -> dict:
        is_nested = isinstance(call.get("function"), dict)
        function = PrintedDict(call["function"] if is_nested else call)
        name = function.get("name")
        if isinstance(name, str):
            function["name"] = self._text(number, "name of a call", name)
        if "arguments" in function:
            function["arguments"] = self._arguments(number, f"the call to {name}",
                                                    function["arguments"])
        return PrintedDict(call, function=function) if is_nested else function

    def _arguments(self, number: int, of: str, value):
        """Arguments that are only printed as Python do not count as printed, because their JSON is another
        form."""
        value = self._value(number, of, value)
        return dict(value) if isinstance(value, dict) else value

    def _value(self, number: int, of: str, value, name: str = "arguments"):
        """Tracks every key, string and number of a value. Keys represent true, false and null."""
        what = f"'{name}' of {of}"
        if isinstance(value, dict):
            return PrintedDict((self._text(number, f"'{key}' of {of}", key),
                                self._value(number, of, entry, key)) for key, entry in value.items())
        if isinstance(value, list):
            return PrintedList(self._value(number, of, entry, name) for entry in value)
        if isinstance(value, str):
            return self._text(number, what, value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self._parts.append(Part(number, what, repr(value)))
            return number_of_part(value, len(self._parts) - 1)
        return value

    def tools(self, tools: list | None) -> list | None:
        return tools and PrintedList(self._schema(tool, f"tool {number}", "")
                                     for number, tool in enumerate(tools, start=1))

    def _schema(self, value, of: str, key: str):
        if isinstance(value, dict):
            return PrintedDict(
                (self._text(TOOLS, f"parameter of {of}", name) if key == "properties" else name,
                 self._schema(entry, of, "" if key == "properties" else name))
                for name, entry in value.items())
        if isinstance(value, list):
            return PrintedList(self._schema(entry, of, key) for entry in value)
        if isinstance(value, str) and key in _SAID_OF_TOOLS:
            return self._text(TOOLS, f"{key} of {of}", value)
        return value


@dataclass(frozen=True, slots=True)
class LostPart:
    part: Part
    text: str  # the missing text
    is_thought: bool


def lost_parts(parts: list[Part], rendering: Rendering) -> Iterator[LostPart]:
    """Yields parts, and pieces of parts, that are missing in the rendered text. White space may be
    missing, and tags that the template prints itself in the same place."""
    by_part: dict[int, list[Span]] = {}
    for span in rendering.spans:
        by_part.setdefault(span[2], []).append(span)
    for number, part in enumerate(parts):
        spans = by_part.get(number, [])
        if len(spans) == 1 and spans[0][3] == 0 and spans[0][4] == len(part.text):
            continue
        for begin, end in _gaps(spans, len(part.text)):
            piece = part.text[begin:end].strip()
            if piece and not _is_reprinted(piece, begin, end, spans, rendering):
                yield LostPart(part, piece, part.is_reasoning or
                               bool(_THOUGHT.fullmatch(piece)))
                break


def _gaps(spans: list[Span], length: int) -> list[tuple[int, int]]:
    """Ranges of the part's text that no span covers."""
    gaps, at = [], 0
    for begin, end in sorted((span[3], span[4]) for span in spans):
        if begin > at:
            gaps.append((at, begin))
        at = max(at, end)
    return [*gaps, (at, length)] if at < length else gaps


def _is_reprinted(piece: str, begin: int, end: int, spans: list[Span],
                  rendering: Rendering) -> bool:
    """True when a piece of tags and punctuation is in the text between its neighbours."""
    if not spans or not _REPRINTED.fullmatch(piece):
        return False
    before = [span[1] for span in spans if span[4] == begin]
    after = [span[0] for span in spans if span[3] == end]
    if before:
        low = before[0]
        high = after[0] if after else _next_begin(rendering, low)
    elif after:
        high = after[0]
        low = max((span[1] for span in rendering.spans if span[1] <= high), default=0)
    else:
        return False
    return _SPACE.sub("", piece) in _SPACE.sub("", rendering.text[low:high])


def _next_begin(rendering: Rendering, at: int) -> int:
    return min((span[0] for span in rendering.spans if span[0] >= at), default=len(rendering.text))
