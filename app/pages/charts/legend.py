"""Which line is which arm's."""

from collections.abc import Sequence

from markupsafe import Markup

from app.pages.charts.svg import draw_line, draw_text
from app.pages.words import isolate, shorten

MOST = 8  # arms one chart can tell apart
_LETTER = 6.7  # width of a letter, about
_ROW = 18


def choose_hue(index: int) -> str:
    """The class of an arm's colour, by its place in the spec."""
    return f"arm-{index % MOST}"


def draw_legend(names: Sequence[tuple[str, int]], x: float, y: float, width: float) -> tuple[list[Markup], float]:
    """Names with their colours, in as many rows as they take; and the height of it."""
    parts: list[Markup] = []
    at, row = x, 0
    for name, index in names:
        short = shorten(name, 28)
        needs = 26 + len(short) * _LETTER + 14
        if at > x and at + needs > x + width:
            at, row = x, row + 1
        base = y + row * _ROW
        parts.append(draw_line(at, base - 4, at + 20, base - 4, f"series {choose_hue(index)}"))
        parts.append(draw_text(at + 26, base, isolate(short), "name", full=name))
        at += needs
    return parts, (row + 1) * _ROW
