"""The pages of a site of HTML files: what they link to, and what they document."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


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
