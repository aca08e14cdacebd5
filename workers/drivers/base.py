"""The one seam: what every way of driving vLLM offers."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from app.measure.records import Conditions, EngineSample, HarnessUse, RequestRecord, StartedArm
from app.spec.experiment import DriverSettings


@dataclass(frozen=True, slots=True)
class RequestSampling:
    """What many requests share of vLLM's sampling parameters, by its names and as JSON writes them."""

    parameters: Mapping[str, JsonValue]
    seeded: bool  # whether every request has a seed of its own


@dataclass(frozen=True, slots=True)
class Request:
    """One sample to generate: token ids in, this many tokens out."""

    request_id: str
    prompt_index: int
    sample_index: int
    prompt_token_ids: tuple[int, ...]
    min_tokens: int
    max_tokens: int
    seed: int | None
    arrival_s: float | None  # seconds after the trial began; None: as soon as fewer are in flight than may be
    sampling: RequestSampling


@dataclass(frozen=True, slots=True)
class Batch:
    """The workload of one trial, drawn: the same for every arm of a block.

    ``requests`` are ordered by prompt, then sample; ``concurrency`` limits how many are in flight (None: no limit);
    with ``call_size`` they come in calls of so many samples, which begin once the one before is done (None: one call);
    ``slot`` is the trial's place in the plan.
    """

    slot: int
    requests: tuple[Request, ...]
    concurrency: int | None = None
    call_size: int | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """What came of a batch."""

    records: tuple[RequestRecord, ...]
    timeline: tuple[EngineSample, ...]
    harness: HarnessUse
    complete: bool  # False if it was stopped early: the records are those that were finished


@dataclass(frozen=True, slots=True)
class Outcome:
    """A rollout and the host around it."""

    rollout: Rollout
    conditions: Conditions


class Driver(Protocol):
    """Owns one engine and pushes batches through it. Calls block; only ``progress`` and ``abort`` may come meanwhile.

    Failures raise the ExperimentFailure they are (EngineStartFailed, EngineDied).
    """

    def start(self) -> StartedArm:
        """Start the engine and report what it resolved to."""
        ...

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text, by the engine's tokenizer."""
        ...

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix; False if the engine refuses."""
        ...

    def rollout(self, batch: Batch, settings: DriverSettings, meter: AbstractContextManager[object]) -> Rollout:
        """Run the batch to its end, or until ``abort``.

        ``meter`` is open while requests run, and only then: making requests and records is no part of a trial.
        """
        ...

    def progress(self) -> int:
        """Tokens generated since the engine started: grows while the engine is alive."""
        ...

    def abort(self) -> None:
        """Ask a running rollout to stop soon; it returns what was finished, ``complete`` False."""
        ...

    def sleep(self) -> None:
        """Free the engine's GPU memory, keeping the weights in host memory."""
        ...

    def wake(self) -> None:
        """Undo ``sleep``."""
        ...

    def stop(self) -> None:
        """End the engine and its processes."""
        ...
