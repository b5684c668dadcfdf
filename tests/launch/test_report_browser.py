"""Reports and tables of sweeps in a real browser: nothing is fetched, nothing complains, nothing
sticks out at any width, in light and dark."""

import re

import pytest
from browser import Browser
from test_report import packtrain, report, runs  # noqa: F401  (a fixture)

WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("page")
    report(folder, *runs.values())
    return folder / "report.html"


def colour(browser, place, kind):
    """(red, green, blue) of an element."""
    text = browser.evaluate(f"getComputedStyle(document.querySelector({place!r})).{kind}")
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_is_whole_and_readable(browser, page, tmp_path, width, dark):
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(page, width, dark)
    # The pointer over a chart shows values of both runs.
    x, y = browser.evaluate("(() => { const svg = document.querySelector('svg.chart');"
                            "svg.scrollIntoView(); const box = svg.getBoundingClientRect();"
                            "return [box.x + box.width / 2, box.y + box.height / 2]; })()")
    shown = "document.querySelector('figure output').textContent"
    browser.move_pointer(x, y, until=shown)
    shown = browser.evaluate(shown)
    assert re.fullmatch(r"step \d\npadding: [\d.]+\nbalanced: [\d.]+", shown)
    # A click on a column sorts the table.
    names = ("[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows]"
             ".map(row => row.cells[0].textContent)")
    browser.evaluate("document.querySelector('th').click()")
    assert browser.evaluate(names) == ["balanced", "padding"]
    browser.evaluate("document.querySelector('th').click()")
    assert browser.evaluate(names) == ["padding", "balanced"]

    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    back, front = colour(browser, "body", "backgroundColor"), colour(browser, "body", "color")
    assert (sum(back) < sum(front)) == dark and abs(sum(back) - sum(front)) > 500
    heights = browser.evaluate("[...document.querySelectorAll('svg.chart text')]"
                               ".map(text => text.getBoundingClientRect().height)")
    assert min(heights) > 8  # pixels: can be read
    browser.screenshot(tmp_path / "page.png")
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)
    assert browser.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweeps_table_is_whole(browser, runs, tmp_path, width):  # noqa: F811
    store = runs["balanced"].parents[1] / "store"
    sweep = tmp_path / "s.yaml"
    sweep.write_text(f"sweep: {{configs: {store.parent}/balanced.yaml, output: {tmp_path}/out}}\n"
                     "settings: {run.max_steps: 1}\n"
                     f"product: {{data.train: [{store}, {tmp_path}/nowhere-{'long' * 40}]}}\n")
    packtrain("sweep", sweep, exit_code=65)
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(tmp_path / "out" / "results.html", width, False)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('tbody tr').length") == 2
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)
    assert browser.complaints == []
