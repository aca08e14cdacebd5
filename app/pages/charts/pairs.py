"""A comparison's blocks: both arms' values side by side, joined, in the order they ran."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from app.format import number
from app.judge.verdict import BlockValues, Comparison
from app.pages.charts.axis import left
from app.pages.charts.figure import Address, Figure
from app.pages.charts.legend import legend
from app.pages.charts.scale import Linear, around
from app.pages.charts.svg import NARROW, WIDE, Box, both, el, line, picture, text
from app.pages.words import metric_name, signed

_COLUMNS = (
    "block",
    "baseline",
    "candidate",
    "baseline_value",
    "candidate_value",
    "change_pct",
    "first",
    "dropped",
)


def pairs(comparison: Comparison) -> Figure:
    """One column per block."""
    name = metric_name(comparison.metric)
    title = f"{name} block by block"
    query: Address = {"metric": comparison.metric, "candidate": comparison.candidate}
    rows = tuple(_rows(comparison))
    if not comparison.blocks:
        return Figure("pairs", title, "No block has a value of both arms.", None, _COLUMNS, rows, query)
    way = "higher" if comparison.higher_is_better else "lower"
    note = (
        f"One trial of each arm per block, run close together; the arm that ran first stands left. {way.capitalize()} "
        "is better. Blocks that do not count are crossed out."
    )
    label = f"{title}, {comparison.unit}: " + "; ".join(
        f"block {one.block}: {number(one.baseline)} and {number(one.candidate)}" for one in comparison.blocks[:20]
    )
    svg = both(*(_drawn(comparison, width, label) for width in (WIDE, NARROW)))
    return Figure("pairs", title, note, svg, _COLUMNS, rows, query)


def _rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    arms = (comparison.baseline, comparison.candidate)
    for one in comparison.blocks:
        first = arms[0] if one.baseline_first else arms[1]
        yield (one.block, *arms, one.baseline, one.candidate, _change(one), first, None)
    for dropped in comparison.dropped_blocks:
        yield (dropped.block, *arms, None, None, None, None, dropped.reason)


def _change(one: BlockValues) -> float | None:
    return 100 * (one.candidate / one.baseline - 1) if one.baseline > 0 else None


def _drawn(comparison: Comparison, width: int, label: str) -> Markup:
    names, height = legend([(comparison.baseline, 0), (comparison.candidate, 1)], 46, 14, width - 46)
    box = Box(46, height + 24.0, width - 46.0, 170)
    scale = Linear(
        *around([value for one in comparison.blocks for value in (one.baseline, one.candidate)]), box.base, box.top
    )
    blocks = sorted([*(one.block for one in comparison.blocks), *(one.block for one in comparison.dropped_blocks)])
    column = (width - 52) / max(len(blocks), 1)
    parts = [*names, *left(scale, box, 5, comparison.unit)]
    values = {one.block: one for one in comparison.blocks}
    every = max(1, round(46 / column))
    for index, block in enumerate(blocks):
        x = 52 + column * (index + 0.5)
        named = index % every == 0
        parts += _pair(values[block], x, scale, min(column * 0.22, 14)) if block in values else _dropped(x, box)
        if named:
            parts.append(text(x, box.base + 18, str(block), "tick", "middle"))
        if block in values and column >= 54:
            parts.append(text(x, box.base + 34, signed(_change(values[block])), "value", "middle"))
    parts.append(text(0, box.base + 18, "block", "label"))
    if column >= 54:
        parts.append(text(0, box.base + 34, "change", "label"))
    return picture(width, box.base + 42, label, parts)


def _pair(one: BlockValues, x: float, scale: Linear, half: float) -> Sequence[Markup]:
    before, after = (x - half, x + half) if one.baseline_first else (x + half, x - half)
    return (
        line(before, scale(one.baseline), after, scale(one.candidate), "tie"),
        el("circle", el("title", number(one.baseline)), cx=before, cy=scale(one.baseline), r=5, cls="point arm-0"),
        el("circle", el("title", number(one.candidate)), cx=after, cy=scale(one.candidate), r=5, cls="point arm-1"),
    )


def _dropped(x: float, box: Box) -> Sequence[Markup]:
    middle = (box.top + box.base) / 2
    return (
        line(x, box.top, x, box.base, "dropped"),
        line(x - 5, middle - 5, x + 5, middle + 5, "cross"),
        line(x - 5, middle + 5, x + 5, middle - 5, "cross"),
    )
