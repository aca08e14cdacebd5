"""What a part takes, and what still fits before a deadline.

The seconds are those of an H200 host with 16 cores; they only decide what is started, never what is reported.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from app.spec.plan import TrialPlan
from benchmarks.gpu.parts import Part, changed, plan_of

COLD_HOST_S = 40.0  # vLLM's imports from a disk that has not been read
GRAPH_S = 40.0  # torch.compile, where vLLM's cache has no such graph
START_S = 45.0  # an engine in a Ray actor, with a warm cache
FIRST_SLEEP_S = 18.0  # pinned host memory is allocated
SWAP_S = 1.5  # sleep, wake, settling pass
BESIDE_S = 0.3  # a trial's bookkeeping
END_S = 8.0  # engines are ended, results fetched and written
LEAST_BLOCKS = 3  # fewer give an interval that says nothing


@dataclass(frozen=True, slots=True)
class Deadline:
    """When everything must be over; never, if there is none."""

    at_s: float | None

    @classmethod
    def after(cls, seconds: float | None) -> "Deadline":
        """So many seconds from now."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """How long it is until then."""
        return float("inf") if self.at_s is None else self.at_s - time.monotonic()


@dataclass(frozen=True, slots=True)
class Fit:
    """A spec that fits, and what it will take."""

    spec: dict[str, Any]
    estimate_s: float


def estimate_s(part: Part, plan: TrialPlan, known: Collection[str]) -> float:
    """Seconds from submission to the written results. `known`: graphs this host has compiled."""
    new = [graph for graph in part.graphs if graph not in known]
    cold = (0.0 if known else COLD_HOST_S) + GRAPH_S * len(new)
    sleeps = len(plan.engines) if len(plan.engines) > 1 else 0
    slowest = max(part.trial_s.values())
    trials = sum(part.trial_s.get(trial.arm, slowest) + BESIDE_S for trial in plan.trials)
    starts = START_S * plan.engine_starts + FIRST_SLEEP_S * sleeps
    return cold + starts + trials + SWAP_S * swaps(plan) + END_S


def swaps(plan: TrialPlan) -> int:
    """How often another engine has to wake up."""
    engine = {name: number for number, group in enumerate(plan.engines) for name in group}
    awake = [engine[trial.arm] for trial in plan.trials]
    return sum(before != after for before, after in zip([len(plan.engines) - 1, *awake], awake, strict=False))


def fit(part: Part, spec: dict[str, Any], known: Collection[str], room_s: float) -> Fit:
    """The spec with as many of its blocks as fit; with the fewest that make sense where not even those do."""
    planned = plan_of(spec).measured[-1].block + 1
    for blocks in range(planned, min(LEAST_BLOCKS, planned) - 1, -1):
        smaller = changed(spec, blocks=blocks)
        found = Fit(smaller, estimate_s(part, plan_of(smaller), known))
        if found.estimate_s <= room_s:
            break
    return found
