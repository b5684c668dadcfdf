"""Thoughts in tags at the beginning of a content, as reasoning models write them, and answers that were cut off."""

import re

from packtrain_tools.chat.content import text_of

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
REASONS = ("finish_reason", "stop_reason")  # of OpenAI, of Anthropic
_CUT = ("length", "max_tokens", "MAX_TOKENS")
_BEGIN = re.compile(r"\s*<think>")


def without_repeated_thought(message: dict) -> dict:
    """A message whose content begins with the thought that its reasoning is, without it in the content. Raises
    ValueError for another thought."""
    reasoning, content = message.get("reasoning_content"), message.get("content")
    first = (content[0]["text"] if isinstance(content, list) else content) or ""
    thought = _THOUGHT.match(first)
    if not reasoning or thought is None:
        return message
    if thought[1].strip() not in ("", reasoning.strip()):
        raise ValueError("has different reasoning in 'reasoning_content' and in the tags <think> of its content")
    rest = first[thought.end():]
    return {**message, "content": [{**content[0], "text": rest}, *content[1:]] if isinstance(content, list) else rest}


def fault_of_thought(text: str) -> str | None:
    """The name of a count (prepare/counts.py) for an answer that was cut off in its thought, or after it."""
    if not _BEGIN.match(text):
        return None
    thought = _THOUGHT.match(text)
    if thought is None:
        return "open_thoughts"
    return "thoughts_alone" if thought.end() == len(text) else None


def fault_of_message(message: dict) -> str | None:
    """The same for the turn of an assistant, whose reasoning may be next to its content, with why it ended."""
    if any(message.get(key) in _CUT for key in REASONS):
        return "cut_answers"
    text = text_of(message.get("content"))
    if message.get("tool_calls"):
        return "open_thoughts" if fault_of_thought(text) == "open_thoughts" else None
    is_alone = bool(message.get("reasoning_content")) and not text.strip()
    return "thoughts_alone" if is_alone else fault_of_thought(text)
