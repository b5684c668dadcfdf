"""Commands in the documents exist: subcommands, options, keys and their values, files."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from commands import PROGRAMS, Command, find_commands, find_keys

REPO = Path(__file__).resolve().parents[2]
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
PAGES = sorted(
    path
    for path in [*REPO.glob("*.md"), *(REPO / "docs").glob("*.md"), *REPO.glob("[a-z]*/**/README.md")]
    if not path.relative_to(REPO).parts[0].startswith(("build", "bundle"))
)
OTHER_SECTIONS = {"sweep"}  # of sweep files


def ask(*command: str) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return outcome.stdout + outcome.stderr


@cache
def subcommands() -> set[str]:
    listed = ask(PROGRAM, "--help").split("Subcommands:\n")[1].split("\n\n")[0]
    return {line.split()[0] for line in listed.splitlines()}


@cache
def options(subcommand: str) -> set[str]:
    said = ask(PROGRAM, subcommand, "--help")
    if subcommand == "compare":
        said += ask(PROGRAM, subcommand, "--plot", "--help")
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", said))


@cache
def run_options() -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", ask(str(REPO / "launch" / "packtrain-run"), "--help")))


@cache
def keys() -> dict[str, list[str]]:
    lines = (line.partition("\t") for line in ask(PROGRAM, "config", "--keys").splitlines())
    return {key: values.split() for key, _, values in lines}


def is_placeholder(word: str) -> bool:
    return re.search(r"[A-Z]{1,}\b|\.\.\.|\$|<", word) is not None


def faults_of_setting(word: str) -> list[str]:
    key, _, value = word.partition("=")
    section = key.split(".")[0]
    if section in OTHER_SECTIONS or key.startswith("model.config.") or key in ("section.key", "key"):
        return []
    if key not in keys():
        return [f"there is no key {key}"]
    choices = keys()[key]
    if choices and value and value not in choices and not is_placeholder(value) and value[0] not in "[{":
        return [f"{key} is none of {choices}: {value}"]
    return []


def faults_of_words(subcommand: str, words: list[str]) -> list[str]:
    faults = []
    for before, word in zip(["", *words], words, strict=False):
        if before == "--vary":  # KEY=A,B,...
            key, _, values = word.partition("=")
            for value in values.split(","):
                faults += faults_of_setting(f"{key}={value}")
        elif re.match(r"--?[a-z]", word):
            option = word.split("=")[0]
            if option not in options(subcommand):
                faults.append(f"{subcommand} has no {option}")
        elif re.match(r"[a-z_]+\.[a-z_.]+=", word):
            faults += faults_of_setting(word)
        elif re.match(r"configs/[\w./-]+\.yaml$", word) and not is_placeholder(word.removesuffix(".yaml")):
            if not (REPO / word).exists():
                faults.append(f"there is no {word}")
    return faults


def faults_of_run(words: list[str]) -> list[str]:
    """packtrain-run's own options come first, then the subcommand, or none for train."""
    faults = []
    takes_value = False
    for i, word in enumerate(words):
        if word.startswith("-"):
            if word.split("=")[0] not in run_options():
                faults.append(f"packtrain-run has no {word}")
            takes_value = "=" not in word and word not in ("--doctor",)
        elif takes_value:
            takes_value = False
        elif word in subcommands():
            return faults + faults_of_words(word, words[i + 1 :])
        else:
            return faults + faults_of_words("train", words[i:])
    return faults


def is_there(script: str) -> bool:
    """As written, in tests/ (the table of faults), or a header and source without their endings."""
    there = (REPO / script).exists() or (REPO / "tests" / script).exists()
    return there or any(REPO.glob(script + ".*"))


def faults_of(command: Command) -> list[str]:
    script, *words = command.words
    if script.startswith(("launch/", "tests/", "benchmarks/", "docs/")) and not is_placeholder(script):
        if not is_there(script):
            return [f"there is no {script}"]
    if command.name not in PROGRAMS or not words:
        return []
    if command.name == "packtrain-run":
        return faults_of_run(words)
    subcommand, *words = words
    if subcommand.startswith("-") or subcommand.endswith(":") or is_placeholder(subcommand):
        return []  # an option of the program, its message, or a word for any subcommand
    if subcommand not in subcommands():
        return [f"there is no subcommand {subcommand}"]
    return faults_of_words(subcommand, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPO)))
def test_commands_on_the_page_exist(page):
    faults = [f"{command.where}: {fault}" for command in find_commands(page) for fault in faults_of(command)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPO)))
def test_the_keys_that_the_page_names_exist(page):
    sections = {key.split(".")[0] for key in keys()}
    faults = [f"{where}: {key}" for where, key in find_keys(page, sections) if key not in keys()]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPO)))
def test_the_links_of_the_page_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPO)))
def test_the_headings_that_the_page_links_to_are_there(page):
    for target, wanted in re.findall(r"\]\(([^)#\s:]*)#([^)]+)\)", page.read_text()):
        linked = (page.parent / target) if target else page
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
        assert wanted in [anchor(heading) for heading in headings], (target, wanted)


def test_commands_are_found():
    found = [command for page in PAGES for command in find_commands(page)]
    assert sum(command.name in PROGRAMS for command in found) > 60
    assert {"prepare", "plan", "verify", "export"} <= {word for command in found for word in command.words}


@pytest.mark.parametrize(
    "typed, fault",
    [
        ("packtrain trian CONFIG", "there is no subcommand trian"),
        ("packtrain plan CONFIG --rank 2", "plan has no --rank"),
        ("launch/packtrain-run -n 2 verify CONFIG --ranks 2", "verify has no --ranks"),
        ("launch/packtrain-run -n N CONFIG run.max_step=1", "there is no key run.max_step"),
        ("build/bin/packtrain train my.yaml batch.strategy=packing", "batch.strategy is none of"),
        ("packtrain train configs/gone.yaml", "there is no configs/gone.yaml"),
        ("launch/gone --flag", "there is no launch/gone"),
    ],
)
def test_what_does_not_exist_is_found(tmp_path, typed, fault):
    page = tmp_path / "page.md"
    for text in (f"```sh\n{typed}\n```\n", f"Type `{typed}` then.\n"):
        page.write_text(text)
        faults = [found for command in find_commands(page) for found in faults_of(command)]
        assert len(faults) == 1 and fault in faults[0], faults
