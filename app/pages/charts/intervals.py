"""Changes with their intervals, turned so that right is better whichever way a metric goes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.judge.verdict import Comparison
from app.pages.charts.figure import Address, Figure
from app.pages.charts.scale import Linear, round_step, tick_text
from app.pages.charts.svg import NARROW, WIDE, Box, both, el, line, picture, rect, text
from app.pages.words import interval, isolate, metric_name, shortened, signed

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
class _Mark:
    """One row: logs of ratios, above 0 where the candidate is better."""

    label: str
    arrow: str
    comparison: Comparison
    middle: float | None
    low: float | None
    high: float | None


def intervals(
    name: str,
    title: str,
    comparisons: Sequence[Comparison],
    labels: Sequence[str] | None = None,
    query: Address | None = None,
) -> Figure:
    """One row per comparison, named by its label, or else by its metric."""
    names = labels or [metric_name(comparison.metric) for comparison in comparisons]
    marks = [_mark(comparison, label) for comparison, label in zip(comparisons, names, strict=True)]
    rows = tuple(_row(comparison) for comparison in comparisons)
    if not marks:
        return Figure(name, title, "There is no comparison to draw.", columns=_COLUMNS, query=query or {})
    note = (
        "Right is better. A dot is the measured change, its line the interval; the band holds changes that count as "
        "the same. Metrics that should be low are turned round; the numbers beside are the metric's own."
    )
    label = "; ".join(
        f"{mark.label}: {signed(mark.comparison.change_pct)}, interval {interval(mark.comparison.interval_pct)}, "
        f"{mark.comparison.verdict}"
        for mark in marks[:12]
    )
    svg = both(_wide(marks, label), _narrow(marks, label))
    return Figure(name, title, note, svg, _COLUMNS, rows, query or {})


def _row(comparison: Comparison) -> tuple[object, ...]:
    low, high = comparison.interval_pct or (None, None)
    known = comparison.model_dump(mode="json") | {"low_pct": low, "high_pct": high}
    return tuple(known[column] for column in _COLUMNS)


def _mark(comparison: Comparison, label: str) -> _Mark:
    sign = 1 if comparison.higher_is_better else -1
    middle = None if comparison.change_pct is None else _log(comparison.change_pct, sign)
    ends = sorted(_log(end, sign) for end in comparison.interval_pct or ())
    return _Mark(
        label=label,
        arrow="↑" if comparison.higher_is_better else "↓",
        comparison=comparison,
        middle=middle,
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
    )


def _log(change_pct: float, sign: int) -> float:
    return sign * math.log(max(1 + change_pct / 100, 1e-6))


def _reach(marks: Sequence[_Mark]) -> float:
    """How far the axis goes: to the primary metrics' ends at least; a wild secondary metric does not squeeze them."""

    def farthest(of: Sequence[_Mark]) -> float:
        return max(
            (abs(end) for mark in of for end in (mark.low, mark.middle, mark.high) if end is not None), default=0
        )

    margin = math.log1p(marks[0].comparison.margin_pct / 100)
    primary = farthest([mark for mark in marks if mark.comparison.primary])
    return 1.12 * max(2 * margin, min(farthest(marks), max(3 * primary, 6 * margin)))


def _ticks(reach: float) -> list[tuple[float, str]]:
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
        (math.log1p(percent / 100), f"{'+' if percent > 0 else ''}{tick_text(percent)} %")
        for percent in found
        if percent > -100 and abs(math.log1p(percent / 100)) <= reach
    ]


def _wide(marks: Sequence[_Mark], label: str) -> Markup:
    start, end, row, top = 204.0, 458.0, 30.0, 40.0
    base = top + row * len(marks)
    scale = Linear(-_reach(marks), _reach(marks), start, end)
    parts = [*_frame(marks, scale, top, base)]
    for index, mark in enumerate(marks):
        y = top + row * (index + 0.5)
        parts.append(_label(mark, 0, y + 4, 26))
        parts += _strip(mark, scale, y)
        parts.append(text(end + 16, y + 4, _numbers(mark), "value"))
        parts.append(text(WIDE, y + 4, mark.comparison.verdict, f"verdict-word v-{mark.comparison.verdict}", "end"))
    return picture(WIDE, base + 26, label, parts)


def _narrow(marks: Sequence[_Mark], label: str) -> Markup:
    start, end, row, top = 8.0, NARROW - 8.0, 66.0, 40.0
    base = top + row * len(marks)
    scale = Linear(-_reach(marks), _reach(marks), start, end)
    parts = [*_frame(marks, scale, top, base)]
    for index, mark in enumerate(marks):
        y = top + row * index
        parts.append(_label(mark, 0, y + 16, 28))
        parts.append(text(NARROW, y + 16, mark.comparison.verdict, f"verdict-word v-{mark.comparison.verdict}", "end"))
        parts += _strip(mark, scale, y + 32)
        parts.append(text(0, y + 54, _numbers(mark), "value"))
    return picture(NARROW, base + 26, label, parts)


def _label(mark: _Mark, x: float, y: float, most: int) -> Markup:
    way = "higher is better" if mark.comparison.higher_is_better else "lower is better"
    cls = "row-name primary" if mark.comparison.primary else "row-name"
    full = f"{mark.label}: {way}"
    return el(
        "text",
        f"{isolate(shortened(mark.label, most))} ",
        el("tspan", mark.arrow, cls="arrow"),
        el("title", full),
        x=x,
        y=y,
        cls=cls,
    )


def _numbers(mark: _Mark) -> str:
    comparison = mark.comparison
    if comparison.change_pct is None:
        return "no number"
    if comparison.interval_pct is None:
        return f"{signed(comparison.change_pct)}, no interval"
    return f"{signed(comparison.change_pct)}  ({interval(comparison.interval_pct)})"


def _frame(marks: Sequence[_Mark], scale: Linear, top: float, base: float) -> Iterator[Markup]:
    margin_pct = marks[0].comparison.margin_pct
    margin = math.log1p(margin_pct / 100)
    yield rect(Box(scale(-margin), top - 8, scale(margin) - scale(-margin), base - top + 8), "band")
    yield text(scale(0), top - 14, f"same: ±{margin_pct:g} %", "band-name", "middle")
    yield text(scale.start, top - 14, "← worse", "label")
    yield text(scale.end, top - 14, "better →", "label", "end")
    for at, name in _ticks(scale.high):
        yield line(scale(at), top - 8, scale(at), base, "zero" if at == 0 else "grid")
        yield text(scale(at), base + 16, name, "tick", "middle")


def _strip(mark: _Mark, scale: Linear, y: float) -> Iterator[Markup]:
    verdict = f"v-{mark.comparison.verdict}"
    if mark.low is not None and mark.high is not None:
        low, high = max(mark.low, scale.low), min(mark.high, scale.high)
        if low <= high:
            yield line(scale(low), y, scale(high), y, f"whisker {verdict}")
        for end in (mark.low, mark.high) if scale(high) - scale(low) > _DOT else ():
            if scale.low <= end <= scale.high:
                yield line(scale(end), y - 5, scale(end), y + 5, f"whisker {verdict}")
    if mark.middle is None:
        return
    if scale.low <= mark.middle <= scale.high:
        kind = "dot" if mark.low is not None else "dot hollow"
        yield el("circle", cx=scale(mark.middle), cy=y, r=4.5, cls=f"{kind} {verdict}")
    else:
        yield _beyond(scale, y, mark.middle > 0, verdict)


def _beyond(scale: Linear, y: float, right: bool, verdict: str) -> Markup:
    """An arrowhead for what lies off the axis."""
    tip, back = (scale.end, scale.end - 9) if right else (scale.start, scale.start + 9)
    return el("path", d=f"M{tip:.1f} {y:.1f}L{back:.1f} {y - 6:.1f}V{y + 6:.1f}Z", cls=f"dot {verdict}")
