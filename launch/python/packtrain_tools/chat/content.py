"""The content of a message: text, or a list of parts of which only text is used."""

from packtrain_tools.chat.values import check_text, kind, parsed_if

_TEXT_TYPES = ("text", "input_text", "output_text")
_THOUGHT_TYPES = ("thinking", "reasoning")
_PART_TYPES = (*_TEXT_TYPES, *_THOUGHT_TYPES, "image", "image_url", "input_image", "video", "video_url", "audio",
               "audio_url", "input_audio")


def read_content(value: object, role: str) -> tuple[str | list[dict] | None, str]:
    """Returns the content (None without parts) and the reasoning among its parts. Tables hold lists of parts as JSON
    in a string where other contents are text. Raises ValueError."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = parsed_if(_are_parts, value, "'content'")
    if isinstance(value, str):
        check_text(value, "'content'")
        return value, ""
    if value is None:
        return None, ""
    if not isinstance(value, list):
        raise ValueError(f"'content' is neither text nor a list of parts, but {kind(value)}")
    parts, thoughts = [], []
    for number, part in enumerate(value, start=1):
        thought = _thought(part) if role == "assistant" else None
        if thought is not None:
            thoughts.append(thought)
            continue
        text = _text(part, f"part {number} of the content")
        check_text(text, f"part {number} of the content")
        parts.append({"type": "text", "text": text})
    return parts or None, "\n".join(thoughts)


def _are_parts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and \
        all(isinstance(part, dict) and part.get("type") in _PART_TYPES and len(part) > 1 for part in value)


def text_of(content: str | list[dict] | None) -> str:
    """The text of a content that read_content() returned."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def _thought(part: object) -> str | None:
    if not isinstance(part, dict) or part.get("type") not in _THOUGHT_TYPES:
        return None
    for key in ("thinking", "reasoning", "text", "content"):
        thought = part.get(key)
        if isinstance(thought, str):
            return thought
        if isinstance(thought, list):  # Mistral's form: parts of text inside the part
            return "".join(_text(inner, f"a part of '{key}'") for inner in thought)
    raise ValueError(f"a part of the type '{part['type']}' has no text")


def _text(part: object, name: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise ValueError(f"{name} is {kind(part)}, wanted text")
    form = part.get("type")
    if form is None and "text" not in part:
        keys = ", ".join(f"'{key}'" for key in list(part)[:5]) or "nothing"
        raise ValueError(f"{name} is an object with {keys}, wanted text")
    if form is not None and form not in _TEXT_TYPES:
        shown = f"'{form}'" if isinstance(form, str) else kind(form)
        raise ValueError(f"{name} is of the type {shown}, wanted text")
    if not isinstance(part.get("text"), str):
        raise ValueError(f"{name} has {kind(part.get('text'))} as 'text', wanted a string")
    return part["text"]
