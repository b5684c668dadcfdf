"""Counts texts that were probably damaged before they came here."""

import re
from collections import Counter
from collections.abc import Iterator

from packtrain_tools.chat.content import text_of
from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.sources.documents import Document, Instruction, Preference, Rollouts, Text

_REPLACED = "\ufffd"  # decoders put it in the place of bytes that are no text
_MISSING = {"nan", "NaN", "None", "null", "NULL", "<NA>"}  # what programs write for a missing value
# Where trainers of pictures, films and sounds put them.
_PLACEHOLDER = re.compile(r"<(image|video|audio)>|<\|(image|image_pad|video_pad|audio|audio_bos|vision_start)\|>|"
                          r"<start_of_image>|\[IMG\]")


def note_odd_texts(document: Document, counts: Counter):
    """Counts a record with replaced characters or places of pictures, and answers that are only the name of a
    missing value."""
    texts = list(_texts_of(document))
    if any(_PLACEHOLDER.search(text) for text, _ in texts):
        counts["media_placeholders"] += 1
    if any(_REPLACED in text for text, _ in texts):
        counts["replaced_characters"] += 1
    missing = sum(may_miss and text.strip() in _MISSING for text, may_miss in texts)
    if missing:
        counts["missing_values"] += missing


def _texts_of(document: Document) -> Iterator[tuple[str, bool]]:
    """Each text, and whether it is an answer, or an input that may be empty."""
    if isinstance(document, Text):
        yield document.prompt or "", False
        yield document.text, document.prompt is not None
    elif isinstance(document, Instruction):
        yield from ((document.system, True), (document.prompt, False), (document.input, True), (document.output, True))
        yield from ((text, True) for turn in document.history for text in turn)
    elif isinstance(document, Conversation):
        for message in document.messages:
            yield text_of(message.get("content")), message["role"] in ("assistant", "system")
            yield message.get("reasoning_content", ""), message["role"] == "assistant"
    elif isinstance(document, Preference):
        for _, member in document.members:
            yield from _texts_of(member)
    elif isinstance(document, Rollouts):
        yield from ()  # what a policy wrote is learned as it is
