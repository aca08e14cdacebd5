"""What axes are made of."""

from collections.abc import Iterator

from markupsafe import Markup

from app.pages.charts.scale import Scale, tick_text
from app.pages.charts.svg import Box, line, text


def bottom(scale: Scale, box: Box, most: int, label: str) -> Iterator[Markup]:
    """Values below a box, each with a line up through it, and what they are."""
    for tick in scale.ticks(most):
        yield line(scale(tick), box.top, scale(tick), box.base, "grid")
        yield text(scale(tick), box.base + 16, tick_text(tick), "tick", "middle")
    yield text((box.left + box.right) / 2, box.base + 34, label, "label", "middle")


def left(scale: Scale, box: Box, most: int, label: str) -> Iterator[Markup]:
    """Values beside a box, each with a line across it, and above them what they are."""
    for tick in scale.ticks(most):
        yield line(box.left, scale(tick), box.right, scale(tick), "grid")
        yield text(box.left - 6, scale(tick) + 4, tick_text(tick), "tick", "end")
    yield text(box.left, box.top - 10, label, "label")
