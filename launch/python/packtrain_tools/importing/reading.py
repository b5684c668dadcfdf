"""Reads a configuration of another trainer: a YAML or JSON file with one mapping of plain values."""

import json
import os

import yaml

from packtrain_tools.errors import DATA, ToolError

MAX_BYTES = 1 << 20
MAX_VALUES = 10_000  # aliases of YAML could make billions of a few lines
PLAIN = (str, int, float, bool, type(None))


class _Loader(yaml.SafeLoader):
    """SafeLoader constructs no Python objects. This one also refuses a key that is there twice."""

    def construct_mapping(self, node, deep=False):
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key '{key.value}' is there twice",
                                                            key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        return super().construct_mapping(node, deep)


def _unique(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' is there twice")
    return values


def _refuse_constant(text: str):
    raise ValueError(f"{text} is no number of JSON")


def _parse(path: str, text: str):
    try:
        if path.endswith(".json"):
            return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        return yaml.load(text, Loader=_Loader)  # a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ToolError(f"{path}{place}: is no plain YAML: {error.problem or error.context}",
                        "Wanted one mapping of plain values, without tags of other languages.", DATA) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] or type(error).__name__
        raise ToolError(f"{path}: cannot be parsed: {reason}", "Wanted a YAML or JSON file.", DATA) from None


def _check_values(path: str, value: object, name: str = "", count: int = 0, depth: int = 0) -> int:
    """Returns the number of values. Refuses kinds of values that no configuration has."""
    if count > MAX_VALUES or depth > 20:
        raise ToolError(f"{path}: holds more than {MAX_VALUES:,} values, or maps in each other 20 deep",
                        "Wanted a configuration.", DATA)
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ToolError(f"{path}: {name or 'a key'}: got the key {str(key)[:60]!r}, wanted a text",
                                exit_code=DATA)
            count = _check_values(path, inner, f"{name}.{key}".lstrip("."), count + 1, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            count = _check_values(path, inner, f"{name}[{index}]", count + 1, depth + 1)
    elif not isinstance(value, PLAIN):
        raise ToolError(f"{path}: {name}: got a value of the kind {type(value).__name__}, wanted text, a number, "
                        "true, false or null", "Put quotes around a text such as a date.", DATA)
    return count


def read_configuration(path: str) -> dict:
    """Raises ToolError (65) for a file that is no mapping of plain values."""
    if os.path.isdir(path):
        raise ToolError(f"{path}: is a folder", "Give the configuration file.", DATA)
    if os.path.getsize(path) > MAX_BYTES:
        raise ToolError(f"{path}: has {os.path.getsize(path):,} bytes, wanted at most {MAX_BYTES:,}",
                        "Give the configuration file.", DATA)
    try:
        with open(path, encoding="utf-8") as stream:
            values = _parse(path, stream.read())
    except UnicodeDecodeError as error:
        raise ToolError(f"{path}: is not UTF-8: {error.reason}", exit_code=DATA) from None
    if not isinstance(values, dict):
        raise ToolError(f"{path}: got {_kind(values)}, wanted a mapping of keys to values", exit_code=DATA)
    _check_values(path, values)
    return values


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), "a single value")
