"""A comparison's blocks: both arms' values side by side, joined, in the order they ran."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from app.format import number
from app.judge.verdict import BlockValues, Comparison
from app.pages.charts.axis import draw_left
from app.pages.charts.figure import Address, Figure
from app.pages.charts.legend import draw_legend
from app.pages.charts.scale import Linear, spread_around
from app.pages.charts.svg import NARROW, WIDE, Box, draw_line, draw_picture, draw_text, make_element, show_both
from app.pages.words import name_metric, write_change

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


def plot_pairs(comparison: Comparison) -> Figure:
    """One column per block."""
    name = name_metric(comparison.metric)
    title = f"{name} block by block"
    query: Address = {"metric": comparison.metric, "candidate": comparison.candidate}
    rows = tuple(list_rows(comparison))
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
    svg = show_both(*(draw_blocks(comparison, width, label) for width in (WIDE, NARROW)))
    return Figure("pairs", title, note, svg, _COLUMNS, rows, query)


def list_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    """Every block, those that were dropped behind the others."""
    arms = (comparison.baseline, comparison.candidate)
    for one in comparison.blocks:
        first = arms[0] if one.baseline_first else arms[1]
        yield (one.block, *arms, one.baseline, one.candidate, _compute_change(one), first, None)
    for dropped in comparison.dropped_blocks:
        yield (dropped.block, *arms, None, None, None, None, dropped.reason)


def _compute_change(one: BlockValues) -> float | None:
    return 100 * (one.candidate / one.baseline - 1) if one.baseline > 0 else None


def draw_blocks(comparison: Comparison, width: int, label: str) -> Markup:
    """A column for every block, dropped ones among them."""
    names, height = draw_legend([(comparison.baseline, 0), (comparison.candidate, 1)], 46, 14, width - 46)
    box = Box(46, height + 24.0, width - 46.0, 170)
    scale = Linear(
        *spread_around([value for one in comparison.blocks for value in (one.baseline, one.candidate)]),
        box.base,
        box.top,
    )
    blocks = sorted([*(one.block for one in comparison.blocks), *(one.block for one in comparison.dropped_blocks)])
    column = (width - 52) / max(len(blocks), 1)
    parts = [*names, *draw_left(scale, box, 5, comparison.unit)]
    values = {one.block: one for one in comparison.blocks}
    every = max(1, round(46 / column))
    for index, block in enumerate(blocks):
        x = 52 + column * (index + 0.5)
        if block in values:
            parts += draw_pair(values[block], x, scale, min(column * 0.22, 14))
        else:
            middle = (box.top + box.base) / 2
            parts.append(draw_line(x, box.top, x, box.base, "dropped"))
            parts.append(draw_line(x - 5, middle - 5, x + 5, middle + 5, "cross"))
            parts.append(draw_line(x - 5, middle + 5, x + 5, middle - 5, "cross"))
        if index % every == 0:
            parts.append(draw_text(x, box.base + 18, str(block), "tick", "middle"))
        if block in values and column >= 54:
            parts.append(draw_text(x, box.base + 34, write_change(_compute_change(values[block])), "value", "middle"))
    parts.append(draw_text(0, box.base + 18, "block", "label"))
    if column >= 54:
        parts.append(draw_text(0, box.base + 34, "change", "label"))
    return draw_picture(width, box.base + 42, label, parts)


def draw_pair(one: BlockValues, x: float, scale: Linear, half: float) -> Sequence[Markup]:
    """Both arms' values in one block, the one that ran first on the left."""
    before, after = (x - half, x + half) if one.baseline_first else (x + half, x - half)
    return (
        draw_line(before, scale(one.baseline), after, scale(one.candidate), "tie"),
        make_element(
            "circle",
            make_element("title", number(one.baseline)),
            cx=before,
            cy=scale(one.baseline),
            r=5,
            cls="point arm-0",
        ),
        make_element(
            "circle",
            make_element("title", number(one.candidate)),
            cx=after,
            cy=scale(one.candidate),
            r=5,
            cls="point arm-1",
        ),
    )
