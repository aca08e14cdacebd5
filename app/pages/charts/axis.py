"""What axes are made of."""

from collections.abc import Iterator

from markupsafe import Markup

from app.pages.charts.scale import Scale, write_tick
from app.pages.charts.svg import Box, draw_line, draw_text


def draw_bottom(scale: Scale, box: Box, most: int, label: str) -> Iterator[Markup]:
    """Values below a box, each with a line up through it, and what they are."""
    for tick in scale.ticks(most):
        yield draw_line(scale(tick), box.top, scale(tick), box.base, "grid")
        yield draw_text(scale(tick), box.base + 16, write_tick(tick), "tick", "middle")
    yield draw_text((box.left + box.right) / 2, box.base + 34, label, "label", "middle")


def draw_left(scale: Scale, box: Box, most: int, label: str) -> Iterator[Markup]:
    """Values beside a box, each with a line across it, and above them what they are."""
    for tick in scale.ticks(most):
        yield draw_line(box.left, scale(tick), box.right, scale(tick), "grid")
        yield draw_text(box.left - 6, scale(tick) + 4, write_tick(tick), "tick", "end")
    yield draw_text(box.left, box.top - 10, label, "label")
