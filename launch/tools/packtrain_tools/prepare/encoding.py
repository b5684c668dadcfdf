"""Records to ids and masks, with the tokenizer of a Hugging Face folder."""

import json
import os
from dataclasses import dataclass

import numpy as np
import tokenizers

from packtrain_tools.chat.mask import ChatMask, Rendered
from packtrain_tools.chat.template import special_tokens
from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.examples import Examples, make_examples
from packtrain_tools.sources.formats import (BadRecord, Document, FileFormat, Instruction, Text,
                                     decode)
from packtrain_tools.sources.readers import Chunk, Record

MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    examples: Examples
    bad: list[tuple[Record, BadRecord]]
    num_records: int
    num_skipped: int  # documents with nothing to predict
    num_read_bytes: int  # of all files, up to this chunk


class Encoder:
    """The tokenizer of a Hugging Face folder (tokenizer.json, tokenizer_config.json), and the chat
    template that conversations are rendered with."""

    def __init__(self, folder: str):
        path = os.path.join(folder, "tokenizer.json")
        if not os.path.isfile(path):
            raise ToolError(f"{folder}: has no tokenizer.json",
                            "Give a Hugging Face folder with a fast tokenizer, or train one with "
                            "launch/tools/train_tokenizer.py.", CONFIG)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the library raises bare Exception
            raise ToolError(f"{path}: is no tokenizer: {error}", exit_code=CONFIG) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocab_size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        self.settings = _tokenizer_settings(folder)
        self._suffix = self._token_ids("eos_token", folder)
        self._prefix = self._token_ids("bos_token", folder)
        # A beginning-of-text token only where the tokenizer itself puts one.
        if self._tokenizer.encode("").ids[:1] != self._prefix:
            self._prefix = []
        self._formats: dict[str, FileFormat] = {}
        self._chat: ChatMask | None = None
        self._instructions_as_chat = False

    def set_formats(self, formats: dict[str, FileFormat]):
        """By the paths of files."""
        self._formats = formats

    def set_chat(self, chat: ChatMask | None, instructions_as_chat: bool):
        self._chat = chat
        self._instructions_as_chat = instructions_as_chat

    def special_tokens(self) -> list[str]:
        tokens = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()
                  if token.special]
        return tokens + [token for token in special_tokens(self.settings).values()
                         if token not in tokens]

    def _token_ids(self, key: str, folder: str) -> list[int]:
        token = special_tokens(self.settings).get(key)
        if token is None:
            return []
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ToolError(f"{folder}: {key} is '{token}', which tokenizer.json does not know",
                            exit_code=CONFIG)
        return [token_id]

    def encode(self, chunk: Chunk) -> EncodedChunk:
        records = chunk.records()
        documents, num_skipped, bad = self._documents(records)
        texts = [part for _, document in documents if isinstance(document, Text)
                 for part in (document.prompt or "", document.text)]
        chats = [document.text for _, document in documents if isinstance(document, Rendered)]
        encode = self._tokenizer.encode_batch_fast
        encoded_texts = iter(encode(texts, add_special_tokens=False))
        encoded_chats = iter(self._tokenizer.encode_batch(chats, add_special_tokens=False))
        ids, masks, sources = [], [], []
        for number, document in documents:
            record = records[number]
            if isinstance(document, Text):
                # Prompt and completion are encoded apart: no token lies across their boundary.
                row, mask = self._text_row(document, next(encoded_texts).ids,
                                           next(encoded_texts).ids)
            else:
                encoding = next(encoded_chats)
                try:
                    row, mask = encoding.ids, learned_tokens(document, encoding.offsets)
                except ValueError as fault:
                    bad[number] = BadRecord(str(fault), record.line)
                    continue
            if len(row) > MAX_LENGTH:
                raise ToolError(f"{record.file.place(record.line)}: the document has {len(row)} "
                                f"tokens, wanted at most {MAX_LENGTH}")
            if not mask[1:].any():
                num_skipped += 1
                continue
            ids.append(row)
            masks.append(mask)
            sources.append(record.file.source)
        return EncodedChunk(make_examples(ids, masks, sources),
                            [(records[number], bad[number]) for number in sorted(bad)],
                            len(records), num_skipped, chunk.num_read_bytes)

    def _documents(self, records: list[Record]) \
            -> tuple[list[tuple[int, Text | Rendered]], int, dict[int, BadRecord]]:
        """Each with the number of its record, how many have nothing to learn, and bad records."""
        documents: list[tuple[int, Text | Rendered]] = []
        num_skipped = 0
        bad: dict[int, BadRecord] = {}
        for number, record in enumerate(records):
            try:
                found = self._render(decode(record, self._formats[record.file.path]))
            except BadRecord as fault:
                bad[number] = fault
            except ValueError as fault:
                bad[number] = BadRecord(str(fault), record.line)
            else:
                documents += [(number, document) for document in found]
                num_skipped += not found
        return documents, num_skipped, bad

    def _render(self, document: Document) -> list[Text | Rendered]:
        if isinstance(document, Instruction):
            document = document.as_conversation() if self._instructions_as_chat \
                else document.as_text()
        if isinstance(document, Conversation):
            if self._chat is None:
                raise ValueError("is a conversation, and there is no chat template")
            return self._chat.render(document)
        return [document] if document.prompt is not None or document.text.strip() else []

    def _text_row(self, text: Text, prompt: list[int],
                  learned: list[int]) -> tuple[list[int], np.ndarray]:
        ids = self._prefix + prompt + learned + self._suffix
        mask = np.ones(len(ids), np.uint8)
        if text.prompt is not None:
            mask[:len(self._prefix) + len(prompt)] = 0
        return ids, mask


def learned_tokens(rendered: Rendered, offsets: list[tuple[int, int]]) -> np.ndarray:
    """uint8 [num_tokens]: tokens inside what is learned. One that lies across its boundary is
    learned where only white space is outside; else ValueError, for no mask would be right."""
    bounds = np.array(offsets, np.int64).reshape(-1, 2)
    mask = np.zeros(len(bounds), np.uint8)
    for begin, end in rendered.learned:
        touched = (bounds[:, 0] < end) & (bounds[:, 1] > begin)
        mask[touched] = 1
        for first, last in bounds[touched & ((bounds[:, 0] < begin) | (bounds[:, 1] > end))]:
            if (rendered.text[first:begin] + rendered.text[end:last]).strip():
                raise ValueError(f"the token '{rendered.text[first:last]}' lies across the "
                                 "boundary of what is learned")
    return mask


def _tokenizer_settings(folder: str) -> dict:
    path = os.path.join(folder, "tokenizer_config.json")
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            settings = json.load(stream)
    except ValueError as error:
        raise ToolError(f"{path}: is no valid JSON: {error}", exit_code=CONFIG) from None
    if not isinstance(settings, dict):
        raise ToolError(f"{path}: is no JSON object", exit_code=CONFIG)
    return settings
