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
    in some families) end in the first special token, or else in the first added one."""

    def __init__(self, template: ChatTemplate, special_tokens: list[str], added_tokens: list[str]):
        self._special = either(special_tokens)
        self._added = either([*special_tokens, *added_tokens])
        self.stop = self._stop_of(template)

    def _stop_of(self, template: ChatTemplate) -> str | None:
        for messages in forms_of(_PROBE):
            tracked = track(messages, None)
            try:
                rendering = template.render(tracked.messages, None)
            except ValueError:
                continue
            ends = [span[1] for span in rendering.spans if tracked.parts[span[2]].message == ANSWER]
            if ends:
                found = self._special.search(rendering.text, max(ends)) or \
                    self._added.search(rendering.text, max(ends))
                return found[0] if found else None
        return None

    def find(self, text: str, begin: int, limit: int) -> int | None:
        """The end of the turn whose content ends at `begin`; the next message begins at `limit`."""
        at = text.find(self.stop, begin, limit) if self.stop else -1
        if self.stop and at >= 0:
            return at + len(self.stop)
        found = self._special.search(text, begin, limit) or self._added.search(text, begin, limit)
        return found.end() if found else None
