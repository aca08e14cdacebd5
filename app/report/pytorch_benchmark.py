"""Results as the PyTorch benchmark database takes them."""

from collections.abc import Iterator
from typing import Any

from app.measure.metrics import METRICS, Kind
from app.spec.resolution import ResolvedArm, ResolvedExperiment

Object = dict[str, Any]


def write(results: Object, resolved: ResolvedExperiment, name: str) -> list[Object]:
    """One record per arm and metric, as the PyTorch benchmark database takes them."""
    settings = {arm.name: arm for arm in resolved.arms}
    return [record for arm in results["arms"] for record in list_records(results, arm, settings[arm["name"]], name)]


def list_records(results: Object, arm: Object, settings: ResolvedArm, name: str) -> Iterator[Object]:
    """A record for every metric of an arm."""
    benchmark = {
        "name": "Rollout Lab",
        "mode": "inference",
        "dtype": settings.engine.dtype,
        "extra_info": {
            "experiment_id": results["experiment_id"],
            "experiment": name,
            "arm": arm["name"],
            "profile": settings.profile,
            "simulated": arm["simulated"],
            "args": settings.engine.model_dump(mode="json", exclude_none=True),
            "driver": settings.driver.model_dump(mode="json"),
            "environment": results["environment"],
        },
    }
    for key, metric in METRICS.items():
        found = arm[key]
        values = (
            {key: found["per_trial"]}
            if metric.kind is Kind.SCALAR
            else {f"{key}.{statistic}": [found[statistic]] for statistic in ("mean", "p50", "p90", "p99")}
        )
        about = {
            "unit": metric.unit,
            "better": metric.better,
            "formula": metric.formula,
            "values": "one per trial" if metric.kind is Kind.SCALAR else "mean over the trials",
        }
        for full, measured in values.items():
            known = [value for value in measured if value is not None]
            if known:
                yield {
                    "benchmark": benchmark,
                    "model": {"name": settings.model.id},
                    "metric": {"name": full, "benchmark_values": known, "extra_info": about},
                }
