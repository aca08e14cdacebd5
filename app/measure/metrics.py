"""What is measured: one row per metric. Missing is None with a reason, never 0.

The keys are those of `vllm bench serve` where it has the metric; the unit is in the key. A distribution has one value
per statistic: `ttft_ms.p50`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.measure import formulas
from app.measure.columns import Columns, Floats
from app.measure.formulas import NoValue, TrialView
from app.measure.records import Conditions, HarnessUse, TrialResult, TrialState
from app.measure.work import TrialWork, work_of
from app.spec.experiment import ServiceLevels
from app.spec.plan import PlannedTrial
from app.stats.sample import why_no_percentile


class Better(StrEnum):
    """Which way a metric should go; `neutral` ones describe a trial and are never compared."""

    HIGHER = "higher"
    LOWER = "lower"
    NEUTRAL = "neutral"


class Kind(StrEnum):
    """One value per trial, or a distribution over its samples."""

    SCALAR = "scalar"
    DISTRIBUTION = "distribution"


PERCENTILES: dict[str, float] = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
STATISTICS: tuple[str, ...] = ("mean", "std", *PERCENTILES)
COMPARED_STATISTICS: tuple[str, ...] = ("p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table; its formula, which users read, is the docstring of its function."""

    key: str
    unit: str
    better: Better
    kind: Kind
    measure: Callable[[TrialView], float | Floats]
    primary: bool = False
    compared: bool = True

    @property
    def formula(self) -> str:
        """The definition in words."""
        return " ".join((self.measure.__doc__ or "").split())

    @property
    def value_keys(self) -> tuple[str, ...]:
        """The keys of its values in a trial: its own, or one per statistic."""
        return (self.key,) if self.kind is Kind.SCALAR else tuple(f"{self.key}.{name}" for name in STATISTICS)

    @property
    def compared_keys(self) -> tuple[str, ...]:
        """Those of its values that arms are compared in."""
        if not self.compared or self.better is Better.NEUTRAL:
            return ()
        return (self.key,) if self.kind is Kind.SCALAR else tuple(f"{self.key}.{name}" for name in COMPARED_STATISTICS)


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """A stored trial without its request records: all that results are made of."""

    planned: PlannedTrial
    attempt: int
    state: TrialState
    started_at: float  # seconds since the epoch
    wall_s: float
    metrics: dict[str, float | None]  # metric key -> value; "ttft_ms.p50" for a percentile
    missing: dict[str, str]  # metric key -> why it is None
    work: TrialWork | None
    harness: HarnessUse | None
    conditions: Conditions | None
    error: str | None


def summarise(result: TrialResult, attempt: int, *, gpus: int, service_levels: ServiceLevels) -> TrialSummary:
    """The trial as it is stored beside its records. `gpus`: how many the arm's engine runs on."""
    metrics, missing = trial_metrics(result, gpus, service_levels)
    succeeded = result.state is TrialState.SUCCEEDED
    return TrialSummary(
        planned=result.planned,
        attempt=attempt,
        state=result.state,
        started_at=result.started_at,
        wall_s=result.wall_s,
        metrics=metrics,
        missing=missing,
        work=work_of(result.records) if succeeded else None,
        harness=result.harness,
        conditions=result.conditions,
        error=result.error,
    )


def trial_metrics(
    result: TrialResult, gpus: int, service_levels: ServiceLevels
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Every metric of one trial, and why those that are None are."""
    reason = _why_nothing(result)
    if reason is not None:
        keys = [key for metric in METRICS.values() for key in metric.value_keys]
        return dict.fromkeys(keys), dict.fromkeys(keys, reason)
    view = TrialView(Columns.of(result.records), result.timeline, result.conditions, gpus, service_levels)
    return measure(view)


def measure(view: TrialView) -> tuple[dict[str, float | None], dict[str, str]]:
    """Every metric of a view."""
    metrics: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    for metric in METRICS.values():
        try:
            measured = metric.measure(view)
        except NoValue as none:
            values: dict[str, float | str] = dict.fromkeys(metric.value_keys, str(none))
        else:
            values = {metric.key: measured} if isinstance(measured, float) else dict(_statistics(metric.key, measured))
        for key, value in values.items():
            metrics[key] = None if isinstance(value, str) else value
            if isinstance(value, str):
                missing[key] = value
    return metrics, missing


def _why_nothing(result: TrialResult) -> str | None:
    if result.state is not TrialState.SUCCEEDED:
        return "the trial failed"
    return None if result.records else "no sample was generated"


def _statistics(key: str, values: Floats) -> Iterator[tuple[str, float | str]]:
    """A value per statistic, or the reason why there is none."""
    yield f"{key}.mean", float(values.mean())
    yield f"{key}.std", float(values.std(ddof=1)) if len(values) > 1 else "one value has no spread"
    asked = {name: percent for name, percent in PERCENTILES.items() if not why_no_percentile(len(values), percent)}
    found = dict(zip(asked, np.percentile(values, list(asked.values())).tolist(), strict=True))
    for name, percent in PERCENTILES.items():
        yield f"{key}.{name}", found[name] if name in found else why_no_percentile(len(values), percent) or ""


# --- the table -----------------------------------------------------------------------------------------------------

_ROWS = (
    Metric("duration_s", "s", Better.LOWER, Kind.SCALAR, formulas.duration_s, primary=True),
    Metric("output_throughput", "tokens/s", Better.HIGHER, Kind.SCALAR, formulas.output_throughput, primary=True),
    Metric(
        "total_token_throughput",
        "tokens/s",
        Better.HIGHER,
        Kind.SCALAR,
        formulas.total_token_throughput,
        compared=False,
    ),
    Metric("request_throughput", "samples/s", Better.HIGHER, Kind.SCALAR, formulas.request_throughput, compared=False),
    Metric(
        "output_throughput_per_gpu",
        "tokens/s",
        Better.HIGHER,
        Kind.SCALAR,
        formulas.output_throughput_per_gpu,
        compared=False,
    ),
    Metric("ttft_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.ttft_ms),
    Metric("tpot_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.tpot_ms),
    Metric("itl_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.itl_ms),
    Metric("e2el_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.e2el_ms),
    Metric("engine_e2el_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.engine_e2el_ms),
    Metric("delivery_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.delivery_ms, compared=False),
    Metric("queue_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.queue_ms),
    Metric("client_queue_ms", "ms", Better.LOWER, Kind.DISTRIBUTION, formulas.client_queue_ms, compared=False),
    Metric("time_to_50pct_s", "s", Better.LOWER, Kind.SCALAR, formulas.time_to_50pct_s),
    Metric("time_to_90pct_s", "s", Better.LOWER, Kind.SCALAR, formulas.time_to_90pct_s),
    Metric("tail_bubble_pct", "%", Better.LOWER, Kind.SCALAR, formulas.tail_bubble_pct),
    Metric("group_completion_s", "s", Better.LOWER, Kind.DISTRIBUTION, formulas.group_completion_s),
    Metric("decode_steps", "steps", Better.NEUTRAL, Kind.SCALAR, formulas.decode_steps),
    Metric("step_ms", "ms", Better.LOWER, Kind.SCALAR, formulas.step_ms),
    Metric("running_requests", "requests", Better.NEUTRAL, Kind.SCALAR, formulas.running_requests),
    Metric("kv_cache_usage_pct", "%", Better.NEUTRAL, Kind.SCALAR, formulas.kv_cache_usage_pct),
    Metric("prefix_cache_hit_pct", "%", Better.NEUTRAL, Kind.SCALAR, formulas.prefix_cache_hit_pct),
    Metric("preemptions", "preemptions", Better.LOWER, Kind.SCALAR, formulas.preemptions),
    Metric("gpu_util_pct", "%", Better.NEUTRAL, Kind.SCALAR, formulas.gpu_util_pct),
    Metric("sm_clock_mhz", "MHz", Better.NEUTRAL, Kind.SCALAR, formulas.sm_clock_mhz),
    Metric("power_w", "W", Better.NEUTRAL, Kind.SCALAR, formulas.power_w),
    Metric("energy_j_per_output_token", "J/token", Better.LOWER, Kind.SCALAR, formulas.energy_j_per_output_token),
    Metric("request_goodput", "samples/s", Better.HIGHER, Kind.SCALAR, formulas.request_goodput),
)

METRICS: dict[str, Metric] = {metric.key: metric for metric in _ROWS}
