"""No engine: timings from the spec, on a clock of its own."""

import hashlib
import heapq
import random
import threading
import time
from contextlib import AbstractContextManager

from app.errors import EngineDied
from app.measure.records import HarnessUse, RequestRecord, StartedArm
from app.spec.experiment import DriverSettings, SimulatedDriver
from app.spec.resolution import ResolvedArm
from workers.drivers.base import Batch, Request, Rollout

_VOCABULARY = 8192


class SimulatedEngine:
    """Every sample takes ``prefill_s`` and then ``seconds_per_token`` per token; noise and drift are per trial."""

    def __init__(self, settings: ResolvedArm, seed: int) -> None:
        assert isinstance(settings.driver, SimulatedDriver)  # noqa: S101 - chosen by the api
        self._settings = settings
        self._driver = settings.driver
        self._rng = random.Random(f"{seed} {settings.name}")  # noqa: S311 - noise, not a secret
        self._tokens = 0
        self._stop = threading.Event()

    def start(self) -> StartedArm:
        """Wait ``start_s``."""
        time.sleep(self._driver.start_s)
        return StartedArm(
            arm=self._settings.name,
            config={},
            start_s=self._driver.start_s,
            vocab_size=_VOCABULARY,
            simulated=True,
        )

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """One token per byte."""
        return tuple(tuple(text.encode()) for text in texts)

    def reset_prefix_cache(self) -> bool:
        """There is none."""
        return True

    def rollout(self, batch: Batch, settings: DriverSettings, meter: AbstractContextManager[object]) -> Rollout:
        """Records with the spec's timings; takes ``pace`` real seconds per simulated second."""
        assert isinstance(settings, SimulatedDriver)  # noqa: S101 - chosen by the api
        self._stop.clear()
        if batch.slot in settings.failing_slots:
            raise EngineDied(f"the spec says that trial {batch.slot} fails")
        speed = (
            1.0
            + settings.noise_pct / 100.0 * self._rng.gauss(0.0, 1.0)
            + settings.drift_pct_per_slot / 100.0 * batch.slot
        )
        records = _make_records(batch, settings, speed)
        longest = max(record.delivered_s for record in records)
        with meter:
            stopped = self._pass_time(longest * settings.pace, sum(record.output_tokens for record in records))
        done = tuple(record for record in records if not stopped or record.delivered_s * settings.pace <= stopped)
        return Rollout(
            records=done,
            timeline=(),
            harness=HarnessUse(cpu_s=0.0, event_loop_lag_ms=None, outputs=len(done)),
            complete=stopped is None,
        )

    def _pass_time(self, seconds: float, tokens: int) -> float | None:
        began, before = time.monotonic(), self._tokens
        while (gone := time.monotonic() - began) < seconds:
            self._tokens = before + int(tokens * gone / seconds)
            if self._stop.wait(min(0.05, seconds - gone)):
                return time.monotonic() - began
        self._tokens = before + tokens
        return None

    def progress(self) -> int:
        """Tokens generated since the start."""
        return self._tokens

    def abort(self) -> None:
        """Stop waiting."""
        self._stop.set()

    def sleep(self) -> None:
        """Nothing to free."""

    def wake(self) -> None:
        """Nothing to restore."""

    def stop(self) -> None:
        """Nothing to end."""


def _make_records(batch: Batch, settings: SimulatedDriver, speed: float) -> tuple[RequestRecord, ...]:
    """Samples start when they come, when a slot is free, or when the call before theirs is done."""
    slots = [0.0] * (batch.concurrency or 0)
    size = batch.call_size or len(batch.requests)
    records: list[RequestRecord] = []
    for first in range(0, len(batch.requests), size):
        begin = max((record.delivered_s for record in records), default=0.0)
        for request in batch.requests[first : first + size]:
            free = heapq.heappop(slots) if slots else begin
            arrived = free if request.arrival_s is None else max(begin, request.arrival_s)
            records.append(_make_record(request, settings, speed, arrived=arrived, sent=max(arrived, free)))
            if batch.concurrency:
                heapq.heappush(slots, records[-1].delivered_s)
    return tuple(records)


def _make_record(
    request: Request, settings: SimulatedDriver, speed: float, *, arrived: float, sent: float
) -> RequestRecord:
    first = sent + (settings.prefill_s + settings.seconds_per_token) * speed
    last = first + (request.max_tokens - 1) * settings.seconds_per_token * speed
    return RequestRecord(
        request_id=request.request_id,
        prompt_index=request.prompt_index,
        sample_index=request.sample_index,
        replica=0,
        turn=0,
        prompt_tokens=len(request.prompt_token_ids),
        output_tokens=request.max_tokens,
        cached_tokens=0,
        finish_reason="length",
        output_sha256=hashlib.sha256(f"{request.request_id} {request.seed}".encode()).hexdigest(),
        arrived_s=arrived,
        sent_s=sent,
        received_s=None,
        prepared_s=None,
        queued_s=sent,
        scheduled_s=sent,
        first_token_s=first,
        last_token_s=last,
        left_s=None,
        delivered_s=last,
        preemptions=0,
    )
