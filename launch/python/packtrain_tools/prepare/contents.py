"""The contents of a record as bytes, which define the group of its examples in any format."""

import json

from packtrain_tools.prepare.examples import group_hash
from packtrain_tools.sources.documents import Preference, Rollouts
from packtrain_tools.sources.formats import Document, Instruction, Text


def group_of(document: Document) -> int:
    """A hash of the --group-by column, or else of all contents of the record. Rendering, tokenizer, date
    and the selection of learned tokens do not change it."""
    if document.group:
        return group_hash(b"g" + document.group.encode(errors="surrogatepass"))
    return group_hash(_said(document).encode(errors="surrogatepass"))


def _said(document: Document) -> str:
    if isinstance(document, Rollouts):
        return f"r{document.prompt}"
    if isinstance(document, Preference):  # pairs of one prompt belong together
        return f"p{document.prompt}"
    if isinstance(document, Text):
        return f"t{''.join(map(''.join, document.earlier))}{document.prompt or ''}\0{document.text}"
    if isinstance(document, Instruction):
        return "i" + "\0".join((document.system, document.prompt, document.input, document.output))
    return "c" + json.dumps([[_message(message) for message in document.messages], document.tools],
                            ensure_ascii=False, sort_keys=True, default=str)


def _message(message: dict) -> list:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    said = [message["role"], content]
    if message.get("reasoning_content"):
        said.append(message["reasoning_content"])
    for call in message.get("tool_calls", ()):
        function = call.get("function", call)
        arguments = function.get("arguments")
        said.append([function.get("name"),
                     json.loads(arguments) if isinstance(arguments, str) else arguments])
    return said
