"""docs/serve.md says of each server whether it was tried, and of each key of adapters what servers make of it."""

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "serve.md").read_text()
KEYS = (REPO / "tests" / "framework" / "config" / "config_keys.txt").read_text()
# They leave a plain adapter plain: names, first values, and what is only for training.
PLAIN = {"adapter.kind", "adapter.name", "adapter.path", "adapter.alpha", "adapter.dropout"}


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].strip()


def rows(text: str) -> list[list[str]]:
    """The cells of the first table's rows, without its heading."""
    lines = text[text.index("| ") :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def servers() -> list[tuple[str, str, bool]]:
    """(name, version, whether it was tried)"""
    found = []
    for first, *_, tried in rows(PAGE):
        name, version = re.fullmatch(r"\[(.+?)\]\(#\w+\) (.+)", first).groups()
        found.append((name, version, not tried.startswith("not tried")))
    return found


def test_each_key_of_adapters_has_a_row_of_what_servers_do():
    keys = {line.split()[0] for line in KEYS.splitlines() if line.startswith("adapter.")}
    named = set(re.findall(r"`(adapter\.\w+)", "\n".join(first for first, *_ in rows(section("Which adapters")))))
    assert keys, "config_keys.txt has no key of adapters"
    assert named == keys - PLAIN


def test_each_server_has_a_version_and_a_section():
    assert {name for name, _, _ in servers()} == {"transformers", "vLLM", "llama.cpp", "SGLang", "Ollama"}
    for name, version, _ in servers():
        assert re.search(r"\d", version) and section(name), name


def test_a_server_that_was_not_tried_says_so_first_and_links_to_its_documents():
    for name, version, was_tried in servers():
        text = section(name)
        assert text.startswith("Not tried here: ") != was_tried, name
        assert was_tried or ("https://" in text and version.split()[0] in text), name
