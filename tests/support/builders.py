"""Small complete objects; a test names only what it is about."""

import hashlib
from collections.abc import Mapping
from typing import Any

from app.measure.metrics import TrialSummary
from app.measure.records import (
    Conditions,
    EngineSample,
    GpuConditions,
    HarnessUse,
    Neighbour,
    RequestRecord,
    Spread,
    StartedArm,
    TrialResult,
    TrialState,
)
from app.measure.work import Work
from app.spec.experiment import Experiment
from app.spec.plan import Phase, PlannedTrial


def a_spec(**changes: Any) -> Experiment:
    """Sync against async on the tiny model; a keyword replaces a top-level field: `a_spec(plan={"blocks": 2})`."""
    document: dict[str, Any] = {
        "model": {"preset": "tiny-qwen2"},
        "arms": [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}],
    }
    return Experiment.model_validate(document | changes)


def a_simulated_spec(**changes: Any) -> Experiment:
    """The same without engines: `sync` takes 10 ms per token, `async` 12 ms."""
    arms = [
        {"name": "sync", "profile": "simulated", "driver": {"seconds_per_token": 0.010}},
        {"name": "async", "profile": "simulated", "driver": {"seconds_per_token": 0.012}},
    ]
    return a_spec(**({"arms": arms} | changes))


def a_record(
    start: float = 0.0,
    first: float | None = None,
    last: float | None = None,
    delivered: float | None = None,
    **changes: Any,
) -> RequestRecord:
    """A sample that is sent at `start`, has its first token 0.1 s and its last 1 s later, and is delivered at once."""
    first = start + 0.1 if first is None else first
    last = max(first, start + 1.0) if last is None else last
    prompt, sample = changes.get("prompt_index", 0), changes.get("sample_index", 0)
    fields: dict[str, Any] = {
        "request_id": f"{prompt}-{sample}",
        "prompt_index": prompt,
        "sample_index": sample,
        "replica": 0,
        "turn": 0,
        "prompt_tokens": 8,
        "output_tokens": 10,
        "cached_tokens": 0,
        "finish_reason": "length",
        "output_sha256": hashlib.sha256(f"{prompt}-{sample}".encode()).hexdigest(),
        "arrived_s": start,
        "sent_s": start,
        "received_s": None,
        "prepared_s": None,
        "queued_s": start,
        "scheduled_s": start,
        "first_token_s": first,
        "last_token_s": last,
        "left_s": None,
        "delivered_s": last if delivered is None else delivered,
        "preemptions": 0,
    }
    return RequestRecord(**(fields | changes))


def planned(
    arm: str = "sync", block: int = 0, position: int = 0, slot: int | None = None, **changes: Any
) -> PlannedTrial:
    """A trial of a plan with two arms."""
    slot = 2 * block + position if slot is None else slot
    fields: dict[str, Any] = {"phase": Phase.MEASURED} | changes
    return PlannedTrial(slot=slot, block=block, arm=arm, position=position, **fields)


def a_result(*records: RequestRecord, **changes: Any) -> TrialResult:
    """A successful trial that left these records, or one record if none is given."""
    fields: dict[str, Any] = {
        "planned": planned(),
        "state": TrialState.SUCCEEDED,
        "started_at": 1_700_000_000.0,
        "wall_s": 1.5,
        "records": records or (a_record(),),
        "timeline": (),
        "harness": HarnessUse(cpu_s=0.0, event_loop_lag_ms=None, outputs=len(records) or 1),
        "conditions": Conditions(),
    }
    return TrialResult(**(fields | changes))


def an_engine_sample(at: float, running: int = 1, **changes: Any) -> EngineSample:
    """The engine's state at a moment."""
    fields: dict[str, Any] = {
        "waiting": 0,
        "kv_cache_usage_pct": 0.0,
        "prompt_tokens": 0,
        "output_tokens": 1,
        "preemptions": 0,
    }
    return EngineSample(at_s=at, running=running, **(fields | changes))


def some_work(**changes: Any) -> Work:
    """What a trial of 4 samples did."""
    fields: dict[str, Any] = {
        "samples": 4,
        "prompt_tokens": 32,
        "output_tokens": 40,
        "cached_tokens": 0,
        "finish_reasons": {"length": 4},
        "shape_sha256": "5a" * 32,
        "output_hashes": bytes(range(32)),
    }
    return Work(**(fields | changes))


def a_trial(
    arm: str = "sync", block: int = 0, position: int = 0, throughput: float = 100.0, **changes: Any
) -> TrialSummary:
    """A stored trial with this output throughput and the duration that goes with it.

    `metrics` adds metrics; `failed=True` or `error="…"` makes it one that failed.
    """
    failed = changes.pop("failed", False) or changes.get("error") is not None
    slot, phase, start = changes.pop("slot", None), changes.pop("phase", Phase.MEASURED), changes.pop("start", 0)
    metrics = {"output_throughput": throughput, "duration_s": 40.0 / throughput} | changes.pop("metrics", {})
    fields: dict[str, Any] = {
        "planned": planned(arm, block, position, slot, phase=phase, start=start),
        "attempt": 1,
        "state": TrialState.FAILED if failed else TrialState.SUCCEEDED,
        "started_at": 1_700_000_000.0 + 10 * block + position,
        "wall_s": 1.5,
        "metrics": dict.fromkeys(metrics) if failed else metrics,
        "missing": dict.fromkeys(metrics, "the trial failed") if failed else {},
        "work": None if failed else some_work(),
        "harness": HarnessUse(cpu_s=0.0, event_loop_lag_ms=None, outputs=4),
        "conditions": Conditions(),
        "error": "the engine died" if failed else None,
    }
    return TrialSummary(**(fields | changes))


def a_neighbour(**changes: Any) -> Neighbour:
    """A stranger's process that holds memory on a GPU and does nothing."""
    fields: dict[str, Any] = {
        "pid": 4711,
        "name": "python3",
        "memory_mib": 2048.0,
        "sm_pct": 0.0,
        "memory_busy_pct": 0.0,
        "passing": False,
    }
    return Neighbour(**(fields | changes))


def a_gpu(*neighbours: Neighbour, clock_mhz: float = 1980.0, power_w: float = 550.0, **changes: Any) -> GpuConditions:
    """A GPU that ran at its highest clock and was held back by nothing."""
    fields: dict[str, Any] = {
        "gpu": "0",
        "sm_clock_mhz": Spread(mean=clock_mhz, least=clock_mhz - 30, most=1980.0),
        "memory_clock_mhz": Spread(mean=3201.0, least=3201.0, most=3201.0),
        "power_w": power_w,
        "held_back_pct": {"power": 0.0, "heat": 0.0},
        "neighbours": neighbours,
    }
    return GpuConditions(**(fields | changes))


def a_resolved_arm(arm: str = "sync", config: Mapping[str, object] | None = None, **changes: Any) -> StartedArm:
    """What an engine turned out to be."""
    fields: dict[str, Any] = {
        "config": {"driver.api": "llm", "engine.scheduler_config.max_num_seqs": 256} if config is None else config,
        "versions": {"vllm": "0.32.0"},
        "hardware": {"gpu": None},
    }
    return StartedArm(arm=arm, **(fields | changes))
