"""Rows of answers that are neither divided nor shortened: those of preferences and rollouts."""

import re
from collections import Counter

import tokenizers

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.mask import ChatMask
from packtrain_tools.prepare.chat_rows import ChatRows
from packtrain_tools.prepare.lengths import Row
from packtrain_tools.prepare.text_rows import TextRows
from packtrain_tools.sources.documents import Text

# --train-on is refused for answers that are compared.
_ADVICE = re.compile(r"--train-on each-turn or last learns[^()]*")
_ADVICE_OF_ANSWERS = "an answer of one turn is learned as it is asked for"


class WholeRows:
    def __init__(self, tokenizer: tokenizers.Tokenizer, texts: TextRows, chats: ChatRows, chat: ChatMask | None,
                 ends_texts: bool):
        """`ends_texts`: texts end in a token, or the command takes them without one."""
        self._tokenizer = tokenizer
        self._texts = texts
        self._chats = chats
        self._chat = chat
        self._ends_texts = ends_texts

    def encode(self, documents: list[Text | Conversation], counts: Counter) -> list[Row | ValueError | None]:
        """Returns the row of each, its error, or None where nothing is learned."""
        rows: list[Row | ValueError | None] = [
            self._whole_chat(document, counts) if isinstance(document, Conversation) else None
            for document in documents]
        texts = {i: text for i, text in enumerate(documents) if isinstance(text, Text)}
        found: list = self._texts.encode(list(texts.values()), counts)
        if not self._ends_texts:
            found = [ValueError("is text, and the tokenizer names no end-of-text token (--end-token TOKEN, or "
                                "--no-end-token)")] * len(texts)
        for i, row in zip(texts, found):
            rows[i] = row
        return rows

    def _whole_chat(self, conversation: Conversation, counts: Counter) -> Row | ValueError | None:
        try:
            if self._chat is None:
                raise ValueError("is a conversation, and the tokenizer has no chat template (--chat-template FILE "
                                 "gives one)")
            rendered = self._chat.render(conversation, counts)
            if rendered is None:
                return None
            encoding = self._tokenizer.encode(rendered.text, add_special_tokens=False)
            return self._chats.row(rendered, encoding, counts)
        except ValueError as fault:
            return ValueError(_ADVICE.sub(_ADVICE_OF_ANSWERS, str(fault)))
