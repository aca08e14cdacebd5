"""Which line is which arm's."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from app.pages.charts.svg import line, text
from app.pages.words import isolate, shortened

MOST = 8  # arms one chart can tell apart
_LETTER = 6.7  # width of a letter, about
_ROW = 18


def hue(index: int) -> str:
    """The class of an arm's colour, by its place in the spec."""
    return f"arm-{index % MOST}"


def legend(names: Sequence[tuple[str, int]], x: float, y: float, width: float) -> tuple[list[Markup], float]:
    """Names with their colours, in as many rows as they take; and the height of it."""
    parts: list[Markup] = []
    at, row = x, 0
    for name, index in names:
        short = shortened(name, 28)
        needs = 26 + len(short) * _LETTER + 14
        if at > x and at + needs > x + width:
            at, row = x, row + 1
        parts += _entry(short, name, index, at, y + row * _ROW)
        at += needs
    return parts, (row + 1) * _ROW


def _entry(short: str, name: str, index: int, x: float, y: float) -> Iterator[Markup]:
    yield line(x, y - 4, x + 20, y - 4, f"series {hue(index)}")
    yield text(x + 26, y, isolate(short), "name", full=name)
