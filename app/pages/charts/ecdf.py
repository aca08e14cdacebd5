"""Which share of the samples was at most so slow, per arm, on a logarithmic axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from app.format import plural
from app.measure.columns import Floats
from app.pages.charts.axis import draw_bottom
from app.pages.charts.figure import Address, Figure
from app.pages.charts.legend import choose_hue, draw_legend
from app.pages.charts.scale import Linear, Log
from app.pages.charts.svg import (
    NARROW,
    WIDE,
    Box,
    draw_line,
    draw_picture,
    draw_text,
    make_element,
    make_path,
    show_both,
)
from app.pages.words import find_unit, name_metric

MOST_POINTS = 512
_GUIDES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An arm's samples, sorted, at equal steps of their share from 0 to 1."""

    arm: str
    index: int  # of the arm in the spec
    samples: int
    values: Floats


def pool(parts: Sequence[tuple[Floats, int]], points: int = MOST_POINTS) -> Floats:
    """Quantiles of several trials' samples together.

    A part is its trial's sorted values and how many samples they stand for: a trial weighs by its samples, however
    finely its values were kept.
    """
    values = np.concatenate([part for part, _ in parts])
    weights = np.concatenate([np.full(len(part), count / len(part)) for part, count in parts])
    order = np.argsort(values, kind="stable")
    values, shares = values[order], np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(shares, np.linspace(0.0, 1.0, min(points, len(values))) - 1e-12)
    found: Floats = values[np.minimum(at, len(values) - 1)]
    return found


def plot_ecdf(metric: str, curves: Sequence[Curve], query: Address, left_out: int = 0) -> Figure:
    """One line per arm."""
    title = f"{name_metric(metric)}: how it is distributed"
    columns = ("arm", metric, "share")
    if not curves:
        return Figure("latency", title, "No request record has this value yet.", None, columns, (), query)
    note = (
        f"The share of samples that took at most so long; further left is faster. All trials of an arm together "
        f"({plural(sum(curve.samples for curve in curves), 'sample')}), for the eye only: verdicts compare trials."
    )
    if left_out:
        note += f" {plural(left_out, 'more arm')}: choose which to draw below."
    rows = tuple(
        (curve.arm, round(float(value), 4), round(share, 5))
        for curve in curves
        for value, share in zip(curve.values, np.linspace(0, 1, len(curve.values)).tolist(), strict=True)
    )
    label = f"{title}: " + "; ".join(
        f"{curve.arm} median {curve.values[len(curve.values) // 2]:.4g} {find_unit(metric)}" for curve in curves
    )
    svg = show_both(*(draw_curves(metric, curves, width, label) for width in (WIDE, NARROW)))
    return Figure("latency", title, note, svg, columns, rows, query, explore=f"{metric},share,arm,log")


def draw_curves(metric: str, curves: Sequence[Curve], width: int, label: str) -> Markup:
    """All curves in one box, so many pixels wide."""
    names, height = draw_legend([(curve.arm, curve.index) for curve in curves], 46, 14, width - 46)
    box = Box(46, height + 12.0, width - 58.0, 240)
    low = min(float(curve.values[0]) for curve in curves)
    high = max(float(curve.values[-1]) for curve in curves)
    low = max(low, high / 1e6, 1e-6)
    x = Log(low / 1.02, max(high, low * 1.05) * 1.02, box.left, box.right)
    y = Linear(0.0, 1.0, box.base, box.top)
    unit = find_unit(metric)
    parts = [*names, *draw_bottom(x, box, 8 if width == WIDE else 4, f"{name_metric(metric)}, {unit}")]
    for share, name in _GUIDES:
        parts += (
            draw_line(box.left, y(share), box.right, y(share), "grid"),
            draw_text(40, y(share) + 4, name, "tick", "end"),
        )
    parts += (
        draw_line(box.left, box.base, box.right, box.base, "axis"),
        draw_text(40, box.base + 4, "0", "tick", "end"),
    )
    for curve in reversed(curves):  # the baseline on top
        points = place_points(curve, x, y)
        parts.append(make_element("path", d=make_path(points), cls=f"series {choose_hue(curve.index)}"))
    return draw_picture(width, box.base + 42, label, parts)


def place_points(curve: Curve, x: Log, y: Linear) -> list[tuple[float, float]]:
    """The line in pixels; of points that fall together only some."""
    shares = np.linspace(0.0, 1.0, len(curve.values))
    found: list[tuple[float, float]] = []
    for value, share in zip(curve.values.tolist(), shares.tolist(), strict=True):
        point = (x(value), y(share))
        if not found or abs(point[0] - found[-1][0]) + abs(point[1] - found[-1][1]) >= 0.8 or share == 1.0:
            found.append(point)
    return found
