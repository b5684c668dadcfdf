#!/usr/bin/env python3
"""Counts data members and public functions of each class, and finds the classes above the limits.

    class_sizes.py [ROOT]          prints the classes above a limit
    class_sizes.py --all [ROOT]    prints every class, the largest first

A class is what is declared with `class`; a struct is a record and is not counted. Constructors,
destructors, assignments, deleted functions and static members do not count.
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

MAX_MEMBERS, MAX_FUNCTIONS = 15, 20
FOLDERS = ("framework", "samplers", "collators", "models", "parallel", "training", "launch")

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"(?<!\w)(?<!enum )class\s+(\w+)[^;{}()]*\{")
ACCESS = re.compile(r"^(?:(public|protected|private)\s*:\s*)")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|static|struct|class|enum|union)\b")


@dataclass
class ClassSize:
    file: str
    name: str
    members: int = 0
    functions: int = 0  # public ones

    def is_large(self) -> bool:
        return self.members > MAX_MEMBERS or self.functions > MAX_FUNCTIONS

    def __str__(self) -> str:
        return f"{self.file} {self.name} {self.members} {self.functions}"


def end_of_block(text: str, begin: int) -> int:
    """The position after the brace that closes the one at `begin`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    raise ValueError("a brace is not closed")


def statements(body: str) -> Iterator[str]:
    """The declarations of a class, each with its body replaced by {}."""
    text, at = "", 0
    while at < len(body):
        if body[at] == "{":
            at = end_of_block(body, at)
            text += "{}"
            following = body[at:].lstrip()[:1]
            # The body of a function ends its statement; an initializer does not.
            if "(" in text and not following.startswith((";", ",", "{", ")")):
                yield text
                text = ""
            continue
        if body[at] == ";":
            yield text
            text = ""
        else:
            text += body[at]
        at += 1


def measure(file: str, name: str, body: str) -> ClassSize:
    size, access = ClassSize(file, name), "private"
    for statement in statements(body):
        text = statement.strip()
        while label := ACCESS.match(text):
            access, text = label[1], text[label.end():]
        text = re.sub(r"\[\[.*?\]\]\s*", "", text)
        while (shorter := TEMPLATE_ARGUMENTS.sub("", text)) != text:
            text = shorter
        text = re.sub(r"^template\s*", "", text).strip()
        if not text or NO_MEMBER.match(text) and not (text.startswith("static ") and "(" in text):
            continue
        declared = re.split(r"[={]", text)[0] if "operator" not in text else text
        if "(" not in declared:
            size.members += 1
        elif access == "public" and not re.search(rf"(^|[\s~]){name}\s*\(|operator=\s*\(|=\s*delete", text):
            size.functions += 1
    return size


def class_sizes(root: pathlib.Path) -> list[ClassSize]:
    sizes = []
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*"))
             if file.suffix in (".h", ".cuh", ".cpp", ".cu")]
    for file in files:
        text = NOISE.sub(" ", file.read_text(encoding="utf-8"))
        for match in CLASS.finditer(text):
            if text[:match.start()].rstrip().endswith(("<", ",")):
                continue  # a parameter of a template
            end = end_of_block(text, match.end() - 1)
            sizes.append(measure(str(file.relative_to(root)), match[1], text[match.end():end - 1]))
    return sizes


def find_faults(root: pathlib.Path) -> list[str]:
    """The classes above a limit."""
    return [f"{size}: more than {MAX_MEMBERS} members or {MAX_FUNCTIONS} public functions"
            for size in class_sizes(root) if size.is_large()]


def main():
    arguments = [one for one in sys.argv[1:] if one != "--all"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    sizes = sorted(class_sizes(root), key=lambda size: (-size.members, -size.functions))
    for size in sizes:
        if "--all" in sys.argv or size.is_large():
            print(size)


if __name__ == "__main__":
    main()
