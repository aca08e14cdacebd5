"""All that a part found, in one small document."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.measure.metrics import TrialSummary
from app.measure.records import EngineSample, RequestRecord, StartedArm
from benchmarks.gpu.expectations import judge
from benchmarks.gpu.naps import beside_trials, naps
from benchmarks.gpu.parts import Part
from benchmarks.gpu.telemetry import Smi, against_smi, gpus, timeline, times

Object = dict[str, Any]

_ARM_METRICS = ("output_throughput", "duration_s", "gpu_util_pct", "sm_clock_mhz", "power_w")
_COMPARED = (
    "metric",
    "candidate",
    "baseline",
    "change_pct",
    "interval_pct",
    "pairs",
    "analysis",
    "sd_pct",
    "position_effect_pct",
    "detectable_effect_pct",
    "verdict",
    "within_margin",
    "reasons",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an experiment left behind."""

    experiment: Object
    results: Object
    trials: Sequence[TrialSummary] = ()
    arms: Sequence[StartedArm] = ()
    rollouts: Sequence[tuple[Sequence[RequestRecord], Sequence[EngineSample]]] = ()
    engine_logs: Sequence[str] = ()
    smi: Sequence[Smi] = field(default=())


def digest(part: Part, found: Evidence) -> Object:
    """The part in figures, with every expectation judged."""
    experiment, results = found.experiment, found.results
    plan = experiment["plan"]["details"]
    engine = {name: number for number, group in enumerate(plan["engines"]) for name in group}
    return {
        "about": part.about,
        "experiment_id": experiment["id"],
        "status": experiment["status"],
        "error": experiment["error"],
        "summary": results["summary"],
        "blocks_planned": experiment["spec"]["plan"]["blocks"],
        "trials": len(found.trials),
        "engines": len(plan["engines"]),
        "gpu_s": _gpu_s(experiment, results),
        "expectations": [judge(expected, results) for expected in part.expect],
        "arms": [_arm(arm, found.arms) for arm in results["arms"]],
        "comparisons": [{key: one[key] for key in _COMPARED} for one in results["comparisons"] if one["primary"]],
        "parity": _parity(results["parity"]),
        "equal_work": None if results["fairness"] is None else results["fairness"]["equal"],
        "warnings": [warning["detail"] for warning in results["warnings"]],
        "environment": results["environment"],
        "taking_turns": naps(found.engine_logs) | beside_trials(found.trials, engine),
        "telemetry": {
            "times": times([record for records, _ in found.rollouts for record in records]),
            "timeline": timeline(found.rollouts),
            "nvml": against_smi(found.trials, found.smi),
            "gpus": gpus(found.trials),
        },
    }


def _gpu_s(experiment: Object, results: Object) -> float | None:
    """Seconds from the claim to the end, on every GPU that was held."""
    began, ended = experiment["started_at"], experiment["finished_at"]
    if began is None or ended is None:
        return None
    held = (results["environment"] or {}).get("gpus") or 0
    return held * (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def _arm(arm: Object, started: Sequence[StartedArm]) -> Object:
    start_s = next((one.start_s for one in started if one.arm == arm["name"]), None)
    return {"name": arm["name"], "trials": arm["trials"], "start_s": start_s} | {
        metric: {key: arm[metric][key] for key in ("mean", "std")} for metric in _ARM_METRICS
    }


def _parity(parity: Object | None) -> Object | None:
    if parity is None:
        return None
    return {
        "equal": parity["equal"],
        "declared": [difference["key"] for difference in parity["declared"]],
        "undeclared": parity["undeclared"],
    }
