"""The converted configuration as YAML, and the list of its keys."""

import json
import shlex

import yaml

from packtrain_tools.importing.conversion import SECTIONS, Carried, Conversion, Left


def to_yaml(c: Conversion) -> str:
    lines: list[str] = []
    for section in SECTIONS:
        if c.settings.get(section):
            lines.append(f"{section}:")
            lines += [f"  {key}: {_in_line(value)}" for key, value in c.settings[section].items()]
    return "\n".join(lines) + "\n"


def _in_line(value: object) -> str:
    """YAML of a value in one line. That of a list of it has brackets around it."""
    text = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, width=1 << 30, allow_unicode=True)
    return text.strip()[1:-1]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _line(one: Carried) -> str:
    target = one.to if one.value == "" else f"{one.to}: {_value(one.value)}"
    return target + (f"  ({one.note})" if one.note else "")


def _carried(c: Conversion) -> list[str]:
    return [f"  {', '.join(one.keys)} -> {_line(one)}" for one in c.carried if one.keys]


def _left(left: list[Left]) -> list[str]:
    """One line for each reason, with all its keys."""
    reasons: dict[str, list[str]] = {}
    for one in left:
        reasons.setdefault(one.reason, []).append(one.key)
    return [f"  {', '.join(keys)}: {reason}" for reason, keys in reasons.items()]


def to_text(c: Conversion, config: str) -> str:
    defaults = [f"  {_line(one)}" for one in c.carried if not one.keys]
    parts = [
        (f"Carried from {c.kind}", _carried(c)),
        (f"Written because the default of {c.kind} may be another than ours", defaults),
        ("Not carried, and it matters", _left([one for one in c.left if one.matters])),
        ("Not carried, and results do not depend on it", _left([one for one in c.left if not one.matters])),
        ("Then", [f"  {shlex.join(words)}" for words in c.commands] +
         [f"  packtrain plan {config} --ranks {c.num_ranks}",
          f"  packtrain-run -n {c.num_ranks} {config}" if c.num_ranks > 1 else f"  packtrain train {config}"])]
    return "\n".join("\n".join([f"{title}:", *lines]) for title, lines in parts if lines) + "\n"


def to_json(c: Conversion) -> str:
    return json.dumps({
        "kind": c.kind, "settings": c.settings,
        "carried": [{"keys": one.keys, "to": one.to, "value": one.value, "note": one.note} for one in c.carried],
        "not_carried": [{"key": one.key, "reason": one.reason, "matters": one.matters} for one in c.left],
        "commands": c.commands})
