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
from app.measure.formulas import Basis, NoValue
from app.measure.records import Conditions, HarnessUse, TrialResult, TrialState
from app.measure.work import Work, sum_work
from app.spec.experiment import ServiceLevels
from app.spec.plan import PlannedTrial
from app.stats.sample import explain_no_percentile


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
PART_STATISTICS: tuple[str, ...] = ("mean", "p99")  # means of parts add up


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table; its key is the name of its function, and its formula, which users read, the docstring."""

    measure: Callable[[Basis], float | Floats]
    label: str
    unit: str
    better: Better
    kind: Kind
    primary: bool = False
    compared: bool = True
    compared_statistics: tuple[str, ...] = COMPARED_STATISTICS

    @property
    def key(self) -> str:
        """The key of its values; `ttft_ms.p50` for a statistic of a distribution."""
        return self.measure.__name__

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
        if self.kind is Kind.SCALAR:
            return (self.key,)
        return tuple(f"{self.key}.{name}" for name in self.compared_statistics)


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
    work: Work | None
    harness: HarnessUse | None
    conditions: Conditions | None
    error: str | None


def summarise(result: TrialResult, attempt: int, *, gpus: int, service_levels: ServiceLevels) -> TrialSummary:
    """The trial as it is stored beside its records. `gpus`: how many the arm's engine runs on."""
    metrics, missing = measure_trial(result, gpus, service_levels)
    succeeded = result.state is TrialState.SUCCEEDED
    return TrialSummary(
        planned=result.planned,
        attempt=attempt,
        state=result.state,
        started_at=result.started_at,
        wall_s=result.wall_s,
        metrics=metrics,
        missing=missing,
        work=sum_work(result.records) if succeeded else None,
        harness=result.harness,
        conditions=result.conditions,
        error=result.error,
    )


def measure_trial(
    result: TrialResult, gpus: int, service_levels: ServiceLevels
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Every metric of one trial, and why those that are None are."""
    if result.state is not TrialState.SUCCEEDED or not result.records:
        reason = "no sample was generated" if result.state is TrialState.SUCCEEDED else "the trial failed"
        keys = [key for metric in METRICS.values() for key in metric.value_keys]
        return dict.fromkeys(keys), dict.fromkeys(keys, reason)
    columns = Columns.of(result.records)
    basis = Basis(columns, result.timeline, result.conditions, gpus, service_levels, result.harness)
    return measure(basis)


def measure(basis: Basis) -> tuple[dict[str, float | None], dict[str, str]]:
    """Every metric of a basis."""
    metrics: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    for metric in METRICS.values():
        try:
            measured = metric.measure(basis)
        except NoValue as none:
            values: dict[str, float | str] = dict.fromkeys(metric.value_keys, str(none))
        else:
            values = (
                {metric.key: measured}
                if isinstance(measured, float)
                else dict(list_statistics(metric.key, measured, len(basis.columns)))
            )
        for key, value in values.items():
            metrics[key] = None if isinstance(value, str) else value
            if isinstance(value, str):
                missing[key] = value
    return metrics, missing


def list_statistics(key: str, values: Floats, samples: int) -> Iterator[tuple[str, float | str]]:
    """A value per statistic, or the reason why there is none.

    A percentile rests on no more values than there are samples: of the gaps of one sample, many can be long at once.
    """
    independent = min(len(values), samples)
    yield f"{key}.mean", float(values.mean())
    yield f"{key}.std", float(values.std(ddof=1)) if len(values) > 1 else "one value has no spread"
    asked = {name: percent for name, percent in PERCENTILES.items() if not explain_no_percentile(independent, percent)}
    found = dict(zip(asked, np.percentile(values, list(asked.values())).tolist(), strict=True))
    for name, percent in PERCENTILES.items():
        why = explain_no_percentile(independent, percent)
        pooled = f" samples with {len(values)} between them" if independent < len(values) else ""
        yield f"{key}.{name}", found[name] if why is None else why + pooled


# --- the table -----------------------------------------------------------------------------------------------------

_ROWS = (
    Metric(formulas.duration_s, "Duration", "s", Better.LOWER, Kind.SCALAR, primary=True),
    Metric(formulas.output_throughput, "Output throughput", "tokens/s", Better.HIGHER, Kind.SCALAR, primary=True),
    Metric(
        formulas.total_token_throughput,
        "Total token throughput",
        "tokens/s",
        Better.HIGHER,
        Kind.SCALAR,
        compared=False,
    ),
    Metric(formulas.request_throughput, "Request throughput", "samples/s", Better.HIGHER, Kind.SCALAR, compared=False),
    Metric(
        formulas.output_throughput_per_gpu,
        "Output throughput per GPU",
        "tokens/s",
        Better.HIGHER,
        Kind.SCALAR,
        compared=False,
    ),
    Metric(formulas.ttft_ms, "Time to first token", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.tpot_ms, "Time per output token", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.itl_ms, "Inter-token latency", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.e2el_ms, "End-to-end latency", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.engine_e2el_ms, "Latency until the engine is done", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.delivery_ms, "Delivery delay", "ms", Better.LOWER, Kind.DISTRIBUTION, compared=False),
    Metric(formulas.queue_ms, "Engine queue", "ms", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.client_queue_ms, "Client queue", "ms", Better.LOWER, Kind.DISTRIBUTION),
    *(
        Metric(measured, label, "ms", Better.LOWER, Kind.DISTRIBUTION, compared_statistics=PART_STATISTICS)
        for measured, label in (
            (formulas.submission_ms, "Way into the engine"),
            (formulas.transport_out_ms, "Transport out"),
            (formulas.preparation_ms, "Preparation"),
            (formulas.hand_in_ms, "Hand-in"),
            (formulas.prefill_ms, "Prefill"),
            (formulas.decode_ms, "Decode"),
            (formulas.hand_over_ms, "Hand-over"),
            (formulas.transport_back_ms, "Transport back"),
        )
    ),
    Metric(formulas.time_to_50pct_s, "Half of the tokens out", "s", Better.LOWER, Kind.SCALAR),
    Metric(formulas.time_to_90pct_s, "90 % of the tokens out", "s", Better.LOWER, Kind.SCALAR),
    Metric(formulas.tail_bubble_pct, "Tail bubble", "%", Better.LOWER, Kind.SCALAR),
    Metric(formulas.group_completion_s, "Group completion", "s", Better.LOWER, Kind.DISTRIBUTION),
    Metric(formulas.decode_steps, "Decode steps", "steps", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.step_ms, "Step time", "ms", Better.LOWER, Kind.SCALAR),
    Metric(formulas.longest_step_ms, "Longest step", "ms", Better.LOWER, Kind.SCALAR),
    Metric(formulas.accepted_tokens_per_draft, "Accepted per draft", "tokens", Better.HIGHER, Kind.SCALAR),
    Metric(formulas.draft_acceptance_pct, "Accepted of drafted tokens", "%", Better.HIGHER, Kind.SCALAR),
    Metric(formulas.event_loop_lag_ms, "Caller's event-loop lag", "ms", Better.LOWER, Kind.SCALAR),
    Metric(formulas.server_lag_ms, "Server's event-loop lag", "ms", Better.LOWER, Kind.SCALAR),
    Metric(formulas.running_requests, "Running requests", "requests", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.kv_cache_usage_pct, "KV-cache use", "%", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.prefix_cache_hit_pct, "Prefix-cache hits", "%", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.preemptions, "Preemptions", "preemptions", Better.LOWER, Kind.SCALAR),
    Metric(formulas.gpu_util_pct, "GPU utilisation", "%", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.sm_clock_mhz, "SM clock", "MHz", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.power_w, "Power", "W", Better.NEUTRAL, Kind.SCALAR),
    Metric(formulas.energy_j_per_output_token, "Energy per output token", "J/token", Better.LOWER, Kind.SCALAR),
    Metric(formulas.request_goodput, "Goodput", "samples/s", Better.HIGHER, Kind.SCALAR),
)

METRICS: dict[str, Metric] = {metric.key: metric for metric in _ROWS}
