"""Arms side by side: what they ask for, what they measured."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from app.format import NOTHING, number, spread
from app.judge.parity import compare_settings, flatten_settings
from app.judge.results import ArmReport
from app.measure.metrics import METRICS, Better, Kind
from app.pages.words import name_metric
from app.spec.resolution import ResolvedArm

SIDE_BY_SIDE = 5  # arms that stand in columns; more stand in rows
_SHOWN = ("p50", "p90", "p99")
_IN_ROWS = ("output_throughput", "duration_s", "e2el_ms.p50", "e2el_ms.p99", "ttft_ms.p50", "time_to_90pct_s")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting over all arms."""

    key: str
    values: tuple[str, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric, or one statistic of it, over all arms."""

    key: str
    unit: str
    better: Better
    values: tuple[str, ...]
    spreads: tuple[str, ...]


def list_settings(arms: Sequence[ResolvedArm], *, everything: bool) -> list[Setting]:
    """Settings in which arms differ, for people; or all there are."""
    flat = [flatten_settings(arm) | {"profile": arm.profile} for arm in arms]
    telling = {key for one in arms[1:] for key in compare_settings(arms[0], one)} | {"profile"}
    keys = dict.fromkeys(key for one in flat for key in one)
    rows = [
        Setting(key, tuple(_write_value(one, key) for one in flat), len({_write_value(one, key) for one in flat}) > 1)
        for key in sorted(keys, key=lambda key: (key not in telling, key))
    ]
    return rows if everything else [row for row in rows if row.differs and row.key in telling]


def _write_value(settings: dict[str, JsonValue], key: str) -> str:
    if key not in settings:
        return NOTHING
    value = settings[key]
    if value is None:
        return "left to vLLM" if key.startswith("engine.") else "none"
    return value if isinstance(value, str) else json.dumps(value)


def list_measurements(arms: Sequence[ArmReport]) -> list[Measurement]:
    """What was measured of any arm, as metrics have their order."""
    rows: list[Measurement] = []
    for key, metric in METRICS.items():
        found = [arm.metric(key) for arm in arms]
        if metric.kind is Kind.SCALAR:
            values, spreads = tuple(number(one.mean) for one in found), tuple(spread(one.std) for one in found)
            rows.append(Measurement(key, metric.unit, metric.better, values, spreads))
            continue
        for statistic in _SHOWN:
            values = tuple(number(getattr(one, statistic, None)) for one in found)
            rows.append(Measurement(f"{key}.{statistic}", metric.unit, metric.better, values, ("",) * len(values)))
    return [row for row in rows if any(value != NOTHING for value in row.values)]


def pick_main_measurements(arms: Sequence[ArmReport]) -> list[Measurement]:
    """The few that fit beside many arms."""
    found = {row.key: row for row in list_measurements(arms)}
    return [found[key] for key in _IN_ROWS if key in found]


def explain_missing(arms: Sequence[ArmReport]) -> dict[str, list[str]]:
    """Why a metric has no value in any arm: reason -> metrics."""
    reasons: dict[str, list[str]] = {}
    for key in METRICS:
        found = [arm.metric(key) for arm in arms]
        if found and all(one.mean is None for one in found):
            reasons.setdefault(found[0].missing or "not measured", []).append(name_metric(key))
    return reasons
