"""How numbers, times and names read."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup, escape

from app.judge.summary import percent
from app.measure.metrics import METRICS, Better

NOTHING = "–"
_NAMES = {
    "duration_s": "Duration",
    "output_throughput": "Output throughput",
    "total_token_throughput": "Total token throughput",
    "request_throughput": "Request throughput",
    "output_throughput_per_gpu": "Output throughput per GPU",
    "ttft_ms": "Time to first token",
    "tpot_ms": "Time per output token",
    "itl_ms": "Inter-token latency",
    "e2el_ms": "End-to-end latency",
    "engine_e2el_ms": "Latency in the engine",
    "delivery_ms": "Delivery delay",
    "queue_ms": "Engine queue",
    "client_queue_ms": "Client queue",
    "time_to_50pct_s": "Half of the tokens out",
    "time_to_90pct_s": "90 % of the tokens out",
    "tail_bubble_pct": "Tail bubble",
    "group_completion_s": "Group completion",
    "decode_steps": "Decode steps",
    "step_ms": "Step time",
    "running_requests": "Running requests",
    "kv_cache_usage_pct": "KV-cache use",
    "prefix_cache_hit_pct": "Prefix-cache hits",
    "preemptions": "Preemptions",
    "gpu_util_pct": "GPU utilisation",
    "sm_clock_mhz": "SM clock",
    "power_w": "Power",
    "energy_j_per_output_token": "Energy per output token",
    "request_goodput": "Goodput",
}
_RIGHT_TO_LEFT = ((0x0590, 0x08FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFF), (0x10800, 0x10FFF), (0x1E800, 0x1EFFF))


def metric_name(key: str) -> str:
    """`ttft_ms.p50` as people say it; a key of another version as it is."""
    base, _, statistic = key.partition(".")
    name = _NAMES.get(base) or (METRICS[base].key if base in METRICS else base)
    return f"{name.replace('_', ' ')} {statistic}".strip()


def metric_unit(key: str) -> str:
    """The unit of a metric's values."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.unit if metric else ""


def direction(key: str) -> Better:
    """Which way a metric should go."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.better if metric else Better.NEUTRAL


def formula(key: str) -> str:
    """How a metric is defined."""
    metric = METRICS.get(key.partition(".")[0])
    return metric.formula.replace("`", "") if metric else ""


def coded(text: str) -> Markup:
    """Text with `names` in it, as HTML."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(text.split("`"))
    )


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


def chance(value: float | None) -> str:
    """A p-value: below 0.0001 it is small, and how small says nothing."""
    if value is None:
        return NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}" if value >= 0.001 else f"{value:.4f}"


def spread(value: float | None) -> str:
    """A standard deviation: two digits of it matter."""
    if value is None:
        return ""
    digits = 0 if not value else max(0, 1 - math.floor(math.log10(abs(value))))
    return f"± {value:,.{digits}f}"


def share(value: float | None) -> str:
    """A share or a size of a change, in percent."""
    return NOTHING if value is None else unbroken(percent(value))


def signed(value: float | None) -> str:
    """A change in percent, with its sign."""
    return NOTHING if value is None else unbroken(percent(value, signed=True))


def unbroken(text: str) -> str:
    """Text in which no line ends between a number and its percent sign."""
    return text.replace(" %", "\u00a0%")


def fact_name(key: str) -> str:
    """A key of the environment: `gpu_memory_mib` is GPU memory, MiB."""
    name, _, unit = key.rpartition("_")
    known = {"mib": "MiB", "gib": "GiB", "w": "W", "mhz": "MHz"}
    text = f"{name}, {known[unit]}" if unit in known else key
    words = text.replace("_", " ").split(" ")
    return " ".join(word.upper() if word in {"gpu", "cpu", "os", "sm"} else word for word in words)


def interval(bounds: tuple[float, float] | None) -> str:
    """Both ends of an interval in percent."""
    return NOTHING if bounds is None else f"{signed(bounds[0])} to {signed(bounds[1])}"


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


def shortened(text: str, most: int) -> str:
    """Text that fits a chart's margin."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def isolate(text: str) -> str:
    """A name that keeps its direction to itself, where no markup can do that: in a chart, in a title."""
    return f"\u2068{text}\u2069" if is_right_to_left(text) else text


def isolated_in(text: str, names: Iterable[str]) -> str:
    """A sentence in which such names are kept from turning what stands beside them round."""
    for name in sorted({name for name in names if is_right_to_left(name)}, key=len, reverse=True):
        text = text.replace(name, isolate(name))
    return text


def is_right_to_left(text: str) -> bool:
    """Whether any of it is written so, or says that it is."""
    return any(low <= ord(one) <= high for one in text for low, high in _RIGHT_TO_LEFT) or any(
        one in "\u202b\u202e\u2067" for one in text
    )
