"""Arguments of calls with a value that JSON does not have are a named bad line."""

import datetime
import decimal

import prepare_program  # noqa: F401  puts packtrain_tools on the path
import pytest

from packtrain_tools.chat.conversations import read_messages


def chat_with(arguments) -> list[dict]:
    call = {"type": "function", "function": {"name": "count", "arguments": arguments}}
    return [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call]}]


@pytest.mark.parametrize("arguments", [
    {"at": datetime.datetime(2024, 1, 1)}, {"cost": decimal.Decimal("1.5")}, {"data": [b"a"]},
    {"n": float("nan")}, {"n": float("inf")}, '{"n": NaN}', '{"n": 1e400}'], ids=str)
def test_a_value_that_json_does_not_have_is_refused(arguments):
    with pytest.raises(ValueError, match=r"turn 2: the arguments of a tool call \('count'\) hold a value that JSON"):
        read_messages(chat_with(arguments))


@pytest.mark.parametrize("arguments", [{"n": 1e300, "of": [None, True, "é"]}, '{"n": 1.50}'], ids=str)
def test_values_of_json_stay_as_they_are(arguments):
    [_, message] = read_messages(chat_with(arguments)).messages
    assert message["tool_calls"][0]["function"]["arguments"] == arguments
