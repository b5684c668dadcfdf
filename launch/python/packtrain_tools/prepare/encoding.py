"""Converts records to ids and masks, with the tokenizer of a Hugging Face folder."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.mask import ChatMask, Rendered
from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.chat_rows import ChatRows
from packtrain_tools.prepare.contents import group_of
from packtrain_tools.prepare.examples import (Examples, GroupColumns, as_groups, begins_of, columns_of_turns,
                                              make_examples)
from packtrain_tools.prepare.lengths import LengthLimits, Shortener, TooLong
from packtrain_tools.prepare.loss_weights import is_rounded
from packtrain_tools.prepare.odd_texts import note_odd_texts
from packtrain_tools.prepare.preference_rows import (GroupRow, PreferenceRows, chosen_of, columns_of_groups,
                                                     with_members_as)
from packtrain_tools.prepare.rollout_rows import RolloutRow, RolloutRows, columns_of_rollouts
from packtrain_tools.prepare.text_rows import TextRows
from packtrain_tools.prepare.tokenizer import TokenizerVariants, load_tokenizer
from packtrain_tools.prepare.whole_rows import WholeRows
from packtrain_tools.sources.documents import Preference, Rollouts
from packtrain_tools.sources.formats import (BadRecord, Document, FileFormat, Instruction, Text,
                                             decode)
from packtrain_tools.sources.readers import Chunk, Record

Row = tuple[list[int], np.ndarray]  # ids and mask bytes


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    examples: Examples
    bad: list[tuple[Record, BadRecord]]
    num_records: int
    num_skipped: int  # documents without a token to predict
    num_read_bytes: int  # of all files, up to this chunk
    counts: dict[str, int] = field(default_factory=dict)  # of unusual events: counts.py


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    end_token: str | None = None  # instead of the tokenizer's own
    no_end_token: bool = False
    special_in_data: str = "token"  # or plain, or refuse
    limits: LengthLimits = LengthLimits()
    only_chosen: bool = False  # of preferences: plain examples of the chosen or desirable answers
    group_turns: bool = False  # the examples of each record are a group
    learns_history: bool = True  # of instructions as text: earlier answers too


@dataclass(slots=True)
class _Batch:
    """The results of a chunk's records: rows by the number of their record, and bad records."""

    documents: list[tuple[int, Document]] = field(default_factory=list)
    bad: dict[int, BadRecord] = field(default_factory=dict)
    rows: list[tuple[int, Row]] = field(default_factory=list)
    groups: dict[int, GroupRow] = field(default_factory=dict)  # the rows of these records are groups
    rollouts: dict[int, list[RolloutRow]] = field(default_factory=dict)  # those of these are rollouts
    num_skipped: int = 0
    counts: Counter = field(default_factory=Counter)


class Encoder:
    """The tokenizer of a Hugging Face folder, and the chat template that renders conversations."""

    def __init__(self, folder: str, options: EncodingOptions = EncodingOptions()):
        self._folder = folder
        self._options = options
        self._loaded = load_tokenizer(folder)
        self.vocab_size = self._loaded.vocab_size
        self.settings = self._loaded.settings
        self._formats: dict[str, FileFormat] = {}
        self._rollout_columns: list[str] = []
        self._chat: ChatMask | None = None
        self._instructions_as_chat = False
        self._make_rows()

    def _make_rows(self):
        loaded, options = self._loaded, self._options
        control = self._control_tokens()
        variants = TokenizerVariants(loaded, control)
        end = options.end_token or loaded.named.get("eos_token")
        self._end_token = None if options.no_end_token else end
        self._texts = TextRows(loaded, variants, control, options.special_in_data, self._end_token,
                               self._folder)
        self._chats = ChatRows(loaded, variants, control, options.special_in_data)

    def _control_tokens(self) -> set[str]:
        """Special tokens except the one for unknown characters, and the token that ends turns."""
        loaded = self._loaded
        named = {token for name, token in loaded.named.items()
                 if name in ("bos_token", "eos_token")}
        unknown = {loaded.named.get("unk_token"), getattr(loaded.tokenizer.model, "unk_token", None)}
        stop = self._chat.stop_token if self._chat else None
        extra = {token for token in (self._options.end_token, stop) if token is not None}
        return (set(loaded.special_tokens) - (unknown - named)) | extra

    def set_formats(self, formats: dict[str, FileFormat]):
        """Formats by the paths of files."""
        self._formats = formats

    def set_rollout_columns(self, names: list[str]):
        """The columns of tokens that every rollout has; empty without rollouts."""
        self._rollout_columns = names

    def set_chat(self, chat: ChatMask | None, instructions_as_chat: bool):
        self._chat = chat
        self._instructions_as_chat = instructions_as_chat
        self._make_rows()

    def check_end_token(self, formats: set[str]):
        """Texts need an end token, so that a model learns to stop."""
        as_text = formats & {"document", "text", "prompt-completion"} or \
            ("instruction" in formats and not self._instructions_as_chat)
        if as_text and self._end_token is None and not self._options.no_end_token:
            raise ToolError(
                f"{self._folder}: names no end-of-text token (eos_token), in tokenizer_config.json, "
                "special_tokens_map.json or by its class, and texts need one",
                "Give it with --end-token TOKEN, or take texts without an end with --no-end-token.",
                CONFIG)

    def special_tokens(self) -> list[str]:
        return self._loaded.special_tokens

    def added_tokens(self) -> list[str]:
        return [token.content for token in self._loaded.added_tokens.values()]

    def named_tokens(self) -> dict[str, str]:
        return self._loaded.named

    @property
    def uses_date(self) -> bool:
        return self._chat is not None and self._chat.uses_date

    def encode(self, chunk: Chunk) -> EncodedChunk:
        records = chunk.records()
        batch = _Batch()
        for number, record in enumerate(records):
            try:
                self._take(batch, number, decode(record, self._formats[record.file.path]))
            except BadRecord as fault:
                batch.bad[number] = fault
            except ValueError as fault:
                batch.bad[number] = BadRecord(str(fault), record.line)
        self._encode_texts(records, batch)
        self._encode_chats(records, batch)
        self._encode_groups(records, batch)
        batch.rows.sort(key=lambda row: row[0])
        return self._examples(records, batch, chunk.num_read_bytes)

    def _take(self, batch: _Batch, number: int, document: Document):
        """Adds the document, or of a preference the chosen member where only that is wanted."""
        note_odd_texts(document, batch.counts)
        if isinstance(document, Preference):
            document = with_members_as(document, self._as_asked)
            if self._options.only_chosen:
                chosen = chosen_of(document)
                if chosen is None:
                    batch.counts["undesirable"] += 1
                    return
                document = chosen
        batch.documents.append((number, self._as_asked(document, self._options.learns_history)))

    def _as_asked(self, document: Document, learns_history: bool = False):
        if not isinstance(document, Instruction):
            return document
        return document.as_asked(self._instructions_as_chat, learns_history)

    def _encode_groups(self, records: list[Record], batch: _Batch):
        """Preferences and rollouts: their answers are neither divided nor shortened."""
        whole = WholeRows(self._loaded.tokenizer, self._texts, self._chats, self._chat,
                          self._end_token is not None or self._options.no_end_token)
        preferences = [(i, each) for i, each in batch.documents if isinstance(each, Preference)]
        rows = PreferenceRows(whole.encode, self._options.limits)
        for (number, document), group in zip(preferences, rows.encode([each for _, each in preferences],
                                                                      batch.counts)):
            if isinstance(group, ValueError):
                batch.bad[number] = BadRecord(str(group), records[number].line)
            elif group is not None:
                batch.groups[number] = group
                for row in group.rows:
                    self._add(batch, number, document, row)
        rollouts = [(i, each) for i, each in batch.documents if isinstance(each, Rollouts)]
        answers = RolloutRows(whole.encode, self.vocab_size, self._options.limits)
        for (number, record), found in zip(rollouts, answers.encode([each for _, each in rollouts], batch.counts)):
            if isinstance(found, ValueError):
                batch.bad[number] = BadRecord(str(found), records[number].line)
                continue
            batch.rollouts[number] = found
            for answer in found:
                self._add(batch, number, record, answer.row)

    def _encode_texts(self, records: list[Record], batch: _Batch):
        texts = []
        for number, document in batch.documents:
            if not isinstance(document, Text):
                continue
            if document.weight == 0 or (document.prompt is None and not document.text.strip()):
                batch.num_skipped += 1
            else:
                texts.append((number, document))
        rows = self._texts.encode([text for _, text in texts], batch.counts)
        for (number, text), row in zip(texts, rows):
            try:
                if isinstance(row, ValueError):
                    raise row
                self._add(batch, number, text, self._options.limits.apply(row, batch.counts))
            except ValueError as fault:
                batch.bad[number] = BadRecord(str(fault), records[number].line)

    def _encode_chats(self, records: list[Record], batch: _Batch):
        chats: list[tuple[int, Conversation, Rendered]] = []
        for number, document in batch.documents:
            if not isinstance(document, Conversation):
                continue
            try:
                chats += [(number, conversation, rendered)
                          for conversation, rendered in self._render(document, batch)]
            except ValueError as fault:
                batch.bad[number] = BadRecord(str(fault), records[number].line)
        encoded = self._loaded.tokenizer.encode_batch(
            [rendered.text for *_, rendered in chats], add_special_tokens=False)
        lengths: dict[int, list[int]] = {}
        for (number, conversation, rendered), encoding in zip(chats, encoded):
            if number in batch.bad:
                continue
            try:
                whole = self._chats.row(rendered, encoding, batch.counts)
                row = self._within_limits(whole, conversation, batch)
            except ValueError as fault:
                batch.bad[number] = BadRecord(str(fault), records[number].line)
                continue
            self._add(batch, number, conversation, row)
            lengths.setdefault(number, []).append(len(row[0]) if row else 0)
        batch.rows = [(number, row) for number, row in batch.rows if number not in batch.bad]
        batch.counts["copied_tokens"] += sum(sum(each) - max(each) for each in lengths.values())

    def _render(self, document: Conversation, batch: _Batch) -> list[tuple[Conversation, Rendered]]:
        if self._chat is None:
            raise ValueError("is a conversation, and there is no chat template")
        divided = self._chat.divided(document, batch.counts)
        rendered = [self._chat.render(conversation, batch.counts) for conversation in divided]
        found = [(conversation, each) for conversation, each in zip(divided, rendered) if each]
        batch.num_skipped += not found
        return found

    def _within_limits(self, row: Row, conversation: Conversation, batch: _Batch) -> Row | None:
        chat, limits = self._chat, self._options.limits
        if chat is None or not limits.shortens(row):
            return limits.apply(row, batch.counts)

        def encoded(shorter: Conversation) -> Row | None:
            rendered = chat.render(shorter)
            if rendered is None:
                return None
            encoding = self._loaded.tokenizer.encode(rendered.text, add_special_tokens=False)
            return self._chats.row(rendered, encoding, Counter())

        try:
            row, num_left_out = Shortener(limits, encoded).shorten(conversation)
        except TooLong as fault:
            raise ValueError(str(fault)) from None
        batch.counts["cut_turns"] += num_left_out
        return limits.apply(row, batch.counts)

    def _add(self, batch: _Batch, number: int, document: Document, row: Row | None):
        """Skips documents without a token to predict: the first token has no predecessor."""
        if row is None:
            return
        if not row[1][1:].any():
            batch.num_skipped += 1
            return
        weights = [document.weight, *(getattr(document, "asked", ()))]
        batch.counts["rounded_weights"] += any(weight is not None and is_rounded(weight)
                                               for weight in weights)
        batch.rows.append((number, row))

    def _members(self, batch: _Batch) -> GroupColumns | None:
        if self._options.group_turns:
            return columns_of_turns(len(batch.rows))
        if self._rollout_columns:
            return columns_of_rollouts(batch.rollouts, self._rollout_columns)
        return columns_of_groups(batch.groups) if batch.groups else None

    def _examples(self, records: list[Record], batch: _Batch, num_read_bytes: int) -> EncodedChunk:
        documents = dict(batch.documents)
        groups = {number: group_of(documents[number]) for number, _ in batch.rows}
        examples = make_examples([row[0] for _, row in batch.rows], [row[1] for _, row in batch.rows],
                                 [records[number].file.source for number, _ in batch.rows],
                                 [groups[number] for number, _ in batch.rows],
                                 self._members(batch))
        if self._options.group_turns:
            examples = as_groups(examples, begins_of([number for number, _ in batch.rows]))
        return EncodedChunk(examples, [(records[number], batch.bad[number])
                                       for number in sorted(batch.bad)], len(records),
                            batch.num_skipped, num_read_bytes, dict(+batch.counts))
