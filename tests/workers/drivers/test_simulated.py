"""Engines that are none keep to when requests may start."""

from contextlib import nullcontext
from typing import Any

from app.measure.records import RequestRecord
from app.spec.resolution import resolve
from tests.support.builders import a_spec, planned
from workers.batches import SeededBatches
from workers.drivers.simulated import SimulatedEngine

TOKENS, STEP_S = 10, 0.1


def records_of(**arrival: Any) -> tuple[RequestRecord, ...]:
    """Four samples of one second each."""
    arms = [{"name": "sync", "profile": "simulated", "driver": {"seconds_per_token": STEP_S}}]
    output = {"stop": "length", "tokens": {"distribution": "fixed", "value": TOKENS}}
    spec = a_spec(workload={"prompts": {"count": 1}, "output": output, "arrival": arrival}, arms=arms)
    (arm,) = resolve(spec).arms
    batch = SeededBatches(spec, resolve(spec), 8192, lambda _: ()).draw_batch(planned())
    return SimulatedEngine(arm, seed=0).rollout(batch, arm.driver, nullcontext()).records


def times(records: tuple[RequestRecord, ...]) -> list[tuple[float, float, float]]:
    return [(round(r.arrived_s, 3), round(r.sent_s, 3), round(r.delivered_s, 3)) for r in records]


def test_a_batch_starts_at_once() -> None:
    assert times(records_of()) == [(0, 0, 1)] * 4


def test_a_call_begins_when_the_one_before_is_done() -> None:
    assert times(records_of(size=2)) == [(0, 0, 1), (0, 0, 1), (1, 1, 2), (1, 1, 2)]


def test_with_a_limit_a_request_starts_when_a_slot_is_free() -> None:
    assert times(records_of(limit=3)) == [(0, 0, 1), (0, 0, 1), (0, 0, 1), (1, 1, 2)]


def test_with_a_rate_and_a_limit_it_should_have_started_when_it_came() -> None:
    found = times(records_of(pattern="constant", rate=4, limit=2))
    assert found == [(0, 0, 1), (0.25, 0.25, 1.25), (0.5, 1, 2), (0.75, 1.25, 2.25)]
