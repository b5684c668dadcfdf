#!/usr/bin/env python3
"""Draws the pictures of README.md: docs/packing.svg and docs/speed.svg. Speeds are read from the tables of
docs/performance.md, where the commands that measured them stand; nothing else is needed.

    python3 docs/pictures.py            # writes both
"""

import os

HERE = os.path.dirname(os.path.realpath(__file__))
WIDTH = 820

STYLE = """<style>
text { font: 13px sans-serif; fill: #24292f } .small { font-size: 12px } .soft { fill: #57606a }
.head { font-weight: bold; font-size: 14px } .end { text-anchor: end }
.real { fill: #2f6fde; stroke: #fff } .best { fill: #1a7f4b } .pad { fill: #e5534b } .idle { fill: #d0d7de }
.peer { fill: #8c959f } .line { stroke: #8c959f; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } .real { fill: #5b93f5; stroke: #0d1117 } .best { fill: #3fb950 }
  .pad { fill: #f0706a } .idle { fill: #3d444d } .peer { fill: #7d8590 }
}
</style>"""

# One optimizer step of 16 examples, their tokens, in the order in which they come.
LENGTHS = [310, 90, 560, 140, 75, 980, 230, 120, 410, 60, 180, 700, 95, 330, 150, 260]
NUM_RANKS = 2
MICRO_BATCH = 4


class Drawing:
    """SVG elements from top to bottom; `y` is where the next one begins."""

    def __init__(self, title: str) -> None:
        self.parts: list[str] = []
        self.title = title
        self.y = 24.0

    def text(self, x: float, text: str, classes: str = "", dy: float = 0) -> None:
        self.parts.append(f'<text x="{x:g}" y="{self.y + dy:g}" class="{classes}">{text}</text>')

    def bar(self, x: float, width: float, height: float, classes: str) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{self.y:g}" width="{max(width, 0):.1f}" height="{height:g}" class="{classes}"/>'
        )

    def to_svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y:g}" role="img">'
        return "\n".join([head, f"<title>{self.title}</title>", STYLE, *self.parts, "</svg>", ""])


# A lane is what one rank does in a step: (class, tokens) after each other.
Lane = list[tuple[str, int]]


def plain_batches() -> list[list[list[int]]]:
    """[rank][micro-batch] -> lengths, as padding and padding_free take them."""
    step = MICRO_BATCH * NUM_RANKS
    num_micro_batches = len(LENGTHS) // step
    return [
        [LENGTHS[m * step + r * MICRO_BATCH :][:MICRO_BATCH] for m in range(num_micro_batches)]
        for r in range(NUM_RANKS)
    ]


def laid_out(ranks: list[list[list[int]]], padded: bool) -> list[Lane]:
    """Every micro-batch lasts as long as that of the slowest rank."""
    lanes: list[Lane] = [[] for _ in ranks]
    for micro_batches in zip(*ranks, strict=True):
        sizes = [len(lengths) * max(lengths) if padded else sum(lengths) for lengths in micro_batches]
        for lane, lengths, size in zip(lanes, micro_batches, sizes, strict=True):
            for length in lengths:
                lane.append(("real", length))
                if padded and length < max(lengths):
                    lane.append(("pad", max(lengths) - length))
            if size < max(sizes):
                lane.append(("idle", max(sizes) - size))
    return lanes


def balanced() -> list[Lane]:
    """The longest first, each to the rank with the least: tokens stand for cost here."""
    ranks: list[list[int]] = [[] for _ in range(NUM_RANKS)]
    for length in sorted(LENGTHS, reverse=True):
        min(ranks, key=sum).append(length)
    return laid_out([[lengths] for lengths in ranks], padded=False)


def draw_packing() -> str:
    drawing = Drawing("One optimizer step laid over two GPUs by padding, padding_free and balanced")
    drawing.text(0, "One optimizer step: the same 16 examples on 2 GPUs, the same loss in all three", "head")
    kinds = [
        ("padding", laid_out(plain_batches(), padded=True)),
        ("padding_free", laid_out(plain_batches(), padded=False)),
        ("balanced", balanced()),
    ]
    left, right = 118, 92
    longest = max(sum(tokens for _, tokens in lane) for _, lanes in kinds for lane in lanes)
    scale = (WIDTH - left - right) / longest
    for name, lanes in kinds:
        drawing.y += 18
        duration = max(sum(tokens for _, tokens in lane) for lane in lanes)
        drawing.text(0, name, "head", dy=28)
        drawing.text(left + duration * scale + 8, f"{sum(LENGTHS) / (NUM_RANKS * duration):.0%} useful", "small", dy=28)
        for lane in lanes:
            x = float(left)
            for kind, tokens in lane:
                drawing.bar(x, tokens * scale, 20, kind)
                x += tokens * scale
            drawing.y += 24
    drawing.y += 12
    for x, kind, label in ((left, "real", "an example"), (left + 110, "pad", "padding"),
                           (left + 200, "idle", "waiting")):
        drawing.bar(x, 12, 12, kind)
        drawing.text(x + 18, label, "small soft", dy=11)
    drawing.text(WIDTH, "time of the step, in tokens computed →", "small soft end", dy=11)
    drawing.y += 20
    return drawing.to_svg()


def section(text: str, heading: str) -> str:
    _, found, rest = text.partition(f"\n## {heading}\n")
    if not found:
        raise SystemExit(f"docs/performance.md has no section '{heading}'")
    return rest.split("\n## ")[0]


def rows(text: str, *columns: str) -> list[dict[str, str]]:
    """The rows of all tables of `text` that have these columns; an empty first cell repeats the one above."""
    found: list[dict[str, str]] = []
    names: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            names = []
        elif not names:
            names = cells
        elif set(columns) <= set(names) and not cells[0].startswith("---"):
            row = dict(zip(names, cells, strict=True))
            if not row[names[0]] and found:
                row[names[0]] = found[-1][names[0]]
            found.append(row)
    return found


def number(text: str) -> float:
    return float(text.replace(",", "").replace("%", ""))


def bars(drawing: Drawing, entries: list[tuple[str, list[tuple[str, float, str]]]], full: float, left: float) -> None:
    """Groups of bars: (label, [(class, value, what to write after the bar)])."""
    scale = (WIDTH - left - 190) / full
    for label, group in entries:
        drawing.y += 8
        drawing.text(left - 10, label, "end", dy=12 + 8 * (len(group) - 1))
        for kind, value, behind in group:
            drawing.bar(left, value * scale, 15, kind)
            drawing.text(left + value * scale + 8, behind, "small", dy=12)
            drawing.y += 17


def draw_strategies(drawing: Drawing, page: str) -> None:
    table = rows(section(page, "The strategies, Llama-3.2-1B shape on two H200"), "strategy", "tokens/s a GPU")
    drawing.text(0, "Real tokens/s a GPU: Llama-3.2-1B shape, FLAN-like lengths, 64 examples a step, 2 x H200", "head")
    entries: list[tuple[str, list[tuple[str, float, str]]]] = []
    for row in table:
        if row["strategy"] == "multipack":
            continue  # other batches: its loss is another one
        kind = "best" if row["strategy"] == "balanced" else "peer"
        behind = f"{row['tokens/s a GPU']}  ({row['over padding']} x)"
        entries.append((row["strategy"], [(kind, number(row["tokens/s a GPU"]), behind)]))
    bars(drawing, entries, max(group[0][1] for _, group in entries), 130)


def draw_peers(drawing: Drawing, page: str) -> None:
    drawing.y += 34
    drawing.text(0, "Of the speed of a step's matrix products alone: packtrain and the fastest peer, one H200", "head")
    table = rows(section(page, "One GPU, compared with its GEMMs and a peer"), "shape", "ours", "chain", "peer")
    table.sort(key=lambda row: (row["shape"], -number(row["tokens a step"])))
    entries: list[tuple[str, list[tuple[str, float, str]]]] = []
    for row in table:
        if not row["peer"] or row["peer"].startswith("("):
            continue  # not measured in the same run
        chain = number(row["chain"])
        ours, peer = (100 * number(row[side]) / chain for side in ("ours", "peer"))
        label = f"{row['shape']}, {row['tokens a step']} tokens"
        entries.append((label, [("best", ours, f"{ours:.0f} %"), ("peer", peer, f"{peer:.0f} %")]))
    bars(drawing, entries, 100, 270)


def draw_speed() -> str:
    with open(os.path.join(HERE, "performance.md"), encoding="utf-8") as stream:
        page = stream.read()
    drawing = Drawing("Speed of the strategies, and beside the fastest peer")
    draw_strategies(drawing, page)
    draw_peers(drawing, page)
    drawing.y += 16
    for x, kind, label in ((270, "best", "packtrain"), (370, "peer", "transformers, compiled, FlashAttention-2")):
        drawing.bar(x, 12, 12, kind)
        drawing.text(x + 18, label, "small soft", dy=11)
    drawing.y += 22
    return drawing.to_svg()


def draw_all() -> dict[str, str]:
    return {"packing.svg": draw_packing(), "speed.svg": draw_speed()}


if __name__ == "__main__":
    for name, svg in draw_all().items():
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as stream:
            stream.write(svg)
