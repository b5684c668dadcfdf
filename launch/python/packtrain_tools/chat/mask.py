"""Finds the learned characters of a rendered conversation: an assistant's turn with the token that ends
it, and other messages only on request. A conversation is refused when its turns are not certain, or when
the template leaves out a part of the record.

A turn begins where the generation prompt ends. The text before it must equal the model's input at inference.
Templates that rewrite earlier turns (without their reasoning, say) give the model another text."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.forms import forms_of
from packtrain_tools.chat.given_ends import GivenEnds
from packtrain_tools.chat.parts import SHOWN, TOOLS, LostPart, lost_parts, track
from packtrain_tools.chat.template import ChatTemplate, Refused
from packtrain_tools.chat.thoughts import REASONS, fault_of_message
from packtrain_tools.chat.turn_ends import TurnEnds
from packtrain_tools.chat.turns import RenderedTurns

UNREAD_KEY = "unread_key:"  # of a count: the key of a message follows
_READ_KEYS = {"role", "content", "reasoning_content", "tool_calls"}
_LABELS = {"name", "id", "tool_call_id", *REASONS}  # say nothing to a model whose template leaves them out
_TOOLS = ("tools", "functions")
_KEY = re.compile(r"[\w-]{1,40}")
TRAIN_ON = ("assistant", "last", "each-turn", "all")


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    learned: list[tuple[int, int, float]]  # begin and end, in characters, and weight; ascending
    data: list[tuple[int, int]] = field(default_factory=list)  # ranges from the record itself; ascending


@dataclass(frozen=True, slots=True)
class MaskOptions:
    train_on: str = "assistant"
    also_train_on: tuple[str, ...] = ()  # roles
    allow_open_turns: bool = False
    count_left_out: bool = False  # accept records of which the template leaves something out
    names_are_text: bool = False  # a special token's name in a record is plain text


class _LeftOut(ValueError):
    """The template leaves out a part of the record."""


class ChatMask:
    def __init__(self, template: ChatTemplate, options: MaskOptions, special_tokens: list[str],
                 added_tokens: list[str] | None = None, end_token: str | None = None):
        """`special_tokens`, `added_tokens`: of the tokenizer. One of them ends a turn, unless turns may be
        open. `end_token`: the one that the tokenizer calls its end."""
        self._template = template
        self._options = options
        self._ends = TurnEnds(template, special_tokens, added_tokens or [], end_token)
        stops = [token for token in (self._ends.stop, end_token) if token]
        self._given_ends = GivenEnds(special_tokens, stops)

    @property
    def stop_token(self) -> str | None:
        return self._ends.stop

    @property
    def uses_date(self) -> bool:
        return self._template.uses_date

    def divided(self, conversation: Conversation,
                counts: Counter | None = None) -> list[Conversation]:
        """With each-turn, a conversation for each learned turn, in which only this turn is learned.
        Otherwise the conversation itself. `asked` is None for earlier turns that another conversation
        learns."""
        if self._options.train_on != "each-turn":
            return [conversation]
        counts = Counter() if counts is None else counts
        self._note_unread_keys(conversation, counts)
        weights = self._weights(conversation, counts)
        earlier = [None if weights.get(turn) else 0.0 for turn in range(len(conversation.messages))]
        return [replace(conversation, messages=conversation.messages[:turn + 1],
                        asked=[*earlier[:turn], weights[turn]])
                for turn in sorted(weights) if weights[turn]]

    def render(self, conversation: Conversation, counts: Counter | None = None) -> Rendered | None:
        """The example of one of `divided`, or None where nothing of it is learned. Raises ValueError
        naming the turn. Counts unusual events in `counts`."""
        counts = Counter() if counts is None else counts
        if self._options.train_on == "each-turn":
            weights = {len(conversation.messages) - 1: conversation.asked[-1] or 0.0}
        else:
            self._note_unread_keys(conversation, counts)
            weights = self._weights(conversation, counts)
        weights = {turn: weight * conversation.weight for turn, weight in weights.items()}
        return self._example(conversation, weights, counts) if any(weights.values()) else None

    def _note_unread_keys(self, conversation: Conversation, counts: Counter):
        """Counts keys of messages whose values are in no example. Raises ValueError for tools among them."""
        for number, message in enumerate(conversation.messages, start=1):
            for key in message.keys() - _READ_KEYS - _LABELS:
                if message[key] in ("", [], {}) or self._template.names(key, conversation.tools):
                    continue
                if key in _TOOLS and not conversation.tools and not self._options.count_left_out:
                    raise ValueError(f"turn {number} ({message['role']}): has '{key}', which the chat template does "
                                     "not read in a message (give them in the column 'tools', or take such records "
                                     "with --left-out-parts count)")
                if _KEY.fullmatch(key):
                    counts[UNREAD_KEY + key] += 1

    def _weights(self, conversation: Conversation, counts: Counter) -> dict[int, float]:
        """Weights of the messages that --train-on, --also-train-on or the record select, by their index."""
        roles = [message["role"] for message in conversation.messages]
        turns = [i for i, role in enumerate(roles) if role == "assistant"]
        unprompted = _unprompted_turns(roles)
        if any(conversation.asked[turn] is None for turn in unprompted):
            counts["assistant_begins"] += 1
        if self._options.train_on == "all":
            chosen = set(range(len(roles)))
        else:
            chosen = set(turns[-1:] if self._options.train_on == "last" else turns) - unprompted
            chosen |= {i for i, role in enumerate(roles) if role in self._options.also_train_on}
        return dict.fromkeys(chosen, 1.0) | {
            turn: float(asked) for turn, asked in enumerate(conversation.asked) if asked is not None}

    def _example(self, conversation: Conversation, weights: dict[int, float],
                 counts: Counter) -> Rendered:
        """Leaves out the text after the last learned turn. Uses the first form of the messages of which
        the template leaves nothing out."""
        last = max(turn for turn, weight in weights.items() if weight)
        weights = {turn: weight for turn, weight in weights.items() if turn <= last}
        faults: list[ValueError] = []
        for messages in forms_of(conversation.messages[:last + 1]):
            try:
                return self._masked(messages, conversation, weights, counts, False)
            except ValueError as error:
                faults.append(error)
        # In a form that fails for another reason the whole text is present, so the reason is the template's
        # own.
        worst = max(faults, key=lambda fault: (not isinstance(fault, (_LeftOut, Refused)),
                                               isinstance(fault, _LeftOut)))
        if self._options.count_left_out and isinstance(worst, _LeftOut):
            for messages, fault in zip(forms_of(conversation.messages[:last + 1]), faults):
                if fault is worst:
                    return self._masked(messages, conversation, weights, counts, True)
        raise worst

    def _masked(self, messages: list[dict], conversation: Conversation, weights: dict[int, float],
                counts: Counter, may_leave_out: bool) -> Rendered:
        """`messages`: those of the conversation, in one of their forms."""
        tracked = track(messages, conversation.tools)
        turns = RenderedTurns(self._template, self._ends, tracked, self._options.allow_open_turns)
        if not self._options.names_are_text:
            messages, number = self._given_ends.without(messages, turns)
            if number:
                rendered = self._masked(messages, conversation, weights, counts, may_leave_out)
                counts["ended_already"] += number
                return rendered
        if [turn for turn, weight in weights.items() if weight] == [len(messages) - 1]:
            turns.ask_for_last_turn()
        noticed = Counter(self._leaves_out(turns, conversation.asked, weights, may_leave_out))
        learned = {turn for turn, weight in weights.items() if weight}
        if self._options.train_on == "all":
            spans = list(_all_but(turns, weights))
        else:
            found = turns.spans(sorted(learned))
            spans = sorted((begin, end, weights[turn]) for turn, (begin, end) in found.items())
            noticed += turns.unusual(found)
            faults = (fault_of_message(conversation.messages[turn]) for turn in found if turns.is_assistant(turn))
            noticed.update(fault for fault in faults if fault)
        counts.update(noticed)
        return Rendered(turns.text, spans, turns.data())

    def _leaves_out(self, turns: RenderedTurns, asked: list[float | None], weights: dict[int, float],
                    may_leave_out: bool) -> Iterator[str]:
        """Yields the names of counts. Reasoning may be missing in turns that are not learned. With
        each-turn any part may be missing in a turn that another example learns. The model does not see
        these parts either, when it is asked for the next turn."""
        each = self._options.train_on == "each-turn"
        for lost in lost_parts(turns.parts, turns.rendering):
            turn = lost.part.message
            may_go = turns.is_assistant(turn) and not weights.get(turn) and \
                (lost.is_thought or (each and asked[turn] is None))
            if may_go:
                yield "dropped_thoughts"
            elif may_leave_out:
                yield "left_out_parts"
            else:
                raise _LeftOut(_left_out(turns, lost, max(weights)))


def _unprompted_turns(roles: list[str]) -> set[int]:
    """The assistant's turns before the first message that asks for an answer, if there is one."""
    first = next((i for i, role in enumerate(roles)
                  if role not in ("system", "developer", "assistant")), None)
    return set() if first is None else {i for i in range(first) if roles[i] == "assistant"}


def _all_but(turns: RenderedTurns, weights: dict[int, float]) -> Iterator[tuple[int, int, float]]:
    """The whole text up to the last message's end, with the weights of messages where they differ."""
    at, end = 0, turns.end(len(turns.messages) - 1)
    usual = max(weights.values())
    for turn in sorted(weights):
        extent = turns.extents.get(turn)
        if weights[turn] == usual or extent is None:
            continue
        yield at, extent[0], usual
        at = turns.end(turn)
        yield extent[0], at, weights[turn]
    yield at, end, usual


def _left_out(turns: RenderedTurns, lost: LostPart, last: int) -> str:
    text = lost.text if len(lost.text) <= SHOWN else lost.text[:SHOWN] + "..."
    turn = lost.part.message
    what = lost.part.what if turn == TOOLS else f"its {lost.part.what}"
    place = "" if turn == TOOLS else f"{turns.name(turn)}: "
    advice = "give a --chat-template that prints it, or take such records with --left-out-parts count"
    if lost.is_thought and turn < last:
        advice = "--train-on each-turn or last learns turns as they are asked for"
    elif turns.role(turn) in ("system", "developer"):
        advice += "; --merge-system puts it into the first user's turn"
    return f"{place}the chat template leaves {what} out: {text!r} ({advice})"
