"""A system prompt that is merged into the user's turn stays when a conversation is shortened."""

import prepare_program  # noqa: F401  puts packtrain_tools on the path
import pytest

from packtrain_tools.chat.conversations import Conversation, read_messages
from packtrain_tools.chat.reshape import with_system_merged
from packtrain_tools.prepare.lengths import LengthLimits, Shortener

CHAT = [{"role": "system", "content": "Be brief."}] + [
    {"role": role, "content": f"{role} {number}"} for number in range(3) for role in ("user", "assistant")]


@pytest.mark.parametrize("too_long, most, kept", [("turns", 2, [2]), ("turns", 4, [1, 2]), ("last-turns", 2, [0])])
def test_a_shortened_conversation_begins_with_its_merged_system_prompt(too_long, most, kept):
    tried: list[Conversation] = []

    def encode(conversation: Conversation):
        tried.append(conversation)
        return [0] * len(conversation.messages), None

    limits = LengthLimits(1, most, too_long)
    (row, _), num_left_out = Shortener(limits, encode).shorten(with_system_merged(read_messages(CHAT)))
    [found] = [each for each in tried if len(each.messages) == len(row)]
    told = [message["content"] for message in found.messages if message["role"] == "user"]
    assert told == [f"Be brief.\n\nuser {kept[0]}", *(f"user {number}" for number in kept[1:])]
    assert num_left_out == 6 - len(row)
