"""Where an assistant's turn ends: at the first token after its content at which a model must stop."""

import re

from packtrain_tools.chat.parts import track
from packtrain_tools.chat.template import ChatTemplate

_PROBE = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


def either(tokens: list[str]) -> re.Pattern:
    """Any of them, the longest first, as tokenizers match added tokens."""
    ordered = sorted(set(tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)) or r"(?!)")


class TurnEnds:
    """The token that ends a plain answer of this template ends every turn that has it. Others (calls,
    in some families) end in the first special token, or else in the first added one."""

    def __init__(self, template: ChatTemplate, special_tokens: list[str], added_tokens: list[str]):
        self._special = either(special_tokens)
        self._added = either([*special_tokens, *added_tokens])
        self.stop = self._stop_of(template)

    def _stop_of(self, template: ChatTemplate) -> str | None:
        try:
            rendering = template.render(track(_PROBE, None).messages, None)
        except ValueError:
            return None
        end = max((span[1] for span in rendering.spans), default=0)
        found = self._special.search(rendering.text, end) or self._added.search(rendering.text, end)
        return found[0] if found else None

    def find(self, text: str, begin: int, limit: int) -> int | None:
        """The end of the turn whose content ends at `begin`; the next message begins at `limit`."""
        at = text.find(self.stop, begin, limit) if self.stop else -1
        if at >= 0:
            return at + len(self.stop)
        found = self._special.search(text, begin, limit) or self._added.search(text, begin, limit)
        return found.end() if found else None
