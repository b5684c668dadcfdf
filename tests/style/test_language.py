"""The language of comments and documents gets no worse; and the check that says so can fail."""

import pathlib
import re
import subprocess
import time

import language
import pytest
from fragments import is_fragment

REPO = pathlib.Path(__file__).resolve().parents[2]
GLOSSARY = """# Glossary

## Words to avoid

| avoid | write |
|---|---|
| puts off, put off | defer |
| anew | again |
| room, rooms | folder |
| at once | immediately |

## After it

| late | x |
"""


@pytest.fixture
def tree(tmp_path):
    """Writes a file of a small repository; returns its root."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return tmp_path

    write("docs/glossary.md", GLOSSARY)
    write("tests/style/language_baseline.txt", "")
    return write


def kinds(root, file):
    return [(one.line, one.kind) for one in language.find(root, [file])]


def test_this_repository_keeps_to_its_baseline():
    begin = time.process_time()
    assert language.compare(REPO) == []
    assert time.process_time() - begin < 30


def test_the_glossary_defines_each_term_once():
    text = (REPO / language.GLOSSARY).read_text(encoding="utf-8").partition(language.AVOID_TITLE)[0]
    terms = re.findall(r"^\| (?!term|---)(.+?) \|", text, re.MULTILINE)
    assert len(terms) >= 80
    assert len(terms) == len({term.lower() for term in terms})


def test_the_glossary_names_only_files_that_exist():
    text = (REPO / language.GLOSSARY).read_text(encoding="utf-8").partition(language.AVOID_TITLE)[0]
    paths = re.findall(r"\| `([\w./-]+)` \|$", text, re.MULTILINE)
    assert len(paths) >= 80
    assert [path for path in paths if not (REPO / path).exists()] == []


@pytest.mark.parametrize(("file", "text", "line"), [
    ("models/a.h", "// First line.\n// The layer puts off its gradients.\nint a;\n", 2),
    ("models/a.cu", "int a;  // read anew\n", 1),
    ("models/a.cuh", "/* All rooms.\n */\n", 1),
    ("samplers/a.cpp", 'const char* a = "//";\n// Makes it anew.\n', 2),
    ("launch/a.py", '"""Reads.\n\nReads it anew.\n"""\n', 3),
    ("launch/a.py", "a = 1  # made anew\n", 1),
    ("launch/start", "#!/bin/bash\n# Starts anew.\n", 2),
    ("configs/a.yaml", "# Read anew.\na: 1\n", 1),
    ("framework/CMakeLists.txt", "# Made anew.\n", 1),
    ("README.md", "# packtrain\n\nMade\nanew.\n", 4),
    ("docs/a.md", "One. See [a\nb](c.md) and `d` made anew.\n", 2),
    ("docs/a.md", "| a | made anew |\n", 1),
    ("docs/a.md", "- one\n- made anew\n", 2),
])
def test_a_word_to_avoid_is_found_with_its_line(tree, file, text, line):
    root = tree(file, text)
    [found] = language.find(root, [file])
    assert (found.line, found.kind) == (line, "word")
    assert str(found).startswith(f"{file}:{line}: word: ")


def test_a_finding_has_the_advice_of_the_glossary(tree):
    root = tree("models/a.h", "// The layer puts off its gradients.\n")
    assert '"puts off": defer' in str(language.find(root)[0])


@pytest.mark.parametrize(("file", "text"), [
    ("models/a.cpp", 'log("made anew");\n'),
    ("models/a.cpp", "int anew = 1;\n"),
    ("models/a.h", "// Calls `anew` and room_index and rooms.h.\n"),
    ("docs/a.md", "```\nmade anew\n```\n"),
    ("docs/a.md", "| late | x |\n"),
    ("docs/glossary.md", GLOSSARY),
    ("docs/a.txt", "anew\n"),
    ("configs/a.yaml", 'a: "anew # anew"\n'),
])
def test_code_strings_and_names_are_not_read(tree, file, text):
    assert language.find(tree(file, text), [file]) == []


@pytest.mark.parametrize("text", [
    "TEST(Table, IsReadAnew) {\n", "TEST_F(Table, StopsAtOnce) {\n", "def test_it_is_read_anew(tmp_path):\n"])
def test_a_word_to_avoid_in_the_name_of_a_test_is_found(tree, text):
    file = "tests/a_test.cpp" if text.startswith("TEST") else "tests/test_a.py"
    assert kinds(tree(file, f"\n{text}"), file) == [(2, "name")]


def test_the_name_of_a_test_is_divided_at_capitals(tree):
    assert kinds(tree("tests/a_test.cpp", "TEST(Run, StartsANewRun) {\n"), "tests/a_test.cpp") == []


@pytest.mark.parametrize("text", [
    "Of a norm without weights: ones that are not trained.",
    "With minus infinity beyond the vocabulary.",
    "Until only the last commits may still be in flight.",
    "Whether d y is in memory on a GPU.",
    "What the contamination detector changes.",
    "Of a shard, optional.",
    "Of one GPU.",
])
def test_a_sentence_without_a_main_verb_is_a_fragment(text):
    assert is_fragment(text)


@pytest.mark.parametrize("text", [
    "With two ranks each sends half.",
    "Of those that have it, each is kept.",
    "Until then the file is incomplete.",
    "Whether a rank waits depends on the plan.",
    "What a rank sends is what its peer reads.",
    "With ZeRO 2, all weights stay gathered.",
    "Without a GPU the test is left out.",
    "What is the cost?",
    "The weights of one GPU.",
    "Of course it ends.",
    "Without weights: ones.",
])
def test_a_whole_sentence_is_no_fragment(text):
    assert not is_fragment(text)


def test_only_sentences_of_more_than_25_words_are_long(tree):
    words = " ".join(["word"] * 24)
    assert kinds(tree("models/a.h", f"// A {words}.\n"), "models/a.h") == []
    assert kinds(tree("models/a.h", f"// A {words}\n// more.\n"), "models/a.h") == [(1, "length")]


def test_code_in_backticks_is_one_word(tree):
    assert kinds(tree("docs/a.md", f"Calls `{'a ' * 30}` once.\n"), "docs/a.md") == []


def test_paragraphs_and_preformatted_lines_divide_sentences(tree):
    words = " ".join(["word"] * 15)
    text = f"// {words}\n//\n// {words}\n//    {words} {words}\n"
    assert kinds(tree("models/a.h", text), "models/a.h") == []


def test_a_folders_rising_count_fails_and_names_the_sentence(tree):
    root = tree("models/ops/a.h", "// Made anew.\n")
    tree("tests/style/language_baseline.txt", "models/ops word 1\n")
    assert language.compare(root) == []
    tree("models/ops/b.h", "// Made anew.\n")
    messages = language.compare(root)
    assert messages[0].startswith("models/ops: word: 2 findings, the baseline allows 1")
    assert any("models/ops/b.h:1: word" in message for message in messages)


def test_a_failed_check_names_new_sentences_only(tree):
    root = tree("models/ops/a.h", "// Made anew.\n")
    tree("tests/style/language_baseline.txt", "models/ops word 1\n")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "First"], check=True)
    tree("models/ops/a.h", "// Made anew.\n\n// This is a sentence\n// made anew.\n")
    tree("models/ops/b.h", "// Made anew.\n")
    assert [message.split(": ")[0].strip() for message in language.compare(root)[1:]] == [
        "models/ops/a.h:4", "models/ops/b.h:1"]


def test_a_new_folder_has_no_findings_to_spare(tree):
    tree("tests/style/language_baseline.txt", "models/ops word 1\n")
    root = tree("training/a/a.h", "// Made anew.\n")
    assert any(message.startswith("training/a: word: 1") for message in language.compare(root))


def test_a_fallen_count_asks_for_a_lower_baseline(tree):
    root = tree("tests/style/language_baseline.txt", "models/ops word 1\n")
    [message] = language.compare(root)
    assert message.startswith("models/ops: word: 0 findings, the baseline still allows 1: run")
    assert language.write(root) == []
    assert language.compare(root) == []
    assert language.read_baseline(root) == {}


def test_the_baseline_moves_between_folders_but_its_sum_never_rises(tree):
    tree("tests/style/language_baseline.txt", "models/ops word 1\n")
    root = tree("training/a/a.h", "// Made anew.\n")
    assert language.write(root) == []
    assert language.read_baseline(root) == {("training/a", "word"): 1}
    tree("training/a/b.h", "// Made anew.\n")
    [refusal] = language.write(root)
    assert refusal.startswith("word: 2 findings, the baseline allows 1")
    assert language.read_baseline(root) == {("training/a", "word"): 1}
