#!/usr/bin/env python3
"""Checks the language of comments, docstrings and documents (docs/glossary.md).

    language.py [PATH...]    prints findings below these paths, all without one
    language.py --check      compares counts with the baseline; exit code 1 when one differs
    language.py --write      lowers the baseline to today's counts

There are four kinds of findings. `word` is a word of the table "Words to avoid" of the glossary. `name`
is such a word in the name of a test. `fragment` is a comment sentence that starts with Of, With, Until,
What or Whether and has no main verb. `length` is a sentence of more than 25 words. The baseline holds a
count for each folder and kind. A count never rises.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

from fragments import is_fragment
from prose import C_SUFFIXES, HASH_SUFFIXES, Sentence, prose_of

FOLDERS = ("framework", "samplers", "collators", "models", "parallel", "training", "launch",
           "tests", "benchmarks", "configs", "cmake", "docs", ".ci", ".github")
SUFFIXES = (*C_SUFFIXES, *HASH_SUFFIXES, ".py", ".md")
GLOSSARY = "docs/glossary.md"
AVOID_TITLE = "## Words to avoid"
BASELINE = "tests/style/language_baseline.txt"
MAX_WORDS = 25
MAX_SHOWN = 20  # findings of one folder and kind that a failed check prints
KINDS = ("word", "name", "fragment", "length")
TEST_NAME = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)|^def test_(\w+)\(", re.MULTILINE)

Counts = dict[tuple[str, str], int]  # (folder, kind) -> findings


@dataclass(frozen=True)
class Finding:
    file: str
    line: int
    kind: str
    text: str
    last_line: int  # of the sentence

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text}"


class Words:
    """Words to avoid and what to write instead, from the glossary."""

    def __init__(self, glossary: str):
        self.advice: dict[str, str] = {}
        table = glossary.partition(AVOID_TITLE)[2].partition("\n## ")[0]
        for row in re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE):
            if not row[0].startswith(("avoid", "---")):
                self.advice |= {form.strip(" *`").lower(): row[1] for form in row[0].split(",")}
        forms = sorted(self.advice, key=len, reverse=True)
        self._pattern = re.compile(
            r"(?<![\w/.`-])(?:" + "|".join(re.escape(form) for form in forms) + r")(?![\w/`-]|\.\w)",
            re.IGNORECASE) if forms else None

    def find(self, text: str) -> list[tuple[int, str, str]]:
        """(offset, word as written, advice) of each occurrence; code in backticks is not looked at."""
        prose = re.sub(r"`[^`]*`", lambda code: "`" * len(code[0]), text)
        matches = self._pattern.finditer(prose) if self._pattern else ()
        return [(match.start(), match[0], self.advice[match[0].lower()]) for match in matches]


def _num_words(text: str) -> int:
    text = re.sub(r"`[^`]*`", "code", text)
    return sum(bool(re.search(r"[A-Za-z0-9]", word)) for word in text.split())


def _check(file: str, sentence: Sentence, words: Words) -> list[Finding]:
    def finding(kind: str, text: str, line: int) -> Finding:
        return Finding(file, line, kind, text, sentence.last_line)

    found = [finding("word", f'"{word}": {advice}', sentence.line_at(offset))
             for offset, word, advice in words.find(sentence.text)]
    beginning = " ".join(sentence.text.split()[:8])
    if sentence.is_comment and is_fragment(sentence.text):
        found.append(finding("fragment", f'"{beginning} ...": write subject, verb, object', sentence.line))
    num_words = _num_words(sentence.text)
    if num_words > MAX_WORDS:
        found.append(finding(
            "length", f'{num_words} words in "{beginning} ...": at most {MAX_WORDS}; divide it', sentence.line))
    return found


def _test_names(file: str, text: str, words: Words) -> list[Finding]:
    found = []
    for match in TEST_NAME.finditer(text):
        name = match[2] or match[3]
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", name)
        line = text.count("\n", 0, match.start()) + 1
        found += [Finding(file, line, "name", f'"{word}" in {name}: {advice}', line)
                  for _, word, advice in words.find(spaced)]
    return found


def _files(root: pathlib.Path) -> list[pathlib.Path]:
    paths = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        paths += (root / folder).rglob("*")
    return sorted(path for path in paths if path.is_file() and not path.is_symlink()
                  and "__pycache__" not in path.parts and _is_text(path))


def _is_text(path: pathlib.Path) -> bool:
    if path.suffix in SUFFIXES or path.name == "CMakeLists.txt":
        return True
    if path.suffix:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def find(root: pathlib.Path, paths: list[str] | None = None) -> list[Finding]:
    """All findings, or those of files below `paths` (relative to root)."""
    glossary = root / GLOSSARY
    words = Words(glossary.read_text(encoding="utf-8") if glossary.exists() else "")
    found = []
    for path in _files(root):
        file = str(path.relative_to(root))
        # The glossary quotes the words that it forbids.
        if file == GLOSSARY or (paths and not any(f"{file}/".startswith(f"{one.rstrip('/')}/") for one in paths)):
            continue
        for sentence in prose_of(path):
            found += _check(file, sentence, words)
        if file.startswith("tests/"):
            found += _test_names(file, path.read_text(encoding="utf-8", errors="replace"), words)
    return found


def folder_of(file: str) -> str:
    """The first two folders of a path; "." for files at the root."""
    return "/".join(file.split("/")[:-1][:2]) or "."


def count(found: list[Finding]) -> Counts:
    return collections.Counter((folder_of(one.file), one.kind) for one in found)


def read_baseline(root: pathlib.Path) -> Counts:
    path = root / BASELINE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {(folder, kind): int(number) for folder, kind, number in rows}


def _changed_lines(root: pathlib.Path) -> set[tuple[str, int]]:
    """(file, line) of all lines written since the baseline's last commit, line 0 for a whole new
    file; empty without git."""
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True,
                              check=False, errors="replace")
        return done.stdout if done.returncode == 0 else ""

    base = git("log", "-1", "--format=%H", "--", BASELINE).strip()
    changed = {(file, 0) for file in git("ls-files", "--others", "--exclude-standard").splitlines()}
    file = ""
    for line in git("diff", "-U0", "--no-color", "--no-prefix", base).splitlines() if base else ():
        if line.startswith("+++ "):
            file = line[4:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            changed |= {(file, number) for number in range(first, first + int(hunk[2] or 1))}
    return changed


def compare(root: pathlib.Path) -> list[str]:
    """Messages about counts that differ from the baseline."""
    found, allowed = find(root), read_baseline(root)
    counts = count(found)
    risen = [key for key in counts if counts[key] > allowed.get(key, 0)]
    fallen = [key for key in allowed if counts.get(key, 0) < allowed[key]]
    changed = _changed_lines(root) if risen else set()
    messages = []
    for folder, kind in sorted(risen):
        mine = [one for one in found if (folder_of(one.file), one.kind) == (folder, kind)]
        new = [one for one in mine if (one.file, 0) in changed
               or any((one.file, line) in changed for line in range(one.line, one.last_line + 1))] or mine
        messages.append(f"{folder}: {kind}: {len(mine)} findings, the baseline allows "
                        f"{allowed.get((folder, kind), 0)}: rewrite these sentences ({GLOSSARY}):")
        messages += [f"  {one}" for one in new[:MAX_SHOWN]]
        if len(new) > MAX_SHOWN:
            messages.append(f"  and {len(new) - MAX_SHOWN} more: tests/style/language.py {folder}")
    for key in sorted(fallen):
        messages.append(f"{key[0]}: {key[1]}: {counts.get(key, 0)} findings, the baseline still allows "
                        f"{allowed[key]}: run tests/style/language.py --write")
    return messages


def write(root: pathlib.Path) -> list[str]:
    """Writes today's counts as the baseline. Refuses while a kind has more findings in all than the
    baseline has: files may move between folders, but the sum only falls. Returns the refusals."""
    counts, allowed = count(find(root)), read_baseline(root)

    def total(of: Counts, kind: str) -> int:
        return sum(number for (_, other), number in of.items() if other == kind)

    refusals = [f"{kind}: {total(counts, kind)} findings, the baseline allows {total(allowed, kind)}: "
                "rewrite sentences first (tests/style/language.py --check names them)"
                for kind in KINDS if allowed and total(counts, kind) > total(allowed, kind)]
    if not refusals:
        rows = [f"{folder} {kind} {number}" for (folder, kind), number in sorted(counts.items()) if number]
        head = "# folder, kind, findings: lowered by tests/style/language.py --write"
        (root / BASELINE).write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return refusals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders, from the root of the repository")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.check or arguments.write:
        messages = compare(root) if arguments.check else write(root)
        print("\n".join(messages), end="\n" if messages else "")
        sys.exit(1 if messages else 0)
    for one in find(root, arguments.paths):
        print(one)


if __name__ == "__main__":
    main()
