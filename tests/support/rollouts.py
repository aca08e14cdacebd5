"""Rollouts that look like those of an engine: continuous batching with long tails, drawn from a seed, without one.

A step takes longer the more requests run in it; a request that does not fit into the batch waits.
"""

import hashlib
import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.measure.columns import Floats, Integers
from app.measure.records import (
    Conditions,
    EngineSample,
    HarnessUse,
    RequestRecord,
    TrialResult,
    TrialState,
)
from app.spec.plan import PlannedTrial


@dataclass(frozen=True)
class Engine:
    """How fast an engine is, and how it hands its samples over."""

    step_ms: float = 7.0  # of an empty batch
    per_request_ms: float = 0.018
    max_num_seqs: int = 256
    prefill_s: float = 0.035
    whole_batch: bool = False  # samples are handed over when the last is complete
    kv_tokens: int = 400_000
    noise_pct: float = 0.25


@dataclass(frozen=True)
class Size:
    """The requests of one trial."""

    prompts: int = 16
    samples: int = 16
    median: int = 320
    sigma: float = 0.75
    longest: int = 2048
    prompt_tokens: int = 256


def a_rollout(planned: PlannedTrial, engine: Engine, work: Size, seed: int, started_at: float) -> TrialResult:
    """One trial: lengths depend on the block, noise on the trial."""
    lengths = np.random.default_rng([seed, planned.block]).lognormal(
        np.log(work.median), work.sigma, work.prompts * work.samples
    )
    tokens = np.clip(lengths.round(), 1, work.longest).astype(np.int64)
    rng = np.random.default_rng([seed, planned.block, int.from_bytes(planned.arm.encode()[:6], "big")])
    pace = 1 + engine.noise_pct / 100 * rng.standard_normal()
    starts, ends, timeline = _batched(tokens, engine, pace, work.prompt_tokens)
    end = float(ends.max())
    records = tuple(
        _record(
            f"m{planned.block}",
            divmod(index, work.samples),
            int(tokens[index]),
            _times(index, float(starts[index]), float(ends[index]), end if engine.whole_batch else None),
            work.prompt_tokens,
        )
        for index in range(len(tokens))
    )
    return TrialResult(
        planned=planned,
        state=TrialState.SUCCEEDED,
        started_at=started_at,
        wall_s=end + 0.4,
        records=records,
        timeline=timeline,
        harness=HarnessUse(cpu_s=0.004 * end, event_loop_lag_ms=None, outputs=len(records)),
        conditions=Conditions(
            load_before=1.1,
            load_after=1.3,
            other_cpu_pct=0.8,
            gpu_util_pct=97.0 + float(rng.random()),
            sm_clock_mhz=1965.0,
            temperature_c=58.0,
            power_w=542.0 + 6 * float(rng.standard_normal()),
            energy_j=542.0 * end,
        ),
    )


class _Times(NamedTuple):
    """Of one request, seconds since the trial began."""

    start: float
    first: float
    last: float
    delivered: float


def _times(index: int, start: float, end: float, batch_end: float | None) -> _Times:
    start = max(start, 0.002)
    first = max(min(start + 0.0075 + 0.0004 * (index % 97), end), start + 0.001)
    last = max(end, first)
    return _Times(start, first, last, (last if batch_end is None else max(batch_end, last)) + 0.002)


def _batched(
    tokens: Integers, engine: Engine, pace: float, prompt_tokens: int
) -> tuple[Floats, Floats, tuple[EngineSample, ...]]:
    """When every request is scheduled and complete, and what the engine reports on the way."""
    count = len(tokens)
    starts, ends = np.zeros(count), np.zeros(count)
    running: list[tuple[int, int]] = []  # (step at which it is complete, request)
    samples: list[EngineSample] = []
    waiting, clock, step = 0, engine.prefill_s * pace, 0
    while waiting < count or running:
        while waiting < count and len(running) < engine.max_num_seqs:
            starts[waiting] = clock
            heapq.heappush(running, (step + int(tokens[waiting]), waiting))
            waiting += 1
        until = running[0][0]
        cost_s = (engine.step_ms + engine.per_request_ms * len(running)) * pace / 1000
        for _ in range(max(1, (until - step) // 12)):
            used = len(running) * (prompt_tokens + min(step, 900)) / engine.kv_tokens
            samples.append(_sample(clock, len(running), count - waiting, min(used, 1.0)))
            clock += cost_s * (until - step) / max(1, (until - step) // 12)
        step = until
        while running and running[0][0] <= step:
            ends[heapq.heappop(running)[1]] = clock
    samples.append(_sample(clock, 0, 0, 0.0))
    return starts, ends, tuple(samples)


def _sample(at_s: float, running: int, waiting: int, cache_share: float) -> EngineSample:
    return EngineSample(
        at_s=at_s,
        running=running,
        waiting=waiting,
        kv_cache_usage_pct=100 * cache_share,
        prompt_tokens=0,
        output_tokens=running,
        preemptions=0,
    )


def _record(name: str, place: tuple[int, int], tokens: int, times: _Times, prompt_tokens: int) -> RequestRecord:
    prompt, sample = place
    return RequestRecord(
        request_id=f"{name}-{prompt}-{sample}",
        prompt_index=prompt,
        sample_index=sample,
        replica=0,
        turn=0,
        prompt_tokens=prompt_tokens,
        output_tokens=tokens,
        cached_tokens=0,
        finish_reason="length",
        output_sha256=hashlib.sha256(f"{name} {place}".encode()).hexdigest(),
        arrived_s=0.0,
        sent_s=0.001,
        received_s=None,
        prepared_s=None,
        queued_s=0.002,
        scheduled_s=times.start,
        first_token_s=times.first,
        last_token_s=times.last,
        left_s=None,
        delivered_s=times.delivered,
        preemptions=0,
    )
