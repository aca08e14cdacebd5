"""The answer: what `GET /v1/experiments/{id}/results` says, and the sentence that sums it up."""

from dataclasses import dataclass

from app.experiment.fairness import TrialWork
from app.experiment.plan import PlannedTrial
from app.experiment.records import Conditions, HarnessUse, TrialState


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
