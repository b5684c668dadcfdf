"""Sphinx's settings of the site: docs/build. Its source folder is the repository's root, so that the pages of
docs/ and the README.md of folders are one site."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

import public_headers  # noqa: E402  # the path is set above

project = "packtrain"
html_title = "packtrain"
html_theme = "alabaster"
html_theme_options = {"page_width": "1180px", "fixed_sidebar": True, "show_powered_by": False}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
toc_object_entries = False  # members of classes would fill the contents of a page
html_extra_path = ["index.html"]  # leads to the first page
html_copy_source = False
html_show_copyright = False
extensions = ["myst_parser", "breathe"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/api/*.md", "*/README.md", "*/*/README.md"]
exclude_patterns = [".*", "build*", "bundle*", "runs", "stores", "hf", "AGENTS.md"]
# Headings get the anchors that the repository's host gives them.
myst_heading_anchors = 4
# Code blocks may be cut short, which no highlighter reads.
suppress_warnings = ["misc.highlighting_failure"]
breathe_default_project = "packtrain"
breathe_show_include = False

REPOSITORY = "https://github.com/packtrain/packtrain/blob/main/"
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)]*)?\))")


def link_to_repository(app, page: str, source: list[str]) -> None:
    """Links to what is no page of the site (sources, folders) lead to the repository. One that leads nowhere stays
    as it is, and Sphinx refuses it."""
    folder = (ROOT / page).parent

    def moved(link: re.Match) -> str:
        target = (folder / link[2]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return link[0]
        name = str(target.relative_to(ROOT))
        if name.removesuffix(".md") in app.env.found_docs or name.endswith(".svg"):
            return link[0]
        return f"{link[1]}{REPOSITORY}{name}{link[3]}"

    source[0] = LINK.sub(moved, source[0])


def read_headers(app, config) -> None:
    folder = pathlib.Path(app.outdir).parent / "headers"
    config.breathe_projects = {"packtrain": str(public_headers.read_with_doxygen(ROOT, folder))}


def setup(app) -> None:
    app.connect("config-inited", read_headers)
    app.connect("source-read", link_to_repository)
