"""The pictures in docs/ are those that docs/pictures.py draws from the tables of today."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["packing.svg", "speed.svg"])
def test_the_picture_is_drawn_from_the_tables_of_today(pictures, name):
    assert (DOCS / name).read_text() == pictures.draw_all()[name], "run python3 docs/pictures.py"


@pytest.mark.parametrize("name", ["packing.svg", "speed.svg"])
def test_the_picture_stands_alone_in_light_and_dark(name):
    text = (DOCS / name).read_text()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    assert text.count("http") == 1, "nothing is fetched"


def test_the_layouts_of_the_picture_hold_the_same_examples(pictures):
    def examples(lanes):
        return sorted(tokens for lane in lanes for kind, tokens in lane if kind == "real")

    padded = pictures.laid_out(pictures.plain_batches(), padded=True)
    free = pictures.laid_out(pictures.plain_batches(), padded=False)
    for lanes in (padded, free, pictures.balanced()):
        assert examples(lanes) == sorted(pictures.LENGTHS)
        assert len({sum(tokens for _, tokens in lane) for lane in lanes}) == 1, "ranks end together"
