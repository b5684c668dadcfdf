"""Pictures of examples and time: a step's ranks and micro-batches, lengths, and a step's seconds."""

from html import escape

from packtrain_tools.report_charts import short, text

WIDTH = 840
NARROW = 420
LABEL = 62
ROW_HEIGHT, ROW_GAP = 22, 6
MOST_RANKS = 16  # number that is drawn
MOST_PIECES = 160  # of a micro-batch; beyond it neighbours are drawn together


def _pieces(micro_batch: list[list[int]]) -> list[tuple[int, str]]:
    """(tokens, description). Neighbours are merged where there are too many to distinguish."""
    size = -(-len(micro_batch) // MOST_PIECES)
    if size <= 1:
        return [(length, f"example {example}: {length} tokens"
                 + (f" from {begin}" if begin else "")) for example, begin, length in micro_batch]
    groups = [micro_batch[k:k + size] for k in range(0, len(micro_batch), size)]
    return [(sum(piece[2] for piece in group), f"{len(group)} pieces") for group in groups]


def _bar(x: float, y: float, width: float, name: str, title: str) -> str:
    return (f'<rect class="{name}" x="{x:.2f}" y="{y}" width="{max(width, 0.3):.2f}" '
            f'height="{ROW_HEIGHT}"><title>{escape(title)}</title></rect>')


def _micro_batch(pieces: list[list[int]], rows: int, each_to: int, x: float, y: float,
                 scale: float) -> list[str]:
    """`each_to`: the length to which every piece is padded; 0 without padding."""
    parts = []
    filled = 0

    def add(length: int, name: str, what: str):
        nonlocal filled
        if length > 0:
            parts.append(_bar(x + filled * scale, y, length * scale, name, what))
            filled += length

    for k, (tokens, what) in enumerate(_pieces(pieces)):
        add(tokens, f"piece{k % 2}", what)
        add(each_to - tokens, "pad", f"padding: {each_to - tokens} rows")
    add(rows - filled, "pad", f"padding: {rows - filled} rows")
    return parts


def packing(step: dict, pad_to_longest: bool) -> str:
    """One row for each rank, with its micro-batches one after another. Each micro-batch has the width of
    the widest rank's: where a bar ends before the frame, the rank waits. `step`: from `packtrain plan
    --json`."""
    ranks, rows = step["ranks"][:MOST_RANKS], step["rows"][:MOST_RANKS]
    widths = [max(column) for column in zip(*step["rows"])]
    gap = 6
    scale = (WIDTH - LABEL - gap * len(widths)) / max(1, sum(widths))
    begins = [LABEL + sum(widths[:m]) * scale + gap * m for m in range(len(widths))]
    height = (ROW_HEIGHT + ROW_GAP) * len(ranks) + ROW_GAP
    parts = [f'<svg class="packing" viewBox="0 0 {WIDTH} {height}" role="img" '
             f'aria-label="Packing of step {step["step"] + 1}">']
    for m, width in enumerate(widths):
        parts.append(f'<rect class="frame" x="{begins[m]:.2f}" y="1" width="{width * scale:.2f}" '
                     f'height="{height - 2}"/>')
    for r, micro_batches in enumerate(ranks):
        y = ROW_GAP + r * (ROW_HEIGHT + ROW_GAP)
        parts.append(text(LABEL - 8, y + 16, f"rank {r}", "end"))
        for m, pieces in enumerate(micro_batches):
            longest = max((length for *_, length in pieces), default=0)
            parts += _micro_batch(pieces, rows[r][m], longest if pad_to_longest else 0, begins[m],
                                  y, scale)
    return "".join(parts) + "</svg>"


def packing_words(step: dict) -> str:
    num_rows = sum(map(sum, step["rows"]))
    tokens = sum(piece[2] for rank in step["ranks"] for pieces in rank for piece in pieces)
    widths = [max(column) for column in zip(*step["rows"])]
    slots = sum(widths) * len(step["rows"])
    num_ranks, num_micro_batches = len(step["ranks"]), len(widths)
    words = (f"Step {step['step'] + 1}: {tokens:,} tokens on {num_ranks} "
             f"rank{'s' * (num_ranks != 1)} in {num_micro_batches} "
             f"micro-batch{'es' * (num_micro_batches != 1)}; padding "
             f"{1 - tokens / max(1, num_rows):.1%} of the rows")
    if num_ranks > 1:
        words += f", {1 - num_rows / max(1, slots):.1%} of the frame empty"
    if num_ranks > MOST_RANKS:
        words += f"; the first {MOST_RANKS} ranks are shown"
    return words + "."


def lengths(bins: list[dict]) -> str:
    """Two bars for each bin: its share of all examples and of all tokens."""
    num_examples = max(1, sum(b["num_examples"] for b in bins))
    num_tokens = max(1, sum(b["num_tokens"] for b in bins))
    height, left, bottom = 250, 40, 46
    step = (NARROW - left - 6) / len(bins)
    shares = [(b["num_examples"] / num_examples, b["num_tokens"] / num_tokens) for b in bins]
    scale = (height - bottom - 24) / max(max(pair) for pair in shares)
    parts = [f'<svg viewBox="0 0 {NARROW} {height}" role="img" aria-label="Lengths of examples">']
    for k, (b, pair) in enumerate(zip(bins, shares)):
        x = left + k * step
        for j, share in enumerate(pair):
            tall = share * scale
            what = f"{b['num_examples']:,} examples, {b['num_tokens']:,} tokens"
            parts.append(f'<rect class="bar{j}" x="{x + (0.1 + 0.4 * j) * step:.1f}" '
                         f'y="{height - bottom - tall:.1f}" width="{0.38 * step:.1f}" '
                         f'height="{tall:.1f}"><title>{escape(what)}</title></rect>')
        parts.append(text(x + step / 2, height - bottom + 15, short(b["min_tokens"])))
    for share in (0, max(max(pair) for pair in shares)):
        y = height - bottom - share * scale
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{NARROW - 6}"/>')
        parts.append(text(left - 5, y + 4, f"{share:.0%}", "end"))
    parts.append(text((left + NARROW) / 2, height - 12, "tokens an example (from; up to twice as many)"))
    return "".join(parts) + "</svg>"


# Seconds of a step, by field. The rest is computing, and everything that is not measured.
WAITS = (("gather_wait_s", "waiting for weights", "--c1"),
         ("reduce_wait_s", "waiting for gradients", "--c3"),
         ("data_wait_s", "waiting for data", "--c4"),
         ("checkpoint_wait_s", "waiting for a save", "--c7"))
COMPUTING = ("computing and the rest", "--c2")


def time_shares(steps: list[dict]) -> list[tuple[str, str, float]]:
    """(name, colour, share of all steps' time)"""
    seconds = sum(step["step_time_s"] for step in steps)
    shares = [(name, colour, min(1.0, sum(step.get(key, 0) for step in steps) / seconds))
              for key, name, colour in WAITS]
    return [(*COMPUTING, max(0.0, 1 - sum(share for *_, share in shares))), *shares]


def time_bar(steps: list[dict], label: str) -> str:
    parts = [f'<svg viewBox="0 0 {WIDTH} {ROW_HEIGHT}" role="img" aria-label="Time of {escape(label)}">']
    x = 0.0
    for name, colour, share in time_shares(steps):
        if share > 0:
            parts.append(f'<rect x="{x:.2f}" y="0" width="{share * WIDTH:.2f}" '
                         f'height="{ROW_HEIGHT}" style="fill: var({colour})">'
                         f"<title>{escape(name)}: {share:.2%}</title></rect>")
        x += share * WIDTH
    return "".join(parts) + "</svg>"


STYLE = """
.piece0 { fill: var(--c0); } .piece1 { fill: var(--c2); } .pad { fill: var(--bad); }
.frame { fill: var(--panel); stroke: var(--line); }
.bar0 { fill: var(--c0); } .bar1 { fill: var(--c1); }
.swatch { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 5px; }
.pictures { overflow-x: auto; } .pictures svg { min-width: 700px; }
"""
