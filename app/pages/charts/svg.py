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


def el(name: str, *children: Part, **attributes: object) -> Markup:
    """One element; `cls` is class, and None leaves an attribute out."""
    written = "".join(
        f' {_name(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None and value != ""
    )
    inside = "".join(str(escape(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")  # noqa: S704 - escaped


def picture(width: float, height: float, label: str, parts: Iterable[Part]) -> Markup:
    """A whole chart; screen readers get its label."""
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        cls="chart",
        xmlns="http://www.w3.org/2000/svg",
    )


def text(x: float, y: float, content: str, cls: str, anchor: str | None = None, *, full: str | None = None) -> Markup:
    """A line of text; `full` is shown to who points at it."""
    more = (el("title", full),) if full is not None and full != content else ()
    return el("text", content, *more, x=x, y=y, cls=cls, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """A straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def rect(box: Box, cls: str, *, title: str | None = None) -> Markup:
    """A filled box."""
    inside = () if title is None else (el("title", title),)
    return el("rect", *inside, x=box.left, y=box.top, width=max(box.width, 0.0), height=max(box.height, 0.0), cls=cls)


def path_of(points: Sequence[tuple[float, float]], *, steps: bool = False) -> str:
    """A polyline as path data; `steps` holds each value until the next."""
    if not points:
        return ""
    found = [f"M{_number(points[0][0])} {_number(points[0][1])}"]
    for x, y in points[1:]:
        found.append(f"H{_number(x)}V{_number(y)}" if steps else f"L{_number(x)} {_number(y)}")
    return "".join(found)


def both(wide: Markup, narrow: Markup) -> Markup:
    """A chart for desks and one for phones, of which the style sheet shows one."""
    return el("div", wide, cls="wide") + el("div", narrow, cls="narrow")


def _name(key: str) -> str:
    return "class" if key == "cls" else key.replace("_", "-")


def _value(value: object) -> str:
    return _number(value) if isinstance(value, float) else str(escape(value))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
