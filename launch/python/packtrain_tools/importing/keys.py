"""The keys of a configuration that is imported, with checked types."""

import math

from packtrain_tools.errors import CONFIG, ToolError

TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def refusal(keys: "Keys", what: str) -> ToolError:
    """Returns the error for a configuration whose training is not supervised."""
    return ToolError(f"{keys.file}: {what}: only configurations of supervised training are read",
                     "docs/preferences.md has the settings of DPO, KTO, GRPO and their like, and TRL's names of them.",
                     CONFIG)


class Keys:
    """A mapping of the file. `prefix` is the path of the mapping, such as "datasets[0].". A key that is null
    counts as absent."""

    def __init__(self, values: dict, file: str, prefix: str = ""):
        self.values, self.file, self.prefix = values, file, prefix

    def path(self, key: str) -> str:
        return self.prefix + key

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def get(self, key: str):
        return self.values.get(key)

    def fail(self, key: str, wanted: str) -> ToolError:
        return ToolError(f"{self.file}: {self.path(key)}: got {short(self.values.get(key))}, wanted {wanted}",
                         exit_code=CONFIG)

    def number(self, key: str, least: float = 0.0, most: float = math.inf) -> float | int | None:
        """YAML reads `1e-4` as a text; the other trainers take it as a number, too."""
        value = self.get(key)
        if value is None:
            return None
        wanted = f"a number from {least:g}" + ("" if most == math.inf else f" to {most:g}")
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.fail(key, wanted) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(key, wanted)
        if (isinstance(value, int) and abs(value) >= 2**63) or not math.isfinite(value) or not least <= value <= most:
            raise self.fail(key, wanted)
        return value

    def integer(self, key: str, least: int = 0, most: int = 2**31 - 1) -> int | None:
        value = self.number(key, -math.inf)
        if value is None:
            return None
        if value != int(value) or not least <= value <= most:
            raise self.fail(key, f"an integer from {least} to {most}")
        return int(value)

    def flag(self, key: str) -> bool | None:
        value = self.get(key)
        if isinstance(value, str) and value.lower() in TRUE + FALSE:
            return value.lower() in TRUE
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def text(self, key: str) -> str | None:
        value = self.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str) or "\x00" in value:
            raise self.fail(key, "a text")
        return value

    def word(self, key: str) -> str | None:
        """A name. YAML reads the word `no` as false."""
        value = self.get(key)
        return ("yes" if value else "no") if isinstance(value, bool) else self.text(key)

    def texts(self, key: str) -> list[str] | None:
        """A list, or one text with commas."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.fail(key, "a list of texts")
        return value

    def section(self, key: str) -> "Keys":
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fail(key, "a mapping")
        return Keys(value or {}, self.file, f"{self.path(key)}.")

    def sections(self, key: str) -> list["Keys"]:
        value = self.get(key)
        value = [value] if isinstance(value, dict) else value
        if not isinstance(value or [], list) or not all(isinstance(one, dict) for one in value or []):
            raise self.fail(key, "a list of mappings")
        return [Keys(one, self.file, f"{self.path(key)}[{index}].") for index, one in enumerate(value or [])]


def leaves(value: object, name: str = "") -> list[tuple[str, object]]:
    """All paths with their values. Lists of plain values are one value."""
    if isinstance(value, dict) and value:
        prefix = f"{name}." if name else ""
        return [leaf for key, inner in value.items() for leaf in leaves(inner, prefix + key)]
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, f"{name}[{index}]")]
    return [(name, value)] if name else []
