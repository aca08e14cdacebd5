"""The effect beside what equal arms gave: an effect that the noise reaches is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.judge.results import NoiseFloor
from app.judge.verdict import Comparison
from app.pages.charts.axis import draw_bottom
from app.pages.charts.figure import Figure
from app.pages.charts.scale import Linear
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
from app.pages.words import isolate, shorten, write_change, write_interval, write_share

MOST = 12  # candidates
_COLUMNS = ("what", "change_pct", "low_pct", "high_pct")


@dataclass(frozen=True, slots=True)
class Change:
    """A candidate's change of output throughput."""

    label: str
    change_pct: float
    interval_pct: tuple[float, float] | None
    verdict: str


def plot_noise(main: Sequence[Comparison], floor: NoiseFloor | None) -> Figure:
    """The candidates' changes over the band in which equal arms differed."""
    title = "Noise beside the effect"
    rows = [
        Change(one.candidate, one.change_pct, one.interval_pct, one.verdict)
        for one in main[:MOST]
        if one.change_pct is not None
    ]
    if floor is None or floor.floor_pct is None or not rows:
        return Figure("noise", title, "", None, _COLUMNS)
    band_pct = floor.floor_pct
    note = (
        f"The band is where equal arms (A/A) differ by their start: up to {write_share(band_pct)}. "
        "A dot is the measured change of output throughput, its line the interval."
    )
    label = f"{title}: equal arms differ by up to {write_share(band_pct)}; " + "; ".join(
        f"{row.label} {write_change(row.change_pct)}" for row in rows
    )
    table = (
        *((row.label, row.change_pct, *(row.interval_pct or (None, None))) for row in rows),
        ("equal arms (A/A)", 0.0, -band_pct, band_pct),
    )
    svg = show_both(*(draw_band(rows, band_pct, width, label) for width in (WIDE, NARROW)))
    return Figure("noise", title, note, svg, _COLUMNS, table)


def draw_band(rows: Sequence[Change], band_pct: float, width: int, label: str) -> Markup:
    """The band, and a row for every candidate."""
    start = 170.0 if width == WIDE else 96.0
    height = 28.0
    box = Box(start, 22, width - start - 12, height * len(rows))
    ends = [abs(end) for row in rows for end in (row.change_pct, *(row.interval_pct or ()))]
    reach = 1.1 * max(*ends, band_pct, 0.1)
    x = Linear(-reach, reach, box.left, box.right)
    band = Box(x(-band_pct), box.top - 4, x(band_pct) - x(-band_pct), box.height + 4)
    parts = [draw_box(band, "band"), draw_text(x(0), 12, "equal arms (A/A)", "band-name", "middle")]
    parts += draw_bottom(x, box, 6 if width == WIDE else 3, "change of output throughput, %")
    parts.append(draw_line(x(0), box.top - 4, x(0), box.base, "zero"))
    for index, row in enumerate(rows):
        parts += draw_row(row, x, box.top + height * (index + 0.5), 24 if width == WIDE else 13)
    return draw_picture(width, box.base + 42, label, parts)


def draw_row(row: Change, x: Linear, y: float, most: int) -> Sequence[Markup]:
    """A candidate's change, with its interval."""
    color = f"v-{row.verdict}"
    low, high = row.interval_pct or (row.change_pct, row.change_pct)
    full = f"{row.label}: {write_change(row.change_pct)} ({write_interval(row.interval_pct)})"
    return (
        draw_text(0, y + 4, isolate(shorten(row.label, most)), "row-name", full=full),
        draw_line(x(low), y, x(high), y, f"whisker {color}"),
        make_element("circle", cx=x(row.change_pct), cy=y, r=4.5, cls=f"dot {color}"),
    )
