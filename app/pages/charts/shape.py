"""A rollout's shape: every request of one trial as a line from its arrival to its end, one strip per replica."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from app.format import plural, seconds
from app.measure.columns import Floats
from app.pages.charts.axis import draw_bottom
from app.pages.charts.figure import Address, Figure
from app.pages.charts.legend import choose_hue
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
from app.pages.words import isolate, shorten

MOST_LINES = 240
_COLUMNS = ("arm", "replica", "arrived_s", "first_token_s", "last_token_s", "delivered_s")


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """One replica's requests in one trial, by their end; a sample of them where there are many. NaN is unknown."""

    replica: int
    requests: int
    arrived_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    delivered_s: Floats
    most_out_s: float | None  # when 90 % of the output tokens were out


@dataclass(frozen=True, slots=True)
class ArmShape:
    """An arm's strips in the block that is drawn."""

    arm: str
    index: int
    strips: tuple[Strip, ...]


def plot_shape(arms: Sequence[ArmShape], block: int | None, query: Address) -> Figure:
    """Strips of all arms on one time axis."""
    strips = [(arm, strip) for arm in arms for strip in arm.strips]
    if block is None or not strips:
        return Figure("shape", "The shape of a rollout", "No request record is stored yet.", None, _COLUMNS, (), query)
    title = f"The shape of a rollout: block {block}"
    drawn = sum(len(strip.arrived_s) for _, strip in strips)
    total = sum(strip.requests for _, strip in strips)
    note = (
        "One line per request, the first to end on top: pale while it waits for its first token, full while it "
        "generates, thin until the caller has it. Dashed: 90 % of the output tokens are out."
    )
    if drawn < total:
        note += f" {drawn:,} of {plural(total, 'request')} are drawn, evenly chosen."
    label = f"{title}. " + "; ".join(
        f"{arm.arm} replica {strip.replica}: {plural(strip.requests, 'request')}, the last ends after "
        f"{seconds(float(np.nanmax(strip.delivered_s)))}"
        for arm, strip in strips[:12]
    )
    rows = tuple(row for arm, strip in strips for row in list_rows(arm.arm, strip))
    svg = show_both(*(draw_strips(strips, width, label) for width in (WIDE, NARROW)))
    return Figure("shape", title, note, svg, _COLUMNS, rows, query)


def list_rows(arm: str, strip: Strip) -> Iterator[tuple[object, ...]]:
    """Requests of one strip, a row each."""
    times = (strip.arrived_s, strip.first_token_s, strip.last_token_s, strip.delivered_s)
    for values in zip(*(column.tolist() for column in times), strict=True):
        yield (arm, strip.replica, *(None if value != value else round(value, 6) for value in values))  # noqa: PLR0124


def draw_strips(strips: Sequence[tuple[ArmShape, Strip]], width: int, label: str) -> Markup:
    """Strips below each other, on one axis."""
    end_s = max(float(np.nanmax(strip.delivered_s)) for _, strip in strips)
    x = Linear(0.0, end_s * 1.01 or 1.0, 4, width - 12.0)
    height, top = 118.0 if len(strips) <= 4 else 76.0, 4.0
    parts: list[Markup] = []
    for arm, strip in strips:
        named = isolate(shorten(arm.arm, 40)) + (f", replica {strip.replica}" if len(arm.strips) > 1 else "")
        parts.append(draw_text(4, top + 14, named, "row-name primary", full=arm.arm))
        parts.append(draw_text(width - 12, top + 14, seconds(float(np.nanmax(strip.delivered_s))), "value", "end"))
        parts += draw_strip(strip, choose_hue(arm.index), x, Box(x.start, top + 22, x.end - x.start, height))
        top += height + 36
    whole = Box(x.start, 22, x.end - x.start, top - 30)
    parts = [*draw_bottom(x, whole, 8 if width == WIDE else 4, "seconds since the trial began"), *parts]
    return draw_picture(width, whole.base + 42, label, parts)


def draw_strip(strip: Strip, color: str, x: Linear, box: Box) -> Iterator[Markup]:
    """Every request as a line from its arrival to its end."""
    row = box.height / max(len(strip.arrived_s), 1)
    yield draw_box(box, "strip")
    first = np.where(np.isnan(strip.first_token_s), strip.arrived_s, strip.first_token_s)
    last = np.where(np.isnan(strip.last_token_s), strip.delivered_s, strip.last_token_s)
    thick = max(0.6, row * (0.82 if row > 2 else 1.0))
    for kind, starts, ends, stroke in (
        ("held", last, strip.delivered_s, min(thick, 1.0)),
        ("wait", strip.arrived_s, first, thick),
        ("run", first, last, thick),
    ):
        yield make_element(
            "path", d=make_path(starts, ends, x, box), cls=f"{kind} {color}", stroke_width=round(stroke, 2)
        )
    if strip.most_out_s is not None:
        yield draw_line(x(strip.most_out_s), box.top, x(strip.most_out_s), box.base, "most-out")


def make_path(starts: Floats, ends: Floats, x: Linear, box: Box) -> str:
    """One phase of every request, as one path."""
    row = box.height / max(len(starts), 1)
    return "".join(
        f"M{x(start):.1f} {box.top + row * (index + 0.5):.1f}H{x(end):.1f}"
        for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
        if x(end) - x(start) >= 0.3
    )
