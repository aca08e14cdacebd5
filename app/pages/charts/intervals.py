"""Changes with their intervals, turned so that right is better whichever way a metric goes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.judge.verdict import Comparison
from app.pages.charts.figure import Address, Figure
from app.pages.charts.scale import Linear, round_step, write_tick
from app.pages.charts.svg import (
    NARROW,
    WIDE,
    Box,
    draw_box,
    draw_line,
    draw_picture,
    draw_text,
    make_element,
    show_both,
)
from app.pages.words import isolate, name_metric, shorten, write_change, write_interval

_COLUMNS = (
    "metric",
    "unit",
    "higher_is_better",
    "primary",
    "baseline",
    "candidate",
    "change_pct",
    "low_pct",
    "high_pct",
    "confidence",
    "margin_pct",
    "pairs",
    "verdict",
)
_DOT = 12.0  # an interval that the dot covers has no ends to draw
_FACTORS = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, slots=True)
class Mark:
    """One row: logs of ratios, above 0 where the candidate is better."""

    label: str
    arrow: str
    comparison: Comparison
    middle: float | None
    low: float | None
    high: float | None


def plot_intervals(
    name: str,
    title: str,
    comparisons: Sequence[Comparison],
    labels: Sequence[str] | None = None,
    query: Address | None = None,
) -> Figure:
    """One row per comparison, named by its label, or else by its metric."""
    names = labels or [name_metric(comparison.metric) for comparison in comparisons]
    marks = [make_mark(comparison, label) for comparison, label in zip(comparisons, names, strict=True)]
    rows = []
    for comparison in comparisons:
        low, high = comparison.interval_pct or (None, None)
        known = comparison.model_dump(mode="json") | {"low_pct": low, "high_pct": high}
        rows.append(tuple(known[column] for column in _COLUMNS))
    if not marks:
        return Figure(name, title, "There is no comparison to draw.", columns=_COLUMNS, query=query or {})
    note = (
        "Right is better. A dot is the measured change, its line the interval; the band holds changes that count as "
        "the same. Metrics that should be low are turned round; the numbers beside are the metric's own."
    )
    label = "; ".join(
        f"{mark.label}: {write_change(mark.comparison.change_pct)}, "
        f"interval {write_interval(mark.comparison.interval_pct)}, {mark.comparison.verdict}"
        for mark in marks[:12]
    )
    svg = show_both(draw_wide(marks, label), draw_narrow(marks, label))
    return Figure(name, title, note, svg, _COLUMNS, tuple(rows), query or {})


def make_mark(comparison: Comparison, label: str) -> Mark:
    """A comparison as the chart has it, turned so that right is better."""
    sign = 1 if comparison.higher_is_better else -1
    middle = None if comparison.change_pct is None else _turn(comparison.change_pct, sign)
    ends = sorted(_turn(end, sign) for end in comparison.interval_pct or ())
    return Mark(
        label=label,
        arrow="↑" if comparison.higher_is_better else "↓",
        comparison=comparison,
        middle=middle,
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
    )


def _turn(change_pct: float, sign: int) -> float:
    return sign * math.log(max(1 + change_pct / 100, 1e-6))


def _find_reach(marks: Sequence[Mark]) -> float:
    """How far the axis goes: to the primary metrics' ends at least; a wild secondary metric does not squeeze them."""

    def farthest(of: Sequence[Mark]) -> float:
        return max(
            (abs(end) for mark in of for end in (mark.low, mark.middle, mark.high) if end is not None), default=0
        )

    margin = math.log1p(marks[0].comparison.margin_pct / 100)
    primary = farthest([mark for mark in marks if mark.comparison.primary])
    return 1.12 * max(2 * margin, min(farthest(marks), max(3 * primary, 6 * margin)))


def place_ticks(reach: float) -> list[tuple[float, str]]:
    """Values to name on the axis, as logs of ratios, and their names: factors where they are large, else percents."""
    if reach > math.log(2):
        factors = [factor for factor in _FACTORS if math.log(factor) <= reach]
        factors = factors[:: max(1, math.ceil(len(factors) / 3))]
        return [
            *((-math.log(factor), f"÷{factor:g}") for factor in factors),
            (0.0, "0"),
            *((math.log(factor), f"×{factor:g}") for factor in factors),
        ]
    step = round_step(100 * math.expm1(reach) / 2.6)
    found = [number * step for number in range(-4, 5)]
    return [
        (math.log1p(percent / 100), f"{'+' if percent > 0 else ''}{write_tick(percent)} %")
        for percent in found
        if percent > -100 and abs(math.log1p(percent / 100)) <= reach
    ]


def draw_wide(marks: Sequence[Mark], label: str) -> Markup:
    """For desks: a line per comparison."""
    start, end, row, top = 204.0, 458.0, 30.0, 40.0
    base = top + row * len(marks)
    scale = Linear(-_find_reach(marks), _find_reach(marks), start, end)
    parts = [*_draw_frame(marks, scale, top, base)]
    for index, mark in enumerate(marks):
        y = top + row * (index + 0.5)
        parts.append(_draw_label(mark, 0, y + 4, 26))
        parts += _draw_interval(mark, scale, y)
        parts.append(draw_text(end + 16, y + 4, _write_numbers(mark), "value"))
        parts.append(
            draw_text(WIDE, y + 4, mark.comparison.verdict, f"verdict-word v-{mark.comparison.verdict}", "end")
        )
    return draw_picture(WIDE, base + 26, label, parts)


def draw_narrow(marks: Sequence[Mark], label: str) -> Markup:
    """For phones: name, interval and numbers below each other."""
    start, end, row, top = 8.0, NARROW - 8.0, 66.0, 40.0
    base = top + row * len(marks)
    scale = Linear(-_find_reach(marks), _find_reach(marks), start, end)
    parts = [*_draw_frame(marks, scale, top, base)]
    for index, mark in enumerate(marks):
        y = top + row * index
        parts.append(_draw_label(mark, 0, y + 16, 28))
        parts.append(
            draw_text(NARROW, y + 16, mark.comparison.verdict, f"verdict-word v-{mark.comparison.verdict}", "end")
        )
        parts += _draw_interval(mark, scale, y + 32)
        parts.append(draw_text(0, y + 54, _write_numbers(mark), "value"))
    return draw_picture(NARROW, base + 26, label, parts)


def _draw_label(mark: Mark, x: float, y: float, most: int) -> Markup:
    way = "higher is better" if mark.comparison.higher_is_better else "lower is better"
    cls = "row-name primary" if mark.comparison.primary else "row-name"
    full = f"{mark.label}: {way}"
    return make_element(
        "text",
        f"{isolate(shorten(mark.label, most))} ",
        make_element("tspan", mark.arrow, cls="arrow"),
        make_element("title", full),
        x=x,
        y=y,
        cls=cls,
    )


def _write_numbers(mark: Mark) -> str:
    comparison = mark.comparison
    if comparison.change_pct is None:
        return "no number"
    if comparison.interval_pct is None:
        return f"{write_change(comparison.change_pct)}, no interval"
    return f"{write_change(comparison.change_pct)}  ({write_interval(comparison.interval_pct)})"


def _draw_frame(marks: Sequence[Mark], scale: Linear, top: float, base: float) -> Iterator[Markup]:
    margin_pct = marks[0].comparison.margin_pct
    margin = math.log1p(margin_pct / 100)
    yield draw_box(Box(scale(-margin), top - 8, scale(margin) - scale(-margin), base - top + 8), "band")
    yield draw_text(scale(0), top - 14, f"same: ±{margin_pct:g} %", "band-name", "middle")
    yield draw_text(scale.start, top - 14, "← worse", "label")
    yield draw_text(scale.end, top - 14, "better →", "label", "end")
    for at, name in place_ticks(scale.high):
        yield draw_line(scale(at), top - 8, scale(at), base, "zero" if at == 0 else "grid")
        yield draw_text(scale(at), base + 16, name, "tick", "middle")


def _draw_interval(mark: Mark, scale: Linear, y: float) -> Iterator[Markup]:
    verdict = f"v-{mark.comparison.verdict}"
    if mark.low is not None and mark.high is not None:
        low, high = max(mark.low, scale.low), min(mark.high, scale.high)
        if low <= high:
            yield draw_line(scale(low), y, scale(high), y, f"whisker {verdict}")
        for end in (mark.low, mark.high) if scale(high) - scale(low) > _DOT else ():
            if scale.low <= end <= scale.high:
                yield draw_line(scale(end), y - 5, scale(end), y + 5, f"whisker {verdict}")
    if mark.middle is None:
        return
    if scale.low <= mark.middle <= scale.high:
        kind = "dot" if mark.low is not None else "dot hollow"
        yield make_element("circle", cx=scale(mark.middle), cy=y, r=4.5, cls=f"{kind} {verdict}")
    else:  # an arrowhead for what lies off the axis
        tip, back = (scale.end, scale.end - 9) if mark.middle > 0 else (scale.start, scale.start + 9)
        yield make_element("path", d=f"M{tip:.1f} {y:.1f}L{back:.1f} {y - 6:.1f}V{y + 6:.1f}Z", cls=f"dot {verdict}")
