"""Checks that the program prints the messages that docs/troubleshooting.md quotes, and that it lists all exit codes."""

import re
from functools import cache
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "troubleshooting.md").read_text()
FOLDERS = ["framework", "training", "samplers", "collators", "models", "parallel", "launch"]
# Said by others.
FOREIGN = ["mpirun has detected an attempt to run as root", "There are not enough slots available",
           "Read -1, expected ..., errno = 1", "unhandled system error", "ibv_reg_mr", "Too many open files"]
# What stands for something else in a quoted message: N, FILE, 'lr', 0.001, run.num_epochs, ...
PLACEHOLDER = re.compile(r"'[^']*'|\b[A-Z]+\b|\b\d[\d.]*\b|\b[a-z_]+\.[a-z_.]+\b|\.\.\.|:")


@cache
def printed() -> str:
    """All texts of the sources, adjacent ones as one, without their placeholders."""
    texts = []
    for folder in FOLDERS:
        for path in (REPO / folder).rglob("*.*"):
            if path.suffix not in (".cpp", ".cu", ".h", ".py"):
                continue
            source = re.sub(r'"\s*\n?\s*f?"', "", path.read_text())
            texts += re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    return "\n".join(re.sub(r"\{[^}]*\}", "\0", text) for text in texts)


def quoted() -> list[str]:
    """Returns the quoted messages in the first column of the tables."""
    first_cells = re.findall(r"^\| (.*?) (?<!\\)\|", PAGE, re.MULTILINE)
    quotes = [quote for cell in first_cells for quote in re.findall(r"`([^`]+)`", cell)]
    return [quote for quote in quotes if quote not in FOREIGN]


def pieces(quote: str) -> list[str]:
    parts = (part.strip(" ,;()") for part in PLACEHOLDER.split(quote))
    return [part for part in parts if len(re.findall(r"[A-Za-z]+", part)) >= 3]


def test_quoted_messages_are_printed():
    checked = [(quote, piece) for quote in quoted() for piece in pieces(quote)]
    assert len(checked) > 30
    missing = [f"{piece!r} of `{quote}`" for quote, piece in checked if piece not in printed()]
    assert not missing, "\n".join(missing)


def test_a_message_that_no_code_prints_is_found():
    assert pieces("N ranks were lost in the woods") == ["ranks were lost in the woods"]
    assert "ranks were lost in the woods" not in printed()


def codes_of(page: str) -> set[str]:
    return set(re.findall(r"^\| (\d+|128 \+ n) \|", page, re.MULTILINE))


def test_the_exit_codes_are_those_of_the_program():
    header = (REPO / "framework" / "core" / "error.h").read_text()
    codes = set(re.findall(r"k\w+ = (\d+),", header))
    assert codes <= codes_of(PAGE)
    operations = (REPO / "docs" / "operations.md").read_text()
    assert codes_of(PAGE) | {"0"} == codes_of(operations)
