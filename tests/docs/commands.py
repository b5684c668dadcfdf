"""Finds commands in Markdown: lines of code blocks, and code within sentences that begins with a command."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = {"", "sh", "bash"}
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PROGRAMS = {"packtrain", "packtrain-run"}
# A word of a script of ours, wherever it lies.
SCRIPT = re.compile(r"^(launch|tests|benchmarks|docs)/[\w./-]+$")


@dataclass
class Command:
    where: str
    words: list[str]  # the program or script first

    @property
    def name(self) -> str:
        return self.words[0].rsplit("/", 1)[-1]


def words_of(line: str) -> list[str]:
    """Words without comments; [...] and what surrounds an alternative is only notation."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []
    return [word.strip("[]") for word in words]


def commands_in(line: str, where: str) -> list[Command]:
    found = []
    for part in re.split(r"&&|\|\||[;|()]|\bdo\b| : ", line):
        words = words_of(part)
        for i, word in enumerate(words):
            if word.rsplit("/", 1)[-1] in PROGRAMS or SCRIPT.match(word):
                found.append(Command(where, words[i:]))
                break
    return found


def find_commands(path: Path) -> list[Command]:
    text = path.read_text()
    found = []
    for block in FENCE.finditer(text):
        if block.group(1) not in SHELL:
            continue
        first = text[: block.start(2)].count("\n") + 1
        for number, line in enumerate(block.group(2).replace("\\\n", "  ").splitlines()):
            found += commands_in(line, f"{path.name}:{first + number}")
    prose = FENCE.sub(lambda block: "\n" * block.group(0).count("\n"), text)
    for code in INLINE.finditer(prose):
        words = words_of(code.group(1))
        if words and (words[0].rsplit("/", 1)[-1] in PROGRAMS or SCRIPT.match(words[0])):
            found += commands_in(code.group(1), f"{path.name}:{prose[:code.start()].count(chr(10)) + 1}")
    return found


def find_keys(path: Path, sections: set[str]) -> list[tuple[str, str]]:
    """(where, "section.key") of what is written as a key within sentences: not names of files."""
    pattern = re.compile(rf"^({'|'.join(sorted(sections))})\.([a-z_]+)(?=$|[:=,\s])")
    files = {"jsonl", "json", "yaml", "md", "h", "cpp", "py", "html", "safetensors", "csv", "svg"}
    text = path.read_text()
    found = []
    for code in INLINE.finditer(FENCE.sub(lambda block: "\n" * block.group(0).count("\n"), text)):
        match = pattern.match(code.group(1))
        if match and match.group(2) not in files:
            found.append((f"{path.name}: {code.group(0)}", match.group(0)))
    return found
