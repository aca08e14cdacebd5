"""SVG as text: elements, escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDE, NARROW = 760, 340
Part = Markup | str


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a chart, in pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def base(self) -> float:
        """Its lower edge."""
        return self.top + self.height


def make_element(name: str, *children: Part, **attributes: object) -> Markup:
    """One element; `cls` is class, and None leaves an attribute out."""
    written = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{_write_value(value)}"'
        for key, value in attributes.items()
        if value is not None and value != ""
    )
    inside = "".join(str(escape(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")  # noqa: S704 - escaped


def draw_picture(width: float, height: float, label: str, parts: Iterable[Part]) -> Markup:
    """A whole chart; screen readers get its label."""
    return make_element(
        "svg",
        *parts,
        viewBox=f"0 0 {_write_number(width)} {_write_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        cls="chart",
        xmlns="http://www.w3.org/2000/svg",
    )


def draw_text(
    x: float, y: float, content: str, cls: str, anchor: str | None = None, *, full: str | None = None
) -> Markup:
    """A line of text; `full` is shown to who points at it."""
    more = (make_element("title", full),) if full is not None and full != content else ()
    return make_element("text", content, *more, x=x, y=y, cls=cls, text_anchor=anchor)


def draw_line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """A straight line."""
    return make_element("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def draw_box(box: Box, cls: str, *, title: str | None = None) -> Markup:
    """A filled box."""
    inside = () if title is None else (make_element("title", title),)
    return make_element(
        "rect", *inside, x=box.left, y=box.top, width=max(box.width, 0.0), height=max(box.height, 0.0), cls=cls
    )


def make_path(points: Sequence[tuple[float, float]], *, steps: bool = False) -> str:
    """A polyline as path data; `steps` holds each value until the next."""
    if not points:
        return ""
    found = [f"M{_write_number(points[0][0])} {_write_number(points[0][1])}"]
    for x, y in points[1:]:
        found.append(f"H{_write_number(x)}V{_write_number(y)}" if steps else f"L{_write_number(x)} {_write_number(y)}")
    return "".join(found)


def show_both(wide: Markup, narrow: Markup) -> Markup:
    """A chart for desks and one for phones, of which the style sheet shows one."""
    return make_element("div", wide, cls="wide") + make_element("div", narrow, cls="narrow")


def _write_value(value: object) -> str:
    return _write_number(value) if isinstance(value, float) else str(escape(value))


def _write_number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
