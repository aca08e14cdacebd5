"""How names read on a page, and numbers where no line may break."""

from collections.abc import Iterable

from markupsafe import Markup, escape

from app import format
from app.measure.metrics import METRICS, Better

_RIGHT_TO_LEFT = ((0x0590, 0x08FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFF), (0x10800, 0x10FFF), (0x1E800, 0x1EFFF))


def name_metric(key: str) -> str:
    """`ttft_ms.p50` as people say it; a key of another version as it is."""
    base, _, statistic = key.partition(".")
    name = METRICS[base].label if base in METRICS else base.replace("_", " ")
    return f"{name} {statistic}".strip()


def find_unit(key: str) -> str:
    """The unit of a metric's values."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.unit if metric else ""


def find_direction(key: str) -> Better:
    """Which way a metric should go."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.better if metric else Better.NEUTRAL


def find_formula(key: str) -> str:
    """How a metric is defined."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.formula.replace("`", "") if metric else ""


def mark_code(text: str) -> Markup:
    """Text with `names` in it, as HTML."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(text.split("`"))
    )


def write_share(value: float | None) -> str:
    """A share or a size of a change, in percent."""
    return keep_together(format.percent(value))


def write_change(value: float | None) -> str:
    """A change in percent, with its sign."""
    return keep_together(format.percent(value, signed=True))


def keep_together(text: str) -> str:
    """Text in which no line ends between a number and its percent sign."""
    return text.replace(" %", "\u00a0%")


def name_fact(key: str) -> str:
    """A key of the environment: `gpu_memory_mib` is GPU memory, MiB."""
    name, _, unit = key.rpartition("_")
    known = {"mib": "MiB", "gib": "GiB", "w": "W", "mhz": "MHz"}
    text = f"{name}, {known[unit]}" if unit in known else key
    words = text.replace("_", " ").split(" ")
    return " ".join(word.upper() if word in {"gpu", "cpu", "os", "sm"} else word for word in words)


def write_interval(bounds: tuple[float, float] | None) -> str:
    """Both ends of an interval in percent."""
    return keep_together(format.interval(bounds))


def capitalize(text: str) -> str:
    """A sentence of its own, as it stands but for its first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def shorten(text: str, most: int) -> str:
    """Text that fits a chart's margin."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def isolate(text: str) -> str:
    """A name that keeps its direction to itself, where no markup can do that: in a chart, in a title."""
    return f"\u2068{text}\u2069" if is_right_to_left(text) else text


def isolate_names(text: str, names: Iterable[str]) -> str:
    """A sentence in which such names are kept from turning what stands beside them round."""
    for name in sorted({name for name in names if is_right_to_left(name)}, key=len, reverse=True):
        text = text.replace(name, isolate(name))
    return text


def is_right_to_left(text: str) -> bool:
    """Whether any of it is written so, or says that it is."""
    return any(low <= ord(one) <= high for one in text for low, high in _RIGHT_TO_LEFT) or any(
        one in "\u202b\u202e\u2067" for one in text
    )
