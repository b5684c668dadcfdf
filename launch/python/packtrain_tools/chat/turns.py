"""Finds the begin and the end of the turns of a rendered conversation."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter

from packtrain_tools.chat.parts import TOOLS, TrackedConversation
from packtrain_tools.chat.template import ChatTemplate, Rendering
from packtrain_tools.chat.tracked import of_part
from packtrain_tools.chat.turn_ends import TurnEnds

SHOWN = 40  # characters
_EMPTY_THOUGHT = re.compile(r"\s*<think>\s*</think>")


class RenderedTurns:
    def __init__(self, template: ChatTemplate, ends: TurnEnds, tracked: TrackedConversation,
                 allow_open_turns: bool):
        """Raises ValueError where the template refuses the conversation."""
        self._template = template
        self._ends = ends
        self._tools = tracked.tools
        self._allow_open_turns = allow_open_turns
        self._prompts: dict[str, str] = {}  # by the previous role: the text that follows its message
        self._befores: dict[int, Rendering] = {}
        self.messages = tracked.messages
        self.parts = tracked.parts
        self._take(template.render(self.messages, self._tools))

    def _take(self, rendering: Rendering):
        self.rendering = rendering
        self.text = rendering.text
        _check_text(self.text)
        self.extents = self._extents(self.rendering)
        self._span_begins = [span[0] for span in self.rendering.spans]
        self._span_ends = sorted(span[1] for span in self.rendering.spans)

    def _extents(self, rendering: Rendering) -> dict[int, tuple[int, int]]:
        """First and last character of each message's own text, where it has any. A part that a template
        repeats later (the name of a call, with its result) counts at its first position."""
        extents: dict[int, tuple[int, int]] = {}
        seen: dict[int, int] = {}  # by part: the end of its first occurrence
        for begin, end, part, _, source_end in rendering.spans:
            message = self.parts[part].message
            if message == TOOLS or source_end <= seen.get(part, 0):
                continue
            seen[part] = source_end
            first, last = extents.get(message, (begin, end))
            extents[message] = (min(first, begin), max(last, end))
        return extents

    def ask_for_last_turn(self):
        """Uses the prompt of an inference for the text before the last turn. Some templates show the model
        other earlier turns at inference than afterwards, for example with the reasoning of a call."""
        turn = len(self.messages) - 1
        if not self.is_assistant(turn) or self._template.marks_generation(self._tools):
            return
        before = self._before(turn)
        if self.text.startswith(before.text):
            return
        self._note_prompt(turn, before)
        begin = self._seen_prompt(turn)
        if begin is None:
            return
        shift = len(before.text) - begin
        spans = [(first + shift, last + shift, part, source_first, source_last)
                 for first, last, part, source_first, source_last in self.rendering.spans if first >= begin]
        self._take(Rendering(before.text + self.text[begin:], [*before.spans, *spans], []))

    def role(self, turn: int) -> str:
        return "" if turn == TOOLS else self.messages[turn]["role"]

    def is_assistant(self, turn: int) -> bool:
        return self.role(turn) == "assistant"

    def name(self, turn: int) -> str:
        return f"turn {turn + 1} ({self.role(turn)})"

    def data(self) -> list[tuple[int, int]]:
        """Ranges of the text that come from the record, ascending."""
        merged: list[tuple[int, int]] = []
        for begin, end, *_ in self.rendering.spans:
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged

    def spans(self, learned: list[int]) -> dict[int, tuple[int, int]]:
        """Begin and end of each learned message. Raises ValueError where they are not certain."""
        turns = [turn for turn in learned if self.is_assistant(turn)]
        marked = self._template.marks_generation(self._tools)
        found = self._marked(turns) if marked else self._prompted(turns)
        for turn in learned:
            if not self.is_assistant(turn) and turn in self.extents:
                found[turn] = (self.extents[turn][0], self.end(turn))
        return found

    def unusual(self, found: dict[int, tuple[int, int]]) -> Counter:
        counts: Counter = Counter()
        for turn, (begin, end) in found.items():
            if not self.is_assistant(turn):
                continue
            if not self.text[slice(*self.extents.get(turn, (0, 0)))].strip():
                counts["empty_answers"] += 1
            thought = _EMPTY_THOUGHT.match(self.text, begin, end)
            if thought and thought.end() <= self.extents.get(turn, (end, end))[0]:
                counts["empty_thoughts"] += 1
        return counts

    def end(self, turn: int, begin: int = 0, must: bool = False) -> int:
        """The end of the token that ends a turn whose content begins at `begin` or later; without such a
        token the end of the content. Raises ValueError instead where a turn must end."""
        content_end = max(begin, self.extents[turn][1] if turn in self.extents
                          else self._empty_content(turn))
        end = self._ends.find(self.text, content_end, self._limit(turn, content_end))
        if end is not None:
            return end
        if must and not self._allow_open_turns:
            raise ValueError(f"{self.name(turn)}: ends in no special token, so that a model would "
                             "not learn to stop (--allow-open-turns takes it as it is)")
        is_last = turn == len(self.messages) - 1
        return len(self.text) if must and is_last else self._open_end(turn, content_end)

    def _open_end(self, turn: int, content_end: int) -> int:
        """An open turn ends where the text up to it ends."""
        if not self._allow_open_turns or not self.is_assistant(turn):
            return content_end
        return _common(self._through(turn).text, self.text)

    def _empty_content(self, turn: int) -> int:
        """The position of an empty content."""
        mark = len(self.parts)
        messages = [*self.messages]
        messages[turn] = {**messages[turn], "content": of_part("x", mark)}
        try:
            rendering = self._template.render(messages, self._tools)
        except ValueError:
            return 0
        begin = next((span[0] for span in rendering.spans if span[2] == mark), 0)
        return begin if self.text.startswith(rendering.text[:begin]) else 0

    def _limit(self, turn: int, content_end: int) -> int:
        """The begin of the next message or a later position: its own text, if it has any. Where answers
        end in no token, the first token that follows belongs to the next message."""
        if turn + 1 >= len(self.messages):
            return len(self.text)
        if turn + 1 in self.extents and self._ends.stop is not None:
            spans = itertools.islice(self.rendering.spans, bisect_left(self._span_begins, content_end), None)
            return next((begin for begin, _, part, *_ in spans if self.parts[part].message != turn),
                        len(self.text))
        return max(content_end, _common(self._through(turn).text, self.text))

    def _through(self, turn: int) -> Rendering:
        try:
            return self._template.render(self.messages[:turn + 1], self._tools)
        except ValueError as fault:
            raise self._fault(turn, "cannot be masked: of the messages up to it", fault) from None

    def _before(self, turn: int) -> Rendering:
        """The prompt of an inference."""
        if turn in self._befores:
            return self._befores[turn]
        try:
            before = self._template.render(self.messages[:turn], self._tools, True)
            self._befores[turn] = before
            return before
        except ValueError as fault:
            raise self._fault(turn, "cannot be masked: of the messages up to it", fault) from None

    def _prompted(self, turns: list[int]) -> dict[int, tuple[int, int]]:
        """Turns of a template without marks: each begins at the end of the generation prompt. The last
        turn is compared with its exact prompt, earlier ones with prompts that were seen, or with their
        own. The first, second, fourth, eighth ... turn, and the first of each kind, are also compared with
        the conversation that ends with it. So the work grows with the text, not with its square."""
        found = {}
        for turn in reversed(turns):
            begin = self._begin(turn, is_last=turn == turns[-1])
            found[turn] = (begin, self.end(turn, begin, must=True))
        kinds = set()
        for number, turn in enumerate(turns[:-1], start=1):
            kind = self._kind(turn, found[turn])
            if kind not in kinds or number & (number - 1) == 0:
                self._check_later_turns(turn, found[turn][1])
            kinds.add(kind)
        return found

    def _kind(self, turn: int, span: tuple[int, int]) -> tuple:
        """The properties by which a template can distinguish turns: their neighbours, their parts, and the
        text that it prints around them."""
        message = self.messages[turn]
        first, last = self.extents.get(turn, (span[1], span[1]))
        return (self.role(turn - 1) if turn else "", self.role(turn + 1), *sorted(message),
                self.text[span[0]:first], self.text[last:span[1]])

    def _begin(self, turn: int, is_last: bool) -> int:
        seen = None if is_last else self._seen_prompt(turn)
        if seen is not None:
            return seen
        before = self._before(turn)
        if not self.text.startswith(before.text):
            through = self._through(turn).text
            if through.startswith(before.text):
                raise self._changed(turn, through)
            raise self._fault(turn, "cannot be masked: the generation prompt is not how it begins",
                              f"{_difference(before.text, self.text)} (--template-option may change "
                              "it, or another --chat-template)")
        self._note_prompt(turn, before)
        return len(before.text)

    def _note_prompt(self, turn: int, before: Rendering):
        text_end = max((span[1] for span in before.spans), default=0)
        self._prompts[self.role(turn - 1) if turn else ""] = before.text[text_end:]

    def _seen_prompt(self, turn: int) -> int | None:
        """The end of the prompt, if it was seen after a message of the same role."""
        prompt = self._prompts.get(self.role(turn - 1) if turn else "")
        if prompt is None or turn not in self.extents:
            return None
        first = self.extents[turn][0]
        before = bisect_right(self._span_ends, first)
        text_end = self._span_ends[before - 1] if before else 0
        is_there = text_end + len(prompt) <= first and self.text.startswith(prompt, text_end)
        return text_end + len(prompt) if is_there else None

    def _check_later_turns(self, turn: int, end: int):
        through = self._through(turn)
        if not through.text.startswith(self.text[:end]):
            raise self._changed(turn, through.text)

    def _changed(self, turn: int, through: str) -> ValueError:
        return self._fault(turn, "cannot be masked: later turns change how it is rendered",
                           f"{_difference(through, self.text)} (--train-on each-turn or last learns "
                           "turns as they are asked for)")

    def _marked(self, turns: list[int]) -> dict[int, tuple[int, int]]:
        """Turns of a template with {% generation %}: a passage belongs to the turn whose text it holds."""
        begins: dict[int, int] = {}
        for begin, end in self.rendering.generated:
            turn = self._turn_of_passage(begin, end)
            if turn is not None:
                begins.setdefault(turn, begin)
        for turn in turns:
            if turn not in begins:
                raise ValueError(f"{self.name(turn)}: the chat template marks no passage of it with "
                                 "generation")
        if turns and self._template.knows_generation_prompt(self._tools):
            for turn in reversed(turns):  # a passage may include the prompt, which is not learned
                begins[turn] = max(begins[turn], self._begin(turn, is_last=turn == turns[-1]))
        return {turn: (begins[turn], self.end(turn, begins[turn], must=True)) for turn in turns}

    def _turn_of_passage(self, begin: int, end: int) -> int | None:
        """Returns None for a passage that follows a turn's end: it belongs to no content."""
        inside = {self.parts[part].message for first, last, part, *_ in self.rendering.spans
                  if first < end and last > begin}
        if len(inside) > 1 or any(not self.is_assistant(turn) for turn in inside):
            names = ", ".join(self.name(turn) if turn != TOOLS else "the tools"
                              for turn in sorted(inside))
            raise ValueError(f"the chat template marks one passage with generation that holds {names}")
        if inside:
            return inside.pop()
        before = [turn for turn, extent in self.extents.items() if extent[1] <= begin]
        turn = max(before, default=-1) + 1
        is_empty = turn < len(self.messages) and turn not in self.extents
        return turn if is_empty and self.is_assistant(turn) else None

    def _fault(self, turn: int, what: str, detail: object) -> ValueError:
        return ValueError(f"{self.name(turn)}: {what}: {detail}")


def _check_text(text: str):
    """Half of a surrogate pair, anywhere in the record, would crash the tokenizer."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        begin = max(0, error.start - SHOWN)
        raise ValueError("holds half of a surrogate pair, which is no text, after "
                         f"{text[begin:error.start]!r}") from None


def _common(a: str, b: str) -> int:
    """The length of the common beginning."""
    if b.startswith(a):
        return len(a)
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def _difference(wanted: str, got: str) -> str:
    at = _common(wanted, got)
    begin = max(0, at - SHOWN)
    return f"{wanted[begin:at + SHOWN]!r} became {got[begin:at + SHOWN]!r}"
