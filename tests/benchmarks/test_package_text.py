"""benchmarks/results/package_text.py and english_prose.py: prose from the files of Debian's packages."""

import gzip
import io
import json
import os
import subprocess
import sys

from folders import ROOT

RESULTS = os.path.join(ROOT, "benchmarks", "results")
sys.path.insert(0, RESULTS)
import package_text  # noqa: E402
from english_prose import paragraphs  # noqa: E402

FIRST = "This is the first paragraph of the manual, and it has all the words that are wanted of it."
SECOND = "Another paragraph says what the program does when it is given the name of a file that is not there."
PAGE = f"""<html><head><title>Not of the text that is to be kept in any of the files</title></head><body>
<p class="x">{FIRST.replace("manual", "<b>manual</b>").replace("and", "and&#32;")}</p>
<pre>int this_is_code(int the, int a); // with all the words that are wanted, and more of them to be had</pre>
<ul><li>{SECOND}<ul><li>Too short.</li></ul></li></ul></body></html>"""
MANUAL = f""".TH NAME 1
.SH DESCRIPTION
.B This
is the \\fIfirst\\fR paragraph of the manual, and it has all the words that are wanted of it.
.PP
{SECOND}
"""


def test_web_pages_and_manual_pages_become_paragraphs():
    assert paragraphs("usr/share/doc/a/index.html", PAGE.encode()) == [FIRST, SECOND]
    assert paragraphs("usr/share/man/man1/a.1", MANUAL.encode()) == [FIRST, SECOND]
    assert paragraphs("usr/share/doc/a/README.txt", f"{FIRST}\n\n{SECOND}\n".encode()) == [FIRST, SECOND]


def test_other_files_languages_and_tables_are_left_out():
    assert paragraphs("usr/bin/a", FIRST.encode()) == []
    german = "Dies ist der erste Absatz des Handbuchs, und er hat alle Wörter, die man von ihm erwartet hat."
    table = "the a of to in | 0x12 | 0x13 | 0x14 | the a of to in | 0x15 | 0x16 | the a of to in"
    assert paragraphs("a.txt", f"{german}\n\n{table}".encode()) == []


def test_paragraphs_that_differ_in_numbers_are_kept_once():
    train, validation = io.StringIO(), io.StringIO()
    corpus = package_text.Corpus(train, validation)
    long = [f"{FIRST} Section {letter} of it." * 4 for letter in "abcd"]
    corpus.add("a/1.html", [text + " In 2001." for text in long])
    corpus.add("a/2.html", [text + " In 2002." for text in long])
    [document] = [json.loads(line)["text"] for line in (train.getvalue() + validation.getvalue()).splitlines()]
    assert document.split("\n\n") == [*(text + " In 2001." for text in long[:3]), long[3] + " In 2001.\n"]


def test_versions_of_a_document_are_on_one_side(monkeypatch):
    monkeypatch.setattr(package_text, "VALIDATION", 0.5)
    train, validation = io.StringIO(), io.StringIO()
    corpus = package_text.Corpus(train, validation)
    for document in range(20):
        for version in range(2):
            name = "abcdefghijklmnopqrst"[document]
            corpus.add(f"{name}-{version}.html", [f"{FIRST} {name * 9} {'xy'[version]} {part}" * 3 for part in "vw"])
    sides = [{json.loads(line)["text"].split()[19] for line in side.getvalue().splitlines()}
             for side in (train, validation)]
    assert all(sides) and not sides[0] & sides[1]


def test_documents_are_divided_between_paragraphs():
    documents = list(package_text.divide(["a" * 5000, "b" * 2000, "c" * 2000, "d" * 9000, "e" * 100]))
    assert [len(document) for document in documents] == [7003, 2001, 9001]


def test_a_package_is_read_without_being_unpacked(tmp_path):
    folder = tmp_path / "package"
    (folder / "DEBIAN").mkdir(parents=True)
    (folder / "DEBIAN" / "control").write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: a\n")
    (folder / "usr/share/man/man1").mkdir(parents=True)
    (folder / "usr/share/man/man1/a.1.gz").write_bytes(gzip.compress(MANUAL.encode()))
    (folder / "usr/share/man/man1/b.1.gz").write_bytes(b"not compressed")
    subprocess.run(["dpkg-deb", "--build", folder, tmp_path / "a.deb"], check=True, capture_output=True)
    found = dict(package_text.read_files(str(tmp_path / "a.deb")))
    assert found == {"./usr/share/man/man1/a.1": [FIRST, SECOND], "./usr/share/man/man1/b.1": []}
