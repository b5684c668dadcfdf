"""Line charts as inline SVG in the page's own colours: one for light and dark."""

from dataclasses import dataclass, field
from html import escape

from packtrain_tools.svg_plot import Axis

WIDTH, HEIGHT = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 40
MOST_POINTS = 300  # points of a line; more are averaged
MAX_COLOURS = 8


@dataclass
class Line:
    name: str
    points: list[tuple[float, float]]
    colour: int  # index; beyond MAX_COLOURS dashed
    faint: bool = False
    markers: bool = False


@dataclass
class Chart:
    title: str
    y_label: str
    lines: list[Line] = field(default_factory=list)
    x_label: str = "optimizer steps"
    from_zero: bool = False


def thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points, each the mean of equally many neighbours."""
    size = -(-len(points) // MOST_POINTS)
    if size <= 1:
        return points
    groups = [points[begin:begin + size] for begin in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
            for group in groups]


def smooth(points: list[tuple[float, float]], share: float = 0.02) -> list[tuple[float, float]]:
    """Centred mean over a window of this share of all points. Few points are returned unchanged."""
    half = int(len(points) * share / 2)
    if half == 0:
        return points
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    smoothed = []
    for k, (x, _) in enumerate(points):
        begin, end = max(0, k - half), min(len(points), k + half + 1)
        smoothed.append((x, (sums[end] - sums[begin]) / (end - begin)))
    return smoothed


def short(value: float, digits: int = 4) -> str:
    """1234567 -> 1.23M"""
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= power:
            unit = 1e3 if letter == "k" else power
            return f"{value / unit:.{digits - 1}g}{letter}"
    return f"{value:.{digits}g}"


def tick_labels(values: list[float]) -> list[str]:
    """Labels with as many digits as needed to distinguish them."""
    for digits in range(4, 10):
        labels = [short(value, digits) for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def dashes(colour: int) -> str:
    return ' stroke-dasharray="5 3"' if colour >= MAX_COLOURS else ""


def _frame(chart: Chart, x_axis: Axis, y_axis: Axis) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    y_ticks = y_axis.ticks()
    for value, label in zip(y_ticks, tick_labels(y_ticks)):
        y = y_axis.pixel(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(text(LEFT - 6, y + 4, label, "end"))
    for value in (value for value in x_axis.ticks() if abs(value - round(value)) < 1e-6):  # whole steps
        x = x_axis.pixel(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {bottom}v4"/>')
        parts.append(text(x, bottom + 17, short(value)))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    parts.append(text((LEFT + right) / 2, HEIGHT - 6, chart.x_label))
    return parts


def _line(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    pixels = [(x_axis.pixel(x), y_axis.pixel(y)) for x, y in thin(line.points)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
    kind = "faint" if line.faint else "line"
    colour = f"var(--c{line.colour % MAX_COLOURS})"
    name = "" if line.faint else f' data-name="{escape(line.name)}"'
    parts = [f'<polyline class="{kind}"{name} points="{points}" stroke="{colour}"'
             f"{dashes(line.colour)}/>"]
    if line.markers or len(pixels) == 1:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>'
                  for x, y in pixels]
    return "".join(parts)


def draw(chart: Chart) -> str:
    """A <figure>, or "" for a chart without a finite point."""
    lines = [Line(line.name, [point for point in line.points if is_finite(point[1])], line.colour,
                  line.faint, line.markers) for line in chart.lines]
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    x_axis = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    values = [y for _, y in points]
    y_axis = Axis(values + [0.0] if chart.from_zero else values, HEIGHT - BOTTOM, TOP)
    # Values that the pointer script needs to read values from the lines.
    scale = f"{x_axis.low:.9g} {x_axis.high:.9g} {y_axis.low:.9g} {y_axis.high:.9g}"
    label = f"{chart.title} over {chart.x_label}"
    return "".join([
        f"<figure><figcaption>{escape(chart.title)} <span class=\"soft\">{escape(chart.y_label)}"
        f'</span></figcaption><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" data-scale="{scale}" '
        f'data-box="{LEFT} {WIDTH - RIGHT} {HEIGHT - BOTTOM} {TOP}">',
        *_frame(chart, x_axis, y_axis), *(_line(line, x_axis, y_axis) for line in lines),
        '<path class="cursor" d=""/></svg><output></output></figure>'])


def is_finite(value) -> bool:
    return isinstance(value, (int, float)) and abs(value) < float("inf")


STYLE = """
section > svg, section > .scroll { margin: 6px 0; }
.charts { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 350px), 1fr)); }
figure { margin: 0; min-width: 0; position: relative; } figcaption { font-weight: 600; font-size: 14px; }
figcaption .soft { font-weight: 400; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11.5px system-ui, sans-serif; }
.grid { stroke: var(--line); fill: none; } .axis { stroke: var(--soft); fill: none; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.faint { fill: none; stroke-width: 1; opacity: 0.3; }
.cursor { stroke: var(--soft); stroke-dasharray: 2 2; }
output { position: absolute; top: 24px; right: 12px; font-size: 12px; background: var(--panel);
  border: 1px solid var(--line); border-radius: 4px; padding: 2px 6px; pointer-events: none;
  white-space: pre; max-width: 80%; overflow: hidden; }
output:empty { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 26px; height: 8px; margin-right: 6px; }
"""

# The pointer shows the values of all lines at its position.
SCRIPT = """
for (const svg of document.querySelectorAll("svg.chart")) {
  const [x0, x1, y0, y1] = svg.dataset.scale.split(" ").map(Number);
  const [left, right, bottom, top] = svg.dataset.box.split(" ").map(Number);
  const cursor = svg.querySelector(".cursor");
  const output = svg.parentNode.querySelector("output");
  const lines = [...svg.querySelectorAll("polyline[data-name]")].map((line) => ({
    name: line.dataset.name,
    points: line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)),
  }));
  const leave = () => { output.textContent = ""; cursor.setAttribute("d", ""); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const place = svg.createSVGPoint();
    [place.x, place.y] = [event.clientX, event.clientY];
    const x = place.matrixTransform(svg.getScreenCTM().inverse()).x;
    if (x < left || x > right) return leave();
    const near = (points) => points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
    const at = near(lines[0].points)[0];
    const step = x0 + (at - left) / (right - left) * (x1 - x0);
    output.textContent = [`step ${Math.round(step)}`, ...lines.map(({ name, points }) => {
      const value = y0 + (near(points)[1] - bottom) / (top - bottom) * (y1 - y0);
      return `${name}: ${Number(value.toPrecision(4))}`;
    })].join("\\n");
    cursor.setAttribute("d", `M${at} ${top}V${bottom}`);
  });
}
"""
