"""A comparison's blocks in the space of a word, for lists."""

from collections.abc import Sequence

from markupsafe import Markup

from app.pages.charts.svg import make_element, make_path
from app.pages.words import write_change

WIDTH, HEIGHT = 88, 24
# An image of its own sees no style sheet: these read on light and on dark ground.
_LINE, _ZERO, _BAND = "#7a869a", "#9aa3b2", "#9aa3b2"
_DOTS = {"slower": "#d2603a", "faster": "#2f9e63", "same": "#5a8dee", "confounded": "#c08a1e"}


def draw_sparkline(changes_pct: Sequence[float], margin_pct: float, verdict: str | None) -> Markup:
    """Change of the candidate, block by block, around no change."""
    reach = max([*(abs(change) for change in changes_pct), margin_pct]) * 1.15 or 1.0
    label = (
        f"change block by block: {', '.join(write_change(change) for change in changes_pct[:12])}"
        if changes_pct
        else "no block yet"
    )

    def y(change: float) -> float:
        return HEIGHT / 2 - change / reach * (HEIGHT / 2 - 2)

    step = (WIDTH - 12) / max(len(changes_pct) - 1, 1)
    points = [(6 + index * step, y(change)) for index, change in enumerate(changes_pct)]
    band = y(-margin_pct) - y(margin_pct)
    dot = _DOTS.get(verdict or "", _LINE)
    return make_element(
        "svg",
        make_element("title", label),
        make_element("rect", x=0, y=y(margin_pct), width=WIDTH, height=band, fill=_BAND, fill_opacity=0.22),
        make_element("line", x1=0, y1=HEIGHT / 2, x2=WIDTH, y2=HEIGHT / 2, stroke=_ZERO, stroke_width=1),
        make_element("path", d=make_path(points), fill="none", stroke=_LINE, stroke_width=1.2)
        if len(points) > 1
        else "",
        *(make_element("circle", cx=px, cy=py, r=2, fill=dot) for px, py in points),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
    )
