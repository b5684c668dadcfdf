"""The site of the documents: it builds without a warning, its links lead somewhere, its API reference is complete."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "docs" / "site"))

import public_headers  # noqa: E402  # the path is set above

DECLARED = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: : [^;{]*)?\s*\{", re.MULTILINE)


class Page(HTMLParser):
    """`targets`: what it links to or shows; `anchors`: what can be linked to; `names`: what it documents."""

    def __init__(self, path: Path):
        super().__init__()
        self.targets, self.anchors, self.names, self.headings = [], set(), set(), []
        self._into = None
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        self.targets += [values[key] for key in ("href", "src") if values.get(key)]
        if tag in ("h1", "h2"):
            self.headings.append("")
            self._into = self.headings
        elif "sig-name" in (values.get("class") or ""):
            self._into = self.names

    def handle_data(self, data):
        if self._into is self.names:
            self.names.add(data)
            self._into = None
        elif self._into is self.headings:
            self.headings[-1] += data

    def handle_endtag(self, tag):
        if tag in ("h1", "h2"):
            self._into = None


def pages_of(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def dead_links(site: Path, pages: dict[Path, Page]) -> list[str]:
    dead = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = linked.is_file() and (not parts.fragment or linked not in pages
                                          or unquote(parts.fragment) in pages[linked].anchors)
            if not there:
                dead.append(f"{path.relative_to(site)}: {target}")
    return dead


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run([REPO / "docs" / "build", folder], capture_output=True, text=True, timeout=500)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return pages_of(site)


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(site, pages):
    assert len(pages) > 40
    assert dead_links(site, pages) == []


def test_every_public_header_has_a_section_of_the_api_reference(site, pages):
    headings = [heading.rstrip("¶") for path, page in pages.items() if path.parent.name == "api"
                for heading in page.headings]
    assert [name for name in public_headers.names() if headings.count(name) != 1] == []


def test_every_type_of_a_public_header_is_in_the_api_reference(pages):
    documented = set().union(*(page.names for path, page in pages.items() if path.parent.name == "api"))
    for name in public_headers.names():
        declared = set(DECLARED.findall((REPO / name).read_text()))
        assert declared <= documented, (name, declared - documented)


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
