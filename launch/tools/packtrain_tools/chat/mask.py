"""Which characters of a rendered conversation are learned: an assistant's turn with the token that
ends it, nothing else. Where that cannot be told for certain the conversation is refused.

What {% generation %} encloses in the template is a turn; in other templates a turn is what rendering
the conversation up to it adds to its beginning with the generation prompt. Both beginnings must be
those of the whole text: templates that rewrite earlier turns (leaving out their reasoning, say) show
the model another text than it will see when it is asked.
"""

import json
import re
from dataclasses import dataclass

from packtrain_tools.chat.template import BEGIN, END, ChatTemplate
from packtrain_tools.chat.conversations import Conversation

TRAIN_ON = ("assistant", "last", "each-turn")
SHOWN = 40  # characters


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    learned: list[tuple[int, int]]  # begin and end, in characters


class ChatMask:
    def __init__(self, template: ChatTemplate, train_on: str, allow_open_turns: bool,
                 special_tokens: list[str]):
        """`special_tokens`: of the tokenizer, one of which ends a turn, unless turns may be open."""
        self._template = template
        self._train_on = train_on
        self._allow_open_turns = allow_open_turns
        either = "|".join(re.escape(token) for token in
                          sorted(special_tokens, key=len, reverse=True)) or r"(?!)"
        self._end_in = re.compile(rf"(?:{either})(?=\s*\Z)")
        self._end_at = re.compile(rf"\s*(?:{either})")

    def render(self, conversation: Conversation) -> list[Rendered]:
        """The examples of a conversation, none where nothing of it is learned. Raises ValueError
        naming the turn."""
        said = json.dumps([conversation.messages, conversation.tools], ensure_ascii=False,
                          default=str)
        if BEGIN in said or END in said:
            raise ValueError("holds the noncharacters U+FDD0 or U+FDD1, which are no text")
        learned = self._learned_turns(conversation)
        if not learned:
            return []
        if self._train_on == "each-turn":
            return [self._example(conversation, [turn]) for turn in learned]
        return [self._example(conversation, learned)]

    def _learned_turns(self, conversation: Conversation) -> list[int]:
        turns = conversation.assistant_turns
        chosen = turns[-1:] if self._train_on == "last" else turns
        return [turn for turn in turns
                if (turn in chosen if conversation.asked[turn] is None
                    else conversation.asked[turn])]

    def _example(self, conversation: Conversation, learned: list[int]) -> Rendered:
        """What follows the last learned turn is left out."""
        messages = conversation.messages[:learned[-1] + 1]
        tools = conversation.tools
        whole = self._template.render(messages, tools)
        if self._template.marks_generation(tools):
            turns = [i for i in conversation.assistant_turns if i < len(messages)]
            spans = self._marked(whole.text, whole.generated, turns, learned)
        else:
            spans = {turn: self._added(messages, tools, turn, whole.text) for turn in learned}
        for turn, (begin, end) in spans.items():
            reasoning = messages[turn].get("reasoning_content")
            if isinstance(reasoning, str) and reasoning.strip() not in whole.text[begin:end]:
                raise _fault(messages, turn, "the chat template leaves its reasoning out",
                             repr(whole.text[begin:end][-SHOWN:]))
        return Rendered(whole.text, list(spans.values()))

    def _marked(self, text: str, generated: list[tuple[int, int]], turns: list[int],
                learned: list[int]) -> dict[int, tuple[int, int]]:
        if len(generated) != len(turns):
            raise ValueError(f"the chat template marks {len(generated)} passages with generation, "
                             f"of {len(turns)} assistant turns")
        spans = {}
        for turn, (begin, end) in zip(turns, generated):
            if turn not in learned:
                continue
            inside = self._end_in.search(text, begin, end)
            after = self._end_at.match(text, end)
            if inside:
                end = inside.end()
            elif after:  # ends the turn, though the template does not mark it
                end = after.end()
            elif not self._allow_open_turns:
                raise ValueError(_open_turn(turn))
            spans[turn] = (begin, end)
        return spans

    def _added(self, messages: list[dict], tools: list | None, turn: int,
               whole: str) -> tuple[int, int]:
        try:
            before = self._template.render(messages[:turn], tools, True).text
            through = self._template.render(messages[:turn + 1], tools).text
        except ValueError as fault:
            raise _fault(messages, turn, "cannot be masked: of the messages up to it", fault)
        if not through.startswith(before):
            raise _fault(messages, turn, "cannot be masked: the generation prompt is not how it "
                         "begins", f"{_difference(before, through)} (--template-option may change it, "
                         "or a --chat-template with {% generation %})")
        begin, end = len(before), len(through)
        stop = self._end_in.search(through, begin)
        if stop:
            end = stop.end()
        elif not self._allow_open_turns:
            raise ValueError(_open_turn(turn))
        if not whole.startswith(through[:end]):
            raise _fault(messages, turn, "cannot be masked: later turns change how it is rendered",
                         f"{_difference(through[:end], whole)} (--train-on each-turn or last "
                         "learns turns as they are asked for)")
        return begin, end


def _open_turn(turn: int) -> str:
    return (f"turn {turn + 1} (assistant): ends in no special token, so that a model would not "
            "learn to stop (--allow-open-turns takes it as it is)")


def _fault(messages: list[dict], turn: int, what: str, detail: object) -> ValueError:
    return ValueError(f"turn {turn + 1} ({messages[turn]['role']}): {what}: {detail}")


def _difference(wanted: str, got: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b),
              min(len(wanted), len(got)))
    begin = max(0, at - SHOWN)
    return f"{wanted[begin:at + SHOWN]!r} became {got[begin:at + SHOWN]!r}"
