"""Numbers and times as people read them: in sentences, terminals, pages and exports alike."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

NOTHING = "–"


def percent(value: float | None, *, signed: bool = False) -> str:
    """`−0.4 %`: with a typographic minus, and enough digits to tell it from 0."""
    if value is None:
        return NOTHING
    size = abs(value)
    digits = 1 if size >= 0.1 or size < 0.0005 else 2 if size >= 0.01 else 3
    text = f"{size:,.{digits}f}"
    sign = "" if not float(text.replace(",", "")) else "−" if value < 0 else "+" if signed else ""
    return f"{sign}{text} %"


def interval(bounds: tuple[float, float] | None) -> str:
    """Both ends of an interval in percent."""
    return NOTHING if bounds is None else f"{percent(bounds[0], signed=True)} to {percent(bounds[1], signed=True)}"


def number(value: object) -> str:
    """Four digits that matter: 8,240 and 0.01234."""
    if value is None:
        return NOTHING
    if not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000 or (isinstance(value, int) and not isinstance(value, bool)):
        text = f"{value:,.0f}"
    elif size == 0:
        text = "0"
    else:
        text = f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"
        text = text.rstrip("0").rstrip(".") if size < 1 else text
    return text.replace("-", "−")


def spread(value: float | None) -> str:
    """A standard deviation: two digits of it matter."""
    if value is None:
        return ""
    digits = 0 if not value else max(0, 1 - math.floor(math.log10(abs(value))))
    return f"± {value:,.{digits}f}"


def chance(value: float | None) -> str:
    """A p-value: below 0.0001 it is small, and how small says nothing."""
    if value is None:
        return NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}" if value >= 0.001 else f"{value:.4f}"


def seconds(value: float | None) -> str:
    """A duration: 1 h 5 min, 3 min 20 s, 4.2 s."""
    if value is None:
        return NOTHING
    if value >= 3600:
        return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
    if value >= 60:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long since."""
    if moment is None:
        return NOTHING
    gone = ((now or datetime.now(UTC)) - moment).total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if gone >= size:
            return f"{gone / size:.0f} {unit} ago"
    return "just now" if gone < 5 else f"{gone:.0f} s ago"


def utc(moment: datetime | None) -> str:
    """A moment in UTC."""
    return NOTHING if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def plural(count: int, noun: str) -> str:
    """`1 block`, `6 blocks`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def spreadsheet_cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula stays text; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


MOST_QUOTED = 60  # characters of what somebody sent


def clip(text: str, most: int = MOST_QUOTED) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else f"{text[: most - 3]}…"


def quoted(text: str) -> str:
    """What somebody sent, short, in quotes."""
    return repr(text) if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 3]!r}…"


def listing(names: Sequence[str], most: int = 10) -> str:
    """Names in a sentence, the first of many."""
    left = len(names) - most
    return ", ".join(names) if left <= 0 else f"{', '.join(names[:most])} and {left} more"
