"""Converts rollouts to rows with a number for each token."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.prepare.examples import GroupColumns
from packtrain_tools.prepare.lengths import LengthLimits, Row
from packtrain_tools.prepare.loss_weights import mask_byte
from packtrain_tools.sources.documents import Role, Rollout, Rollouts, Text, Tokens
from packtrain_tools.sources.rollout_columns import STORED

Encode = Callable[[list[Text | Conversation], Counter], list[Row | ValueError | None]]


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """An answer: ids and mask bytes, its columns of tokens (float32 [length] each), its reward."""

    row: Row
    columns: dict[str, np.ndarray]
    reward: float


class RolloutRows:
    def __init__(self, encode: Encode, vocab_size: int, limits: LengthLimits):
        """`encode`: returns the row of each document, its error, or None where nothing is learned."""
        self._encode = encode
        self._vocab_size = vocab_size
        self._limits = limits

    def encode(self, rollouts: list[Rollouts], counts: Counter) -> list[list[RolloutRow] | ValueError]:
        """Returns the answers of each record, or its error. An answer with nothing to learn is left out."""
        said = [rollout.member for each in rollouts for rollout in each.members
                if not isinstance(rollout.member, Tokens)]
        rows = iter(self._encode(said, counts))
        found: list[list[RolloutRow] | ValueError] = []
        for record in rollouts:
            members = [(rollout, self._row_of(rollout.member) if isinstance(rollout.member, Tokens) else next(rows))
                       for rollout in record.members]
            try:
                kept = [self._answer(rollout, row, counts) for rollout, row in members]
                found.append([row for row in kept if row is not None])
            except ValueError as fault:
                found.append(fault)
        return found

    def _row_of(self, tokens: Tokens) -> Row | ValueError:
        ids = tokens.prompt + tokens.completion
        wrong = next((token for token in ids if not 0 <= token < self._vocab_size), None)
        if wrong is not None:
            return ValueError(f"holds the token id {wrong}, and the tokenizer has 0..{self._vocab_size - 1}")
        mask = np.full(len(ids), mask_byte(tokens.weight), np.uint8)
        mask[:len(tokens.prompt)] = 0
        if tokens.learned is not None:
            mask[len(tokens.prompt):] *= np.array(tokens.learned, np.uint8)
        return ids, mask

    def _answer(self, rollout: Rollout, row: Row | ValueError | None, counts: Counter) -> RolloutRow | None:
        if isinstance(row, ValueError):
            raise row
        if row is None or not row[1][1:].any():
            counts["unlearned_rollouts"] += 1
            return None
        if row[1][0]:
            raise ValueError("has an empty prompt: the first token of an answer would follow nothing")
        columns = {STORED.get(name, name): _spread(values, row[1], name) for name, values in rollout.values.items()}
        kept = self._limits.apply(row, counts)
        if kept is None:
            return None
        return RolloutRow(kept, {name: column[:len(kept[0])] for name, column in columns.items()},
                          rollout.reward or 0.0)


def columns_of_rollouts(rollouts: dict[int, list[RolloutRow]], names: list[str]) -> GroupColumns:
    """Of each row, in the order of the records' numbers. `names`: of the columns of tokens."""
    ordered = [row for number in sorted(rollouts) for row in rollouts[number]]
    return GroupColumns([int(Role.ROLLOUT)] * len(ordered), [0.0] * len(ordered), [row.reward for row in ordered],
                        {name: [row.columns[name] for row in ordered] for name in names})


def _spread(values: float | list[float], mask: np.ndarray, name: str) -> np.ndarray:
    """float32 [length]: the values of the learned tokens, or one for all of them, and 0 for others."""
    column = np.zeros(len(mask), np.float32)
    learned = np.flatnonzero(mask)
    if isinstance(values, list) and len(values) != len(learned):
        raise ValueError(f"'{name}' has {len(values)} entries, and the answer has {len(learned)} learned tokens, with "
                         "the token that ends it (give 'prompt_ids' and 'completion_ids', which are exact; "
                         "--no-end-token where texts were cut)")
    column[learned] = values
    return column
