"""JSON objects in files that may be missing."""

import json
import os

from packtrain_tools.errors import ToolError


def read_object(path: str, exit_code: int) -> dict:
    """Empty where there is no such file. Raises ToolError with the exit code for anything but an object."""
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            values = json.load(stream)
    except ValueError as error:
        raise ToolError(f"{path}: is no valid JSON: {error}", exit_code=exit_code) from None
    if not isinstance(values, dict):
        raise ToolError(f"{path}: is no JSON object", exit_code=exit_code)
    return values
