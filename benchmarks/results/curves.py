"""Validation loss of a run by tokens, by time and by step."""

import bisect
import itertools
import statistics
from dataclasses import dataclass

SLOW = 3.0  # medians: a longer step belongs to a start, which has loading and tuning, and counts as the median

Points = list[tuple[float, float]]  # (position, loss), by position


def interpolate(points: Points, position: float) -> float | None:
    """Linear between evaluations; None outside of them."""
    after = bisect.bisect_left(points, (position,))
    if after < len(points) and points[after][0] == position:
        return points[after][1]
    if after in (0, len(points)):
        return None
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (position - x0) / (x1 - x0)


def first_reach(points: Points, loss: float) -> float | None:
    """The first position with a loss as low as this."""
    before = None
    for position, found in points:
        if found <= loss:
            return position if before is None else \
                before[0] + (position - before[0]) * (before[1] - loss) / (before[1] - found)
        before = position, found
    return None


@dataclass(frozen=True)
class Curve:
    by_step: Points
    by_tokens: Points
    by_time: Points
    unclipped: float | None  # Sophia: mean share of elements whose step is not clipped, over the later half

    @property
    def last(self) -> float:
        return self.by_step[-1][1]

    @property
    def num_steps(self) -> float:
        return self.by_step[-1][0]

    @property
    def num_tokens(self) -> float:
        return self.by_tokens[-1][0]

    @property
    def seconds(self) -> float:
        """Of training steps alone."""
        return self.by_time[-1][0]


def read_curve(lines: list[dict]) -> Curve | None:
    """From the lines of metrics.jsonl. A resumed run may repeat steps: the last record of a step counts."""
    steps = {line["step"]: line for line in lines if "step_time_s" in line}
    losses = {line["step"]: line["validation_loss"] for line in lines if line.get("validation_loss") is not None}
    if not steps or not losses:
        return None
    median = statistics.median(line["step_time_s"] for line in steps.values())
    times = (min(time, median) if (time := steps[step]["step_time_s"]) > SLOW * median else time
             for step in sorted(steps))
    seconds = dict(zip(sorted(steps), itertools.accumulate(times), strict=True))
    tokens = dict(zip(sorted(steps), itertools.accumulate(steps[step]["num_tokens"] for step in sorted(steps)),
                      strict=True))
    evaluated = sorted(losses.keys() & steps.keys())
    shares = [line["unclipped_fraction"] for line in steps.values() if line.get("unclipped_fraction") is not None]
    later = shares[len(shares) // 2:]
    return Curve(*([(at[step], losses[step]) for step in evaluated] for at in ({s: s for s in steps}, tokens, seconds)),
                 statistics.mean(later) if later else None)
