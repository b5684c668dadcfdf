"""Converts preferences to the rows of their members. A pair is kept or left out as a whole."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.prepare.examples import GroupColumns
from packtrain_tools.prepare.lengths import LengthLimits, Row
from packtrain_tools.sources.documents import Document, Instruction, Preference, Role, Text

Member = Text | Conversation
Answer = Text | Instruction | Conversation
Encode = Callable[[list[Member], Counter], list[Row | ValueError | None]]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group: ids and mask bytes of each member, with its role."""

    rows: list[Row]
    roles: list[Role]
    margin: float | None


def with_members_as(preference: Preference, as_asked: Callable[[Answer], Member]) -> Preference:
    """Converts instructions with `as_asked`. In any form only their last answer is learned."""
    members: list[tuple[Role, Answer]] = []
    for role, member in preference.members:
        document: Answer = as_asked(member)
        if isinstance(member, Instruction) and isinstance(document, Conversation):
            asked: list[float | None] = [0.0] * (len(document.messages) - 1)
            document = replace(document, asked=[*asked, 1.0])
        members.append((role, document))
    return replace(preference, members=tuple(members))


def chosen_of(preference: Preference) -> Document | None:
    """The chosen or desirable answer as a plain document, None for an undesirable one."""
    role, member = preference.members[0]
    return None if role == Role.UNDESIRABLE else replace(member, group=preference.group)


def columns_of_groups(groups: dict[int, GroupRow]) -> GroupColumns:
    """Of each row, in the order of the records' numbers."""
    ordered = [groups[number] for number in sorted(groups)]
    roles = [int(role) for group in ordered for role in group.roles]
    margins = [0.0 if group.margin is None else group.margin for group in ordered for _ in group.roles]
    return GroupColumns(roles, margins, [0.0] * len(roles), {})


class PreferenceRows:
    def __init__(self, encode: Encode, limits: LengthLimits):
        """`encode`: returns the row of each document, its error, or None where nothing is learned."""
        self._encode = encode
        self._limits = limits

    def encode(self, preferences: list[Preference], counts: Counter) -> list[GroupRow | ValueError | None]:
        """Returns the group of each, its error, or None where it is left out. The preferences are those of
        `with_members_as`."""
        members = [member for each in preferences for _, member in each.members
                   if not isinstance(member, Instruction)]
        rows = iter(self._encode(members, counts))
        found: list[GroupRow | ValueError | None] = []
        for preference in preferences:
            if _has_doubled_prompt(preference):
                counts["doubled_prompts"] += 1
            try:
                found.append(self._group(preference, [next(rows) for _ in preference.members], counts))
            except ValueError as fault:
                found.append(fault)
        return found

    def _group(self, preference: Preference, rows: list[Row | ValueError | None],
               counts: Counter) -> GroupRow | None:
        roles = [role for role, _ in preference.members]
        whole: list[Row] = []
        for role, row in zip(roles, rows):
            if isinstance(row, ValueError):
                raise ValueError(f"{role.name.lower()}: {row}")
            if row is None or not row[1][1:].any():
                counts["unlearned_preferences"] += 1
                return None
            whole.append(row)
        _check_prompts(whole)
        kept = self._within_limits(whole, counts)
        if kept is None:
            return None
        if len(kept) > 1 and kept[0][0] == kept[1][0]:
            counts["equal_answers"] += 1
            return None
        return GroupRow(kept, roles, preference.margin)

    def _within_limits(self, rows: list[Row], counts: Counter) -> list[Row] | None:
        """Each event is counted once a group."""
        noticed: Counter = Counter()
        kept = [self._limits.apply(row, noticed) for row in rows]
        if any(row is None for row in kept):
            noticed.pop("truncated", None)
        counts.update(dict.fromkeys(noticed, 1))
        return None if any(row is None for row in kept) else [row for row in kept if row is not None]


def _has_doubled_prompt(preference: Preference) -> bool:
    """True for a pair of texts that both begin with the prompt, as whole texts do."""
    texts = [member for _, member in preference.members if isinstance(member, Text)]
    return len(texts) > 1 and all(bool(text.prompt) and text.text.startswith(text.prompt or "") for text in texts)


def _check_prompts(rows: list[Row]):
    """Checks that the answers of a group follow the same tokens, and follow any. Raises ValueError."""
    if any(mask[0] for _, mask in rows):
        raise ValueError("has an empty prompt: the first token of an answer would follow nothing, and would not be "
                         "learned")
    prompts = [ids[:int(np.flatnonzero(mask)[0])] for ids, mask in rows]
    if any(prompt != prompts[0] for prompt in prompts):
        at = next((i for i, pair in enumerate(zip(*prompts)) if pair[0] != pair[1]),
                  min(map(len, prompts)))
        raise ValueError(f"the prompts of 'chosen' and 'rejected' have different tokens, from token {at} on: "
                         "the chat template writes the prompt in another way for each answer")
