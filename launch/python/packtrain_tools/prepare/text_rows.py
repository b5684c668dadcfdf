"""Converts texts, and prompts with completions, to ids and masks."""

from collections import Counter

import numpy as np
import tokenizers

from packtrain_tools.chat.thoughts import fault_of_thought
from packtrain_tools.chat.turn_ends import either
from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.loss_weights import mask_byte
from packtrain_tools.prepare.tokenizer import LoadedTokenizer, TokenizerVariants
from packtrain_tools.sources.formats import Text


class TextRows:
    def __init__(self, loaded: LoadedTokenizer, variants: TokenizerVariants, control: set[str],
                 special_in_data: str, end_token: str | None, folder: str):
        """`control`: tokens that end texts, or that texts must not make. `end_token`: appended to each
        text, None for none."""
        self._variants = variants
        self._special_in_data = special_in_data
        self._plain = special_in_data == "plain"
        tokenizer = loaded.tokenizer
        self._end = end_token or ""
        self._suffix = [] if end_token is None else [_id_of(loaded, end_token, folder)]
        bos = loaded.named.get("bos_token")
        if bos is not None:
            _id_of(loaded, bos, folder)
        self._prefix = _ids_before_texts(tokenizer)
        names = [tokenizer.id_to_token(token) for token in self._prefix]
        self._begin = "".join(names)
        self._ends = tuple(control - {bos, *names}) + ((end_token,) if end_token else ())
        self._names = either(list(control))
        self._control = {tokenizer.token_to_id(token) for token in control} - {None}

    def encode(self, texts: list[Text], counts: Counter) \
            -> list[tuple[list[int], np.ndarray] | ValueError]:
        """Returns ids and mask bytes of each, or its error. A completion is encoded separately from its
        prompt, which is all that the model has at inference. The tokenizer must not add a space."""
        pieces = [piece for text in texts for piece in self._pieces(text)]
        prompts = self._encoded([(before, text.prompt or "") for before, text in pieces])
        learned = self._encoded([(before + (text.prompt or ""), text.text) for before, text in pieces])
        rows: list[tuple[list[int], np.ndarray] | ValueError] = []
        number = 0
        for each in texts:
            try:
                rows.append(_joined([self._row(*pieces[i], prompts[i], learned[i], counts)
                                     for i in range(number, number + len(each.earlier) + 1)]))
            except ValueError as fault:
                rows.append(fault)
            number += len(each.earlier) + 1
        return rows

    def _pieces(self, text: Text) -> list[tuple[str, Text]]:
        """What stands right before a prompt, and the prompt with its answer. There are several if earlier answers
        are learned."""
        pieces = [Text(prompt, answer, text.group, text.weight) for prompt, answer in text.earlier]
        pieces.append(text)
        before = ["", *((piece.prompt or "") + piece.text + self._end for piece in pieces[:-1])]
        return list(zip(before, pieces))

    def _encoded(self, texts: list[tuple[str, str]]) -> list[list[int]]:
        """The ids of each text, which follows another one."""
        found: list[list[int]] = [[]] * len(texts)
        after = [self._variants.after(before, self._plain) for before, _ in texts]
        for tokenizer in {id(each): each for each in after}.values():
            chosen = [i for i, each in enumerate(after) if each is tokenizer]
            encoded = tokenizer.encode_batch_fast([texts[i][1] for i in chosen], add_special_tokens=False)
            for i, encoding in zip(chosen, encoded):
                found[i] = encoding.ids
        return found

    def _row(self, before: str, text: Text, prompt: list[int], learned: list[int],
             counts: Counter) -> tuple[list[int], np.ndarray]:
        prefix, suffix = [] if before else self._prefix, self._suffix
        has_prompt = text.prompt is not None
        if prefix and not self._plain and (text.prompt or text.text).startswith(self._begin):
            prefix = []
            counts["begun_already"] += 1
        ended = not self._plain and text.text.rstrip().endswith(self._ends) if self._ends else False
        if ended and suffix:
            suffix = []
            counts["ended_already"] += 1
        begun = 0 if prefix or before else sum(token in self._control for token in self._prefix)
        self._check_names(text, prompt, learned, begun, ended, counts)
        ids = prefix + prompt + learned + suffix
        mask = np.full(len(ids), mask_byte(text.weight), np.uint8)
        if has_prompt:
            mask[:len(prefix) + len(prompt)] = 0
            if ended:
                mask[len(ids) - self._num_after_end(learned):] = 0
            said = text.text.strip()
            said = said.removesuffix(next(filter(said.endswith, self._ends), "")) if ended else said
            fault = fault_of_thought(said) if said.strip() else "empty_answers"
            if fault:
                counts[fault] += 1
        return ids, mask

    def _num_after_end(self, learned: list[int]) -> int:
        """Number of tokens after the last control token: white space, which a model that has stopped never
        writes."""
        return next((i for i, token in enumerate(reversed(learned)) if token in self._control), 0)

    def _check_names(self, text: Text, prompt: list[int], learned: list[int], begun: int,
                     ended: bool, counts: Counter):
        """`begun`: number of control tokens that begin the text, as the tokenizer's own would."""
        if self._plain:
            said = f"{text.prompt or ''}\0{text.text}"
            counts["special_tokens_in_data"] += sum(1 for _ in self._names.finditer(said))
        if self._control.isdisjoint(prompt) and self._control.isdisjoint(learned):
            return
        found = sum(token in self._control for token in prompt + learned) - begun - ended
        if self._plain:
            raise ValueError("holds the name of a special token, which this tokenizer cannot encode "
                             "as plain text (--special-tokens-in-data token or refuse)")
        if found <= 0:
            return
        counts["special_tokens_in_data"] += found
        if self._special_in_data == "refuse":
            raise ValueError("holds names of special tokens (--special-tokens-in-data plain makes "
                             "them plain text)")


def _joined(rows: list[tuple[list[int], np.ndarray]]) -> tuple[list[int], np.ndarray]:
    if len(rows) == 1:
        return rows[0]
    return [token for ids, _ in rows for token in ids], np.concatenate([mask for _, mask in rows])


def _ids_before_texts(tokenizer: tokenizers.Tokenizer) -> list[int]:
    """The tokens that the tokenizer itself puts before each text: one, several ([gMASK]<sop>) or none."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    at = next((i for i in range(len(whole)) if whole[i:i + len(bare)] == bare), 0)
    return whole[:at]


def _id_of(loaded: LoadedTokenizer, token: str, folder: str) -> int:
    token_id = loaded.tokenizer.token_to_id(token)
    if token_id is None:
        raise ToolError(f"{folder}: the tokenizer does not know the token '{token}'",
                        exit_code=CONFIG)
    return token_id
