"""Converts rendered conversations to ids and masks.

A conversation is encoded as one text, with the result of transformers' `apply_chat_template`. A token could
span the begin of a learned range. Both sides are then encoded separately, because at inference the model only
has the text before it. Names of special tokens in the record can be kept from becoming tokens."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

import numpy as np
import tokenizers

from packtrain_tools.chat.mask import Rendered
from packtrain_tools.prepare.loss_weights import mask_byte
from packtrain_tools.prepare.tokenizer import LoadedTokenizer, TokenizerVariants
import itertools

SHOWN = 40  # characters
MOST_SEEN = 64  # characters of a text whose ids are kept
MAX_ROUNDS = 4  # of cutting: pieces that are encoded separately may need further cuts


@dataclass(frozen=True, slots=True)
class Tokens:
    ids: np.ndarray  # int64 [num_tokens]
    bounds: np.ndarray  # int64 [num_tokens, 2]: begin and end, in characters
    added: np.ndarray  # int64, ascending: indices of added tokens
    edges: dict[int, int]  # positions between separately encoded parts: number of tokens before them


class ChatRows:
    def __init__(self, loaded: LoadedTokenizer, variants: TokenizerVariants, control: set[str],
                 special_in_data: str):
        """`control`: tokens that a record's own text must not make. `special_in_data`: token, plain or
        refuse."""
        self._variants = variants
        self._special_in_data = special_in_data
        self._added = _id_table(loaded, {token.content for token in loaded.added_tokens.values()})
        self._control = _id_table(loaded, control)
        self._names = tuple(token.content for token in loaded.added_tokens.values()
                            if token.content in control)
        self._seen: dict[tuple[int, str], list[int]] = {}  # ids of texts before turns

    def row(self, rendered: Rendered, encoding: tokenizers.Encoding,
            counts: Counter) -> tuple[list[int], np.ndarray]:
        """Returns ids and mask bytes. `encoding`: that of the whole text. Raises ValueError."""
        tokens = self._tokens([encoding], [0])
        text = rendered.text
        in_data = self._control_in_data(tokens, rendered)
        literal: list[tuple[int, int]] = []
        if len(in_data):
            literal = self._treat_names(tokens, rendered, in_data, counts)
        cuts: set[int] = {at for stretch in literal for at in stretch}
        if cuts:
            tokens = self._encode_apart(text, cuts, literal)
            if len(self._control_in_data(tokens, rendered)):
                raise ValueError("holds the name of a special token, which this tokenizer cannot "
                                 "encode as plain text (--special-tokens-in-data token or refuse)")
        for _ in range(MAX_ROUNDS):
            across = self._across(tokens, rendered, literal) - cuts
            if not across:
                break
            cuts |= across
            tokens = self._encode_apart(text, cuts, literal)
        return tokens.ids.tolist(), self._mask(tokens, rendered, literal)

    def _control_in_data(self, tokens: Tokens, rendered: Rendered) -> np.ndarray:
        """Indices of control tokens that are completely in the record's own text."""
        found = np.flatnonzero(self._control[tokens.ids])
        if not len(found) or not rendered.data:
            return found[:0]
        begins = [begin for begin, _ in rendered.data]
        inside = []
        for index in found.tolist():
            begin, end = tokens.bounds[index].tolist()
            name = rendered.text[begin:end]
            begin += len(name) - len(name.lstrip())
            end -= len(name) - len(name.rstrip())
            nearest = bisect_right(begins, begin) - 1
            if nearest >= 0 and end <= rendered.data[nearest][1]:
                inside.append(index)
        return np.array(inside, np.int64)

    def _treat_names(self, tokens: Tokens, rendered: Rendered, in_data: np.ndarray,
                     counts: Counter) -> list[tuple[int, int]]:
        """Ranges of text that are encoded as plain text."""
        counts["special_tokens_in_data"] += len(in_data)
        if self._special_in_data == "refuse":
            begin, end = tokens.bounds[in_data[0]]
            raise ValueError(f"holds the special token '{rendered.text[begin:end]}' "
                             "(--special-tokens-in-data plain makes it plain text)")
        if self._special_in_data == "token":
            return []
        others = np.setdiff1d(np.flatnonzero(self._added[tokens.ids]), in_data)
        stretches = set()
        for index in in_data:
            before, after = others[others < index], others[others > index]
            stretches.add((int(tokens.bounds[before[-1], 1]) if len(before) else 0,
                           int(tokens.bounds[after[0], 0]) if len(after) else len(rendered.text)))
        return sorted(stretches)

    def _encode_apart(self, text: str, cuts: set[int], literal: list[tuple[int, int]]) -> Tokens:
        edges = [0, *sorted(cuts - {0, len(text)}), len(text)]
        parts = []
        for begin, end in itertools.pairwise(edges):
            is_literal = any(first <= begin and end <= last for first, last in literal)
            tokenizer = self._variants.after(text[:begin], is_literal)
            parts.append(tokenizer.encode(text[begin:end], add_special_tokens=False))
        return self._tokens(parts, edges[:-1])

    def _tokens(self, parts: list[tokenizers.Encoding], begins: list[int]) -> Tokens:
        """Joins the tokens of parts that begin at these characters."""
        ids = [np.array(part.ids, np.int64) for part in parts]
        bounds = [np.array(part.offsets, np.int64).reshape(-1, 2) + begin
                  for part, begin in zip(parts, begins)]
        numbers = np.cumsum([0, *map(len, ids)]).tolist()
        together = np.concatenate(ids)
        return Tokens(together, np.concatenate(bounds), np.flatnonzero(self._added[together]),
                      dict(zip(begins[1:], numbers[1:])))

    def _across(self, tokens: Tokens, rendered: Rendered, literal: list[tuple[int, int]]) -> set[int]:
        """Two kinds of edges of learned ranges. A token spans the edge with text on both sides; or the
        text before it has other tokens when it is encoded alone."""
        text = rendered.text
        across = set()
        for begin, end, _ in rendered.learned:
            if self._first_learned(tokens, text, begin, literal) is None:
                across.add(begin)
            for index in _straddling(tokens, begin):
                first, last = tokens.bounds[index].tolist()
                swallows = self._added[tokens.ids[index]] and text[first:begin].strip() and \
                    not text[begin:last].strip()
                if not swallows:
                    across.add(begin)
            for index in _straddling(tokens, end):
                if text[end:tokens.bounds[index, 1]].strip():
                    across.add(end)
        return across

    def _first_learned(self, tokens: Tokens, text: str, begin: int,
                       literal: list[tuple[int, int]]) -> int | None:
        """The number of tokens before text[begin:], if they equal the tokens of that text alone, as in the
        prompt. None if they differ: some tokenizers look at the following text."""
        if begin in tokens.edges:
            return tokens.edges[begin]
        added = bisect_right(tokens.added, begin, key=lambda index: tokens.bounds[index, 1]) - 1
        first = int(tokens.added[added]) + 1 if added >= 0 else 0
        start = int(tokens.bounds[first - 1, 1]) if first else 0
        edge = max((edge for edge in tokens.edges if edge <= begin), default=0)
        if edge >= start:
            start, first = edge, tokens.edges.get(edge, 0)
        alone = self._alone(text, start, begin, literal) if start < begin else []
        return first + len(alone) if tokens.ids[first:first + len(alone)].tolist() == alone else None

    def _alone(self, text: str, begin: int, end: int, literal: list[tuple[int, int]]) -> list[int]:
        is_literal = any(first <= begin and end <= last for first, last in literal)
        tokenizer = self._variants.after(text[:begin], is_literal)
        key = (id(tokenizer), text[begin:end])
        ids = self._seen.get(key)
        if ids is None:
            ids = tokenizer.encode(text[begin:end], add_special_tokens=False).ids
            if end - begin <= MOST_SEEN and len(self._seen) < MOST_SEEN ** 2:
                self._seen[key] = ids
        return ids

    def _mask(self, tokens: Tokens, rendered: Rendered, literal: list[tuple[int, int]]) -> np.ndarray:
        """A token that includes white space belongs to the side of its name. Raises ValueError."""
        mask = np.zeros(len(tokens.ids), np.uint8)
        for begin, end, weight in rendered.learned:
            touched = np.flatnonzero((tokens.bounds[:, 0] < end) & (tokens.bounds[:, 1] > begin))
            first = self._first_learned(tokens, rendered.text, begin, literal)
            if first is None:
                first = touched[0] if len(touched) else len(mask)
            last = touched[-1] + 1 if len(touched) else first
            mask[first:last] = mask_byte(weight)
            is_end = last > first and rendered.text.endswith(self._names, begin, end)
            if is_end and not self._added[tokens.ids[last - 1]] and \
                    not any(low < end <= high for low, high in literal):
                raise ValueError(f"the token that ends {rendered.text[begin:end][-SHOWN:]!r} is plain text "
                                 "there, as this tokenizer's flags of that token have it")
        return mask


def _straddling(tokens: Tokens, at: int) -> np.ndarray:
    return np.flatnonzero((tokens.bounds[:, 0] < at) & (tokens.bounds[:, 1] > at))


def _id_table(loaded: LoadedTokenizer, tokens: set[str]) -> np.ndarray:
    """bool [vocab_size]: true for the ids of these tokens."""
    table = np.zeros(loaded.vocab_size, bool)
    ids = [loaded.tokenizer.token_to_id(token) for token in tokens]
    table[[token_id for token_id in ids if token_id is not None]] = True
    return table
