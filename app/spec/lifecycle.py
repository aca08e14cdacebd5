"""The states of an experiment, and what is told about it while it lives."""

from enum import StrEnum

from pydantic import Field

from app.errors import FailureCode
from app.spec.frozen import SpecModel


class Status(StrEnum):
    """Where an experiment is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """True for states that never change."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.QUEUED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}


class Failure(SpecModel):
    """Why an attempt failed."""

    code: FailureCode = Field(description="Machine-readable reason.", examples=["engine_start_failed"])
    detail: str = Field(description="Root cause, in the engine's own words where it has any.")
    arm: str | None = Field(None, description="Arm at fault, if one is.")
    log_tail: str | None = Field(None, description="Last lines the engine printed.")


class Step(StrEnum):
    """What a running experiment is doing."""

    STARTING_ENGINES = "starting_engines"
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    FINISHING = "finishing"


class Current(SpecModel):
    """The trial that runs now."""

    arm: str = Field(description="Its arm.")
    block: int = Field(description="Its block, from 0; for warm-ups the round.")


class Progress(SpecModel):
    """How far a running experiment has come."""

    step: Step = Field(description="What it is doing.")
    trials_done: int = Field(description="Measured trials finished.")
    trials_total: int = Field(description="Measured trials planned.")
    current: Current | None = Field(None, description="The trial that runs now.")
    eta_s: float | None = Field(None, description="Estimated seconds to the end; null until a trial has finished.")
