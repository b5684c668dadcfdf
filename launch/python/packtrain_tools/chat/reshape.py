"""Changes to whole conversations on request: adds a default system prompt, or merges system prompts into
the user's turn for models without that role."""

from dataclasses import dataclass, replace

from packtrain_tools.chat.content import text_of
from packtrain_tools.chat.conversations import SYSTEM_ROLES, Conversation


@dataclass(frozen=True, slots=True)
class Reshaping:
    system: str = ""
    merge_system: bool = False

    def of(self, conversation: Conversation) -> Conversation:
        """Raises ValueError."""
        if self.system:
            conversation = with_default_system(conversation, self.system)
        return with_system_merged(conversation) if self.merge_system else conversation


def with_default_system(conversation: Conversation, system: str) -> Conversation:
    """Adds the default prompt to a conversation without a system prompt."""
    if any(message["role"] in SYSTEM_ROLES for message in conversation.messages):
        return conversation
    weight = 0.0 if conversation.asked[:1] == [0.0] else None  # as the prompt that it stands before
    return replace(conversation, messages=[{"role": "system", "content": system},
                                           *conversation.messages],
                   asked=[weight, *conversation.asked])


def with_system_merged(conversation: Conversation) -> Conversation:
    """Merges the leading system prompts into the beginning of the first user's turn. Raises ValueError
    where there is no such turn."""
    messages, asked = conversation.messages, conversation.asked
    number = next((i for i, message in enumerate(messages)
                   if message["role"] not in SYSTEM_ROLES), len(messages))
    if number == 0:
        return conversation
    if any(asked[:number]):
        raise ValueError("a system prompt that is to be learned cannot be merged into the user's "
                         "turn")
    if all(message["role"] != "user" for message in messages):
        raise ValueError("has a system prompt, and no turn of the user to merge it into")
    system = "\n\n".join(text_of(message.get("content")) for message in messages[:number])
    merged = replace(conversation, messages=messages[number:], asked=asked[number:], merged_system=system)
    return begun_with_system(merged)


def begun_with_system(conversation: Conversation) -> Conversation:
    """Puts the merged system prompts before the text of the first user's turn, if there is one."""
    messages = list(conversation.messages)
    user = next((i for i, message in enumerate(messages) if message["role"] == "user"), None)
    if user is not None:
        messages[user] = {**messages[user],
                          "content": _after(conversation.merged_system, messages[user].get("content"))}
    return replace(conversation, messages=messages)


def _after(system: str, content: str | list[dict] | None) -> str | list[dict]:
    if isinstance(content, list):
        return [{"type": "text", "text": f"{system}\n\n{text_of(content[:1])}"}, *content[1:]]
    return f"{system}\n\n{content or ''}"
