"""The site of the documents: it builds without a warning, its links lead somewhere, its API reference is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from site_pages import dead_links, pages_of

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "docs" / "site"))

import public_headers  # noqa: E402  # the path is set above

DECLARED = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: : [^;{]*)?\s*\{", re.MULTILINE)


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
