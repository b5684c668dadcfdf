"""Finds the end of an assistant's turn: the first token after its content at which a model must stop."""

import re

from packtrain_tools.chat.forms import forms_of
from packtrain_tools.chat.parts import track
from packtrain_tools.chat.template import ChatTemplate

ANSWER = 1
_PROBE = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


def either(tokens: list[str]) -> re.Pattern:
    """Matches any of them, the longest first, as tokenizers match added tokens."""
    ordered = sorted(set(tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)) or r"(?!)")


class TurnEnds:
    """The token that ends a plain answer of this template ends every turn that has it. Other turns (calls,
    in some families) end in the first special token, or else in the first added one. Where the tokenizer's
    end token follows that token directly in every turn, the model stops there, and it belongs to the turn."""

    def __init__(self, template: ChatTemplate, special_tokens: list[str], added_tokens: list[str],
                 end_token: str | None = None):
        """`end_token`: of the tokenizer, at which a model stops."""
        self._special = either(special_tokens)
        self._added = either([*special_tokens, *added_tokens])
        self.stop: str | None = None
        self._closing = ""
        found = self._end_of_answer(template, _PROBE)
        if found:
            text, begin, end = found
            self.stop = text[begin:end]
        between = self._end_of_answer(template, [*_PROBE, *_PROBE])
        if end_token and between and between[0].startswith(end_token, between[2]):
            self._closing = end_token

    def _end_of_answer(self, template: ChatTemplate, probe: list[dict]) -> tuple[str, int, int] | None:
        """The text, and begin and end in it of the token that ends the first answer."""
        for messages in forms_of(probe):
            tracked = track(messages, None)
            try:
                rendering = template.render(tracked.messages, None)
            except ValueError:
                continue
            ends = [span[1] for span in rendering.spans if tracked.parts[span[2]].message == ANSWER]
            if ends:
                found = self._special.search(rendering.text, max(ends)) or \
                    self._added.search(rendering.text, max(ends))
                return (rendering.text, *found.span()) if found else None
        return None

    def find(self, text: str, begin: int, limit: int) -> int | None:
        """The end of the turn whose content ends at `begin`; the next message begins at `limit`."""
        at = text.find(self.stop, begin, limit) if self.stop else -1
        if self.stop and at >= 0:
            end = at + len(self.stop)
        else:
            found = self._special.search(text, begin, limit) or self._added.search(text, begin, limit)
            if not found:
                return None
            end = found.end()
        closed = end + len(self._closing)
        return closed if closed <= limit and text.startswith(self._closing, end) else end
