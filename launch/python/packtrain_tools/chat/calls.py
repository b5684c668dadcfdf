"""Converts tool calls and tool descriptions of common formats to OpenAI's: {"function": {"name",
"arguments"}}. Arguments stay as in the data: an object, or JSON in a string."""

import json

from packtrain_tools.chat.values import as_list, check_depth, kind, parsed, parsed_if


def read_calls(message: dict) -> list[dict]:
    """Removes `tool_calls`, or OpenAI's older `function_call`, from a message and returns the calls.
    Raises ValueError."""
    calls, older = message.pop("tool_calls", None), message.pop("function_call", None)
    if not calls and not older:
        return []
    if calls and older:
        raise ValueError("has both 'tool_calls' and 'function_call', wanted one of them")
    if older:
        return [_call({"type": "function", "function": older}, 1)]
    if isinstance(calls, str):
        calls = parsed(calls, "'tool_calls'")
        if calls in (None, []):
            return []
    return [_call(call, number)
            for number, call in enumerate(as_list(calls, "tool_calls"), start=1)]


def calls_in_text(value: object) -> list[dict]:
    """Reads ShareGPT's turn of a `function_call`: one or several of {name, arguments} as JSON."""
    if isinstance(value, str):
        value = parsed(value, "the call")
    calls = value if isinstance(value, list) else [value]
    if not calls:
        raise ValueError("the call is an empty list")
    return [_call(call, number) for number, call in enumerate(calls, start=1)]


def message_of_calls(value: object) -> object:
    """Converts a list of {name, arguments}, or one as JSON in a string, to a message with these calls. Any
    other value is returned unchanged. Raises ValueError for calls with a doubled key."""
    found = parsed_if(_is_calls, value, "a list of calls") if isinstance(value, str) else value
    return [{"role": "assistant", "tool_calls": found}] if _is_calls(found) else value


def _is_calls(value: object) -> bool:
    return isinstance(value, list) and bool(value) and \
        all(isinstance(entry, dict) and "name" in entry and "role" not in entry and
            ("arguments" in entry or "parameters" in entry) for entry in value)


def _call(call: object, number: int) -> dict:
    """{"id", ...: as they are, "function": {"name", "arguments"}}."""
    if isinstance(call, str):
        call = parsed(call, f"call {number}")
    if not isinstance(call, dict):
        raise ValueError(f"'tool_calls' holds {kind(call)}, wanted an object")
    call = {key: value for key, value in call.items() if value is not None}
    if "function" not in call or (isinstance(call["function"], str) and "arguments" in call):
        call = _wrapped(call)
    function = call["function"]
    if isinstance(function, str):
        function = parsed(function, f"the function of call {number}")
    if not isinstance(function, dict):
        raise ValueError(f"the function of call {number} is {kind(function)}, wanted an object")
    return {**call, "function": _function(function, number)}


def _wrapped(call: dict) -> dict:
    """Wraps a call without `function`: {"name", "arguments"}."""
    own = ("name", "function", "arguments", "parameters")
    function = {key: value for key, value in call.items() if key in own}
    if "function" in function:
        function["name"] = function.pop("function")
    rest = {key: value for key, value in call.items() if key not in own}
    return {"type": "function", **rest, "function": function}


def _function(function: dict, number: int) -> dict:
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"call {number} has {kind(name)} as the 'name' of its function, wanted a "
                         "string")
    function = dict(function)
    if "arguments" not in function and "parameters" in function:
        function["arguments"] = function.pop("parameters")
    function["arguments"] = _arguments(function.get("arguments"), name)
    return {key: value for key, value in function.items() if value is not None}


def _arguments(value: object, name: str) -> dict | str:
    where = f"the arguments of a tool call ('{name[:80]}')"
    if value is None or value == "":
        return {}
    meant = parsed(value, where) if isinstance(value, str) else value
    if meant is None:
        return {}
    if not isinstance(meant, dict):
        raise ValueError(f"{where} are {kind(meant)}, wanted an object")
    check_depth(meant, where)
    try:
        json.dumps(meant, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} hold a value that JSON does not have: {error} (write it as text or a "
                         "number)") from None
    return value if isinstance(value, str) else meant


def read_tools(tools: object, functions: object = None) -> list[dict] | None:
    """Reads the columns `tools` and `functions` (OpenAI's older form). Raises ValueError."""
    found = _described(tools, "tools")
    older = _described(functions, "functions")
    if found and older:
        raise ValueError("has both 'tools' and 'functions', wanted one of them")
    if older:
        return [{"type": "function", "function": function} for function in older]
    return found or None


def _described(value: object, name: str) -> list[dict]:
    if isinstance(value, str) and value.strip():
        value = parsed(value, f"'{name}'")
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        return []
    if not isinstance(value, list):
        raise ValueError(f"'{name}' is {kind(value)}, wanted a list of objects")
    found = []
    for number, tool in enumerate(value, start=1):
        where = f"entry {number} of '{name}'"
        tool = parsed(tool, where) if isinstance(tool, str) else tool
        if not isinstance(tool, dict):
            raise ValueError(f"{where} is {kind(tool)}, wanted an object")
        found.append(tool)
    return found
