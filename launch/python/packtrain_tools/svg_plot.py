"""Line plots as SVG with only the standard library. They are made on the machine that trained, with any
Python."""

import math
from dataclasses import dataclass, field
from html import escape

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c")
PANEL_WIDTH, PANEL_HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 46  # margins of a panel
LEGEND_HEIGHT = 26


@dataclass
class Series:
    name: str  # series of one name have one colour and one entry in the legend
    points: list[tuple[float, float]]
    markers: bool = False


@dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    series: list[Series] = field(default_factory=list)
    log_x: bool = False  # powers of two


def ticks(low: float, high: float, number: int = 5) -> list[float]:
    """Round numbers from low to high: steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return [low]
    rough = (high - low) / number
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Axis:
    """Maps values of `low..high` to pixels of `begin..end`."""

    def __init__(self, values: list[float], begin: float, end: float, log: bool = False):
        self.log, self.begin, self.end = log, begin, end
        low, high = min(map(self._place, values)), max(map(self._place, values))
        margin = 0.04 * (high - low) or 0.5
        self.low, self.high = low - margin, high + margin

    def _place(self, value: float) -> float:
        return math.log2(value) if self.log else value

    def pixel(self, value: float) -> float:
        share = (self._place(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if not self.log:
            return ticks(self.low, self.high)
        return [2.0**k for k in range(math.ceil(self.low), math.floor(self.high) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _frame(panel: Panel, x_axis: Axis, y_axis: Axis) -> list[str]:
    left, right, top, bottom = x_axis.begin, x_axis.end, y_axis.end, y_axis.begin
    parts = [f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" '
             'fill="none" stroke="#888"/>']
    for value in x_axis.ticks():
        x = x_axis.pixel(value)
        parts.append(f'<path d="M{x:.1f} {bottom}V{top}" stroke="#ddd"/>')
        parts.append(_text(x, bottom + 15, f"{value:.6g}"))
    for value in y_axis.ticks():
        y = y_axis.pixel(value)
        parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(_text(left - 5, y + 4, f"{value:.6g}", "end"))
    middle = (top + bottom) / 2
    parts.append(_text((left + right) / 2, top - 12, panel.title, more=' font-weight="bold"'))
    parts.append(_text((left + right) / 2, bottom + 34, panel.x_label))
    parts.append(_text(left - 44, middle, panel.y_label,
                       more=f' transform="rotate(-90 {left - 44} {middle})"'))
    return parts


def _draw(panel: Panel, offset: float, colours: dict[str, str]) -> list[str]:
    points = [point for series in panel.series for point in series.points]
    if not points:
        return [_text(offset + PANEL_WIDTH / 2, PANEL_HEIGHT / 2, f"{panel.title}: no values")]
    x_axis = Axis([x for x, _ in points], offset + LEFT, offset + PANEL_WIDTH - RIGHT, panel.log_x)
    y_axis = Axis([y for _, y in points], PANEL_HEIGHT - BOTTOM, TOP)
    parts = _frame(panel, x_axis, y_axis)
    for series in panel.series:
        colour = colours[series.name]
        pixels = [(x_axis.pixel(x), y_axis.pixel(y)) for x, y in series.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" '
                     'stroke-width="1.6" stroke-opacity="0.8"/>')
        if series.markers:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
                      for x, y in pixels]
    return parts


def render(panels: list[Panel], columns: int = 2) -> str:
    """Panels in rows of `columns`, over one legend."""
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = columns * PANEL_WIDTH, rows * PANEL_HEIGHT + LEGEND_HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for k, panel in enumerate(panels):
        parts.append(f'<g transform="translate(0 {k // columns * PANEL_HEIGHT})">')
        parts += _draw(panel, k % columns * PANEL_WIDTH, colours)
        parts.append("</g>")
    x = float(LEFT)
    for name, colour in colours.items():
        parts.append(f'<path d="M{x:.1f} {height - 12}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(x + 23, height - 8, name, "start"))
        x += 38 + 6.5 * len(name)
    return "\n".join([*parts, "</svg>", ""])
