"""The prose of the repository: sentences of comments, docstrings and Markdown, each with its line."""

import ast
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

C_SUFFIXES = (".h", ".cuh", ".cpp", ".cu")
HASH_SUFFIXES = (".sh", ".cmake", ".yaml", ".yml", ".toml")

# A string, a character or a comment: strings are matched so that "//" in one begins no comment.
_C_TOKEN = re.compile(
    r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.){1,4}\''
    r'|//[^\n]*|/\*(?:.|\n)*?\*/')
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[`\"'(*\[A-Z0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|etc|approx|resp|al|Fig|Eq)\.|\b[A-Z]\.)[)\"'*]*$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")


@dataclass(frozen=True)
class Line:
    number: int
    text: str


@dataclass(frozen=True)
class Sentence:
    text: str
    is_comment: bool  # else Markdown
    starts: tuple[tuple[int, int], ...]  # (offset in text, line number) of each line, in order

    def line_at(self, offset: int) -> int:
        return max(number for start, number in self.starts if start <= offset)

    @property
    def line(self) -> int:
        return self.starts[0][1]

    @property
    def last_line(self) -> int:
        return self.starts[-1][1]


def _without_links(text: str) -> str:
    return _LINK.sub(r'"\1"', text)  # quoted, so that a sentence may begin with it


def sentences_of(lines: list[Line], is_comment: bool) -> Iterator[Sentence]:
    """The sentences of one paragraph."""
    text, starts = "", []
    for line in lines:
        starts.append((len(text), line.number))
        text += _without_links(line.text).strip() + " "
    begin = 0
    for end in [match.end() for match in _SENTENCE_END.finditer(text)] + [len(text)]:
        piece = text[begin:end].rstrip()
        if end < len(text) and _ABBREVIATION.search(piece):
            continue
        if piece.strip():
            first = max(start for start, _ in starts if start <= begin)
            mine = [(max(start - begin, 0), number) for start, number in starts if first <= start < end]
            yield Sentence(piece, is_comment, tuple(mine))
        begin = end


def _paragraphs(lines: list[Line]) -> Iterator[list[Line]]:
    """Comment lines in paragraphs. Empty lines, list items and preformatted lines (indented by four
    or more: commands, formulas, tables) divide them; preformatted lines are left out."""
    paragraph: list[Line] = []
    for line in lines:
        is_item = _LIST_ITEM.match(line.text)
        if line.text.startswith("    ") and not is_item:
            continue
        is_next = paragraph and line.number == paragraph[-1].number + 1
        if not line.text.strip() or is_item or not is_next:
            if paragraph:
                yield paragraph
            paragraph = []
        if line.text.strip():
            text = line.text[is_item.end():] if is_item else line.text
            paragraph.append(Line(line.number, text))
    if paragraph:
        yield paragraph


def _c_comments(text: str) -> Iterator[list[Line]]:
    """Blocks of comment lines; a comment after code is a block of its own."""
    block: list[Line] = []
    for match in _C_TOKEN.finditer(text):
        comment = match[0]
        if not comment.startswith(("//", "/*")):
            continue
        number = text.count("\n", 0, match.start()) + 1
        is_behind_code = text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip() != ""
        lines = [Line(number + i, re.sub(r"^\s*(?:///?<?|/\*+|\*+/?)|\*/$", "", one))
                 for i, one in enumerate(comment.split("\n"))]
        if is_behind_code or not block or number != block[-1].number + 1:
            if block:
                yield block
            block = []
        block += lines
        if is_behind_code:
            yield block
            block = []
    if block:
        yield block


def _hash_comments(text: str) -> Iterator[list[Line]]:
    block: list[Line] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"\s*#(?!!)(.*)", line)
        if match:
            block.append(Line(number, match[1]))
            continue
        if block:
            yield block
            block = []
        behind = re.search(r"(?<=[^\s#])\s{1,}#\s(.*)", line)
        if behind and line[:behind.start()].count('"') % 2 == 0 == line[:behind.start()].count("'") % 2:
            yield [Line(number, behind[1])]
    if block:
        yield block


def _docstrings(text: str) -> Iterator[list[Line]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            if isinstance(first.value.value, str):
                indent = " " * first.col_offset
                yield [Line(first.lineno + i, line.removeprefix(indent))
                       for i, line in enumerate(first.value.value.split("\n"))]


def _markdown(text: str) -> Iterator[Sentence]:
    paragraph: list[Line] = []
    in_code = False

    def flush() -> Iterator[Sentence]:
        yield from sentences_of(paragraph, is_comment=False)
        paragraph.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            yield from flush()
        elif in_code or (line.startswith("    ") and not paragraph) or re.match(r"\s*<", line):
            yield from flush()
        elif line.startswith("|"):
            yield from flush()
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                yield from sentences_of([Line(number, cell)], is_comment=False)
        elif line.startswith("#") or not line.strip():
            yield from flush()
            if line.strip():
                yield from sentences_of([Line(number, line.lstrip("# "))], is_comment=False)
        else:
            item = _LIST_ITEM.match(line)
            if item:
                yield from flush()
            paragraph.append(Line(number, line[item.end():] if item else line))
    yield from flush()


def prose_of(path: pathlib.Path) -> list[Sentence]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        return list(_markdown(text))
    if path.suffix in C_SUFFIXES:
        blocks = list(_c_comments(text))
    else:
        blocks = list(_hash_comments(text))
        if path.suffix == ".py" or text.startswith("#!/usr/bin/env python"):
            blocks += _docstrings(text)
    return [sentence for block in blocks for paragraph in _paragraphs(block)
            for sentence in sentences_of(paragraph, is_comment=True)]
