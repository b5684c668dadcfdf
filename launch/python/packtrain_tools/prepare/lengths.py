"""Handles examples that are too long or too short: --min-length, --max-length, --too-long."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from packtrain_tools.chat.conversations import SYSTEM_ROLES, Conversation
from packtrain_tools.chat.reshape import begun_with_system

MAX_LENGTH = 2**31 - 1
TURNS = ("turns", "last-turns")  # ways to shorten a conversation by whole turns
Row = tuple[list[int], np.ndarray]


class TooLong(ValueError):
    """The conversation cannot be made shorter."""


@dataclass(frozen=True, slots=True)
class LengthLimits:
    min_length: int = 1
    max_length: int = MAX_LENGTH
    too_long: str = "refuse"  # or drop, truncate, turns (the oldest go), last-turns (the last go)

    def shortens(self, row: Row) -> bool:
        return self.too_long in TURNS and len(row[0]) > self.max_length

    def apply(self, row: Row, counts: Counter) -> Row | None:
        """Returns the row to keep, or None where it is left out. Raises ValueError for one that is too
        long."""
        ids, mask = row
        if len(ids) < self.min_length:
            counts["too_short"] += 1
            return None
        if len(ids) <= self.max_length:
            return row
        if self.too_long == "drop":
            counts["dropped_too_long"] += 1
            return None
        if self.too_long != "truncate":
            raise ValueError(f"has {len(ids):,} tokens, wanted at most {self.max_length:,} "
                             "(--too-long chooses what becomes of it)")
        mask = mask[:self.max_length]
        if not mask[1:].any():
            counts["cut_to_nothing"] += 1
            return None
        counts["truncated"] += 1
        return ids[:self.max_length], mask


class Shortener:
    """Leaves out whole exchanges (a message of the user and those that follow it): the oldest ones, or the
    last ones. The system prompt stays. Each try encodes a conversation; the number of tries is
    logarithmic."""

    def __init__(self, limits: LengthLimits, encode: Callable[[Conversation], Row | None]):
        """`encode`: returns a conversation's row, or None where nothing of it is learned."""
        self._limits = limits
        self._encode = encode

    def shorten(self, conversation: Conversation) -> tuple[Row, int]:
        """Returns the longest row that fits, and the number of messages left out. Raises TooLong."""
        starts = _exchange_starts(conversation)
        least, most = 1, len(starts) - 1  # exchanges to leave out
        best: tuple[Row, int] | None = None
        while least <= most:
            number = (least + most) // 2
            shorter = self._without(conversation, starts, number)
            row = self._encode(shorter)
            if row is None:  # all that is learned was left out
                most = number - 1
            elif len(row[0]) <= self._limits.max_length:
                best = row, len(conversation.messages) - len(shorter.messages)
                most = number - 1
            else:
                least = number + 1
        if best is None:
            raise TooLong(f"has more than {self._limits.max_length:,} tokens, and no shorter "
                          "conversation of whole turns from which something is learned")
        return best

    def _without(self, conversation: Conversation, starts: list[int], number: int) -> Conversation:
        if self._limits.too_long == "turns":
            kept = [*range(starts[0]), *range(starts[number], len(conversation.messages))]
        else:
            kept = list(range(starts[len(starts) - number]))
        shorter = replace(conversation, messages=[conversation.messages[i] for i in kept],
                          asked=[conversation.asked[i] for i in kept])
        user = next((i for i, message in enumerate(conversation.messages) if message["role"] == "user"), None)
        # The turn that --merge-system put the system prompt into was left out.
        return begun_with_system(shorter) if conversation.merged_system and user not in kept else shorter


def _exchange_starts(conversation: Conversation) -> list[int]:
    """Indices of the user's messages that follow another role's. A conversation that the assistant begins
    starts an exchange there."""
    roles = [message["role"] for message in conversation.messages]
    first = next((i for i, role in enumerate(roles) if role not in SYSTEM_ROLES), len(roles))
    return [i for i in range(first, len(roles))
            if i == first or (roles[i] == "user" and roles[i - 1] != "user")]
