"""Tokens that end a turn and are at the end of its content already. The template prints its own, so both would be
learned."""

from collections.abc import Iterator

from packtrain_tools.chat.content import text_of
from packtrain_tools.chat.turns import RenderedTurns


class GivenEnds:
    def __init__(self, special_tokens: list[str], ends: list[str]):
        """`ends`: tokens at which a model stops."""
        self._tokens = tuple(sorted({*special_tokens, *ends}, key=len, reverse=True))
        self._ends = ends

    def without(self, messages: list[dict], turns: RenderedTurns) -> tuple[list[dict], int]:
        """The messages without such tokens and the white space after them, and the number of these messages.
        `turns`: the rendered messages."""
        shorter = {turn: _shortened(messages[turn], size) for turn, size in self._found(messages, turns)}
        return [shorter.get(turn, message) for turn, message in enumerate(messages)], len(shorter)

    def _found(self, messages: list[dict], turns: RenderedTurns) -> Iterator[tuple[int, int]]:
        """Turns, and the number of characters that their contents have too many."""
        for turn, message in enumerate(messages):
            text = rest = _last_text(message)
            while (token := self._last_token(rest)) and self._is_doubled(turn, token, turns):
                rest = rest.rstrip().removesuffix(token)
            if rest != text:
                yield turn, len(text) - len(rest)

    def _last_token(self, text: str) -> str:
        """The longest token at the end, before white space."""
        text = text.rstrip()
        return next((token for token in self._tokens if text.endswith(token)), "") \
            if text.endswith(self._tokens) else ""

    def _is_doubled(self, turn: int, token: str, turns: RenderedTurns) -> bool:
        if turns.is_assistant(turn) and token in self._ends:
            return True
        end = turns.extents.get(turn, (0, None))[1]
        return end is not None and turns.text[end:end + len(token) + 2].lstrip().startswith(token)


def _last_text(message: dict) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return content[-1].get("text", "") if content else ""
    return text_of(content)


def _shortened(message: dict, size: int) -> dict:
    content = message["content"]
    if isinstance(content, list):
        last = content[-1]
        return {**message, "content": [*content[:-1], {**last, "text": last["text"][:-size]}]}
    return {**message, "content": content[:-size]}
