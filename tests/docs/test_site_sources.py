"""Tests the sources of the site: the list of public headers, their comments, the check of links."""

import sys
from pathlib import Path

from site_pages import dead_links, pages_of

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "docs" / "site"))

import public_headers  # noqa: E402  # the path is set above


def test_each_public_header_exists_and_has_a_section_of_the_api_reference():
    pages = "".join(path.read_text() for path in (REPO / "docs" / "api").glob("*.md"))
    wrong = [name for name in public_headers.names() if not (REPO / name).is_file() or f"\n## {name}\n" not in pages]
    assert wrong == []


def test_public_headers_differ_in_their_last_names():
    # Breathe finds a header by its last name alone.
    names = [Path(name).name for name in public_headers.names()]
    assert len(set(names)) == len(names)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#end">b</a><a href="#top">t</a>')
    (tmp_path / "b.html").write_text('<a href="c.html">c</a><a href="a.html#no">a</a>')
    assert dead_links(tmp_path, pages_of(tmp_path)) == ["a.html: b.html#end", "b.html: c.html", "b.html: a.html#no"]


def test_comments_become_those_of_doxygen_and_private_parts_go():
    text = "// Of the file.\nclass A {\n public:\n  int f();  // `x` < 1\n            // more\n private:\n  int x_;\n};\n"
    assert public_headers.with_doxygen_comments(text, "a/b.h").splitlines() == [
        "/// @file a/b.h", "/// Of the file.", "class A {", " public:", "  int f();  ///< <tt>x</tt> \\< 1",
        "            ///< more", "};"]
