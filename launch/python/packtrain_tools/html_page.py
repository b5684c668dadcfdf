"""Self-contained HTML pages: one style for light and dark, wide and narrow screens. A page loads no other
file."""

from collections.abc import Iterable
from html import escape

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1f23; --soft: #5d6673; --line: #d8dde3;
  --panel: #f6f7f9; --bad: #c62828; --good: #2e7d32;
  --c0: #2f6fbf; --c1: #d9731a; --c2: #2e8b57; --c3: #c44e52; --c4: #7e63b8; --c5: #8c6a4f;
  --c6: #c95fa8; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e4e7eb; --soft: #9aa4b1;
  --line: #343a42; --panel: #1c2026; --bad: #ef6b6b; --good: #6cc070;
  --c0: #6ea8ee; --c1: #f0a04b; --c2: #62c08b; --c3: #ef7f83; --c4: #ab94e0; --c5: #c3a184;
  --c6: #ea93cd; --c7: #a2aab5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 16px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5em; margin: 0.2em 0; } h2 { font-size: 1.2em; margin: 1.6em 0 0.4em; }
h3 { font-size: 1em; margin: 1em 0 0.3em; }
p, li { max-width: 75ch; } .soft { color: var(--soft); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; overflow-wrap: normal; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th { background: var(--panel); font-weight: 600; }
tr:last-child td { border-bottom: 0; } td.text, th.text { text-align: left; }
td.long { white-space: normal; min-width: 220px; overflow-wrap: anywhere; }
tr.best td { font-weight: 600; background: var(--panel); }
th.sortable { cursor: pointer; }
"""

# A click on a column's head sorts by it; a second click reverses the order.
SORT_SCRIPT = """
for (const head of document.querySelectorAll("table.sortable th")) {
  head.classList.add("sortable");
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const [p, q] = [parseFloat(x), parseFloat(y)];
      if (isNaN(p) !== isNaN(q)) return isNaN(p) ? 1 : -1;
      return sign * (isNaN(p) ? x.localeCompare(y) : p - q);
    });
    body.append(...rows);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
"""


def page(title: str, body: Iterable[str], style: str = "", script: str = "") -> str:
    # An empty icon stops browsers from requesting one.
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">', f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{style}</style>", "</head>", "<body>", *body,
        f"<script>{SORT_SCRIPT}{script}</script>", "</body>", "</html>", ""])


def cell(text: str, kind: str = "", value: float | None = None) -> str:
    """`kind`: "text" or "text long"; else a number, sorted by `value`."""
    name = f' class="{kind}"' if kind else ""
    data = "" if value is None else f' data-value="{value:.12g}"'
    return f"<td{name}{data}>{escape(text)}</td>"


def table(heads: list[tuple[str, str]], rows: list[str], sortable: bool = True) -> str:
    """`heads`: (title, kind as of cell()); `rows`: whole <tr> elements."""
    head = "".join(f'<th class="{kind.split()[0]}">{escape(title)}</th>' if kind
                   else f"<th>{escape(title)}</th>" for title, kind in heads)
    name = ' class="sortable"' if sortable else ""
    return (f'<div class="scroll"><table{name}><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>")
