"""How a trial's work was spread over the replicas of an arm: pure, for calls that were measured or predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class ReplicaCall:
    """One sample on one replica, from when it ran there until it was done (seconds since the trial began)."""

    replica: int
    start_s: float
    end_s: float
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What one replica did in a trial."""

    replica: int
    samples: int
    output_tokens: int
    idle_s: float  # with nothing running, of the time between the trial's first start and last end


@dataclass(frozen=True, slots=True)
class ReplicaSpread:
    """A trial's work over all replicas, those without any included.

    Imbalance is the most that one replica had over the mean of all: 1 is even, the number of replicas is all on one;
    None where there was nothing.
    """

    loads: tuple[ReplicaLoad, ...]
    sample_imbalance: float | None
    token_imbalance: float | None


def measure_spread(calls: Sequence[ReplicaCall], replicas: int) -> ReplicaSpread:
    """What each replica had to do; raises ValueError for a call on a replica that is none of them."""
    strangers = {call.replica for call in calls} - set(range(replicas))
    if strangers:
        raise ValueError(f"calls ran on replica {min(strangers)}, of {replicas}")
    span_s = max(call.end_s for call in calls) - min(call.start_s for call in calls) if calls else 0.0
    loads = tuple(
        _measure_load(replica, [call for call in calls if call.replica == replica], span_s)
        for replica in range(replicas)
    )
    return ReplicaSpread(
        loads,
        sample_imbalance=_find_imbalance([load.samples for load in loads]),
        token_imbalance=_find_imbalance([load.output_tokens for load in loads]),
    )


def _measure_load(replica: int, calls: Sequence[ReplicaCall], span_s: float) -> ReplicaLoad:
    return ReplicaLoad(
        replica,
        samples=len(calls),
        output_tokens=sum(call.output_tokens for call in calls),
        idle_s=span_s - _measure_busy_s(calls),
    )


def _measure_busy_s(calls: Sequence[ReplicaCall]) -> float:
    """Time with at least one running: the length of the union."""
    busy_s, reached = 0.0, float("-inf")
    for call in sorted(calls, key=lambda call: call.start_s):
        busy_s += max(0.0, call.end_s - max(call.start_s, reached))
        reached = max(reached, call.end_s)
    return busy_s


def _find_imbalance(amounts: Sequence[int]) -> float | None:
    total = sum(amounts)
    return max(amounts) * len(amounts) / total if total else None


def count_running(calls: Sequence[ReplicaCall]) -> tuple[tuple[float, int], ...]:
    """When the number of running calls changed, and to what: a staircase, of one replica or of all."""
    changes = sorted([(call.start_s, 1) for call in calls] + [(call.end_s, -1) for call in calls])
    stairs: list[tuple[float, int]] = []
    running = 0
    for at_s, group in groupby(changes, key=lambda change: change[0]):
        running += sum(change for _, change in group)
        stairs.append((at_s, running))
    return tuple(stairs)
