"""Every error this project raises on purpose.

RolloutLabError
├── InvalidInput              422  the caller's input is wrong; ``errors`` says where and what to do
│   └── IdempotencyMismatch   422  same Idempotency-Key, other body
├── UnsupportedMediaType      415
├── PayloadTooLarge           413
├── NotFound                  404
├── Conflict                  409  the state does not allow it
├── UnreadableSpec            409  what is stored was written by another version
├── Unauthorized              401  who asks has no valid token
├── Forbidden                 403  the token's scope does not reach that far
├── FromElsewhere             403  a request that a page elsewhere made a browser send
├── UnknownHost               421  asked under a name that is not the service's
├── TooManyRequests           429  one client asks too often, or follows too much at once
├── DatabaseUnavailable       503
├── Unreachable                    a client gets no answer, or not now
├── Refused                        a client is answered with a problem
├── LeaseLost                      a worker no longer owns its attempt: it must stop and write nothing more
├── Cancelled                      somebody asked the running experiment to stop
├── Draining                       the worker was asked to end: it hands its experiment back
└── ExperimentFailure              an attempt cannot go on; ``code`` says why, the message is the root cause
    ├── EngineStartFailed
    ├── EngineDied
    ├── EngineStalled
    ├── TimedOut
    ├── NoResources
    ├── NotPermitted
    ├── InvalidWorkload
    ├── RayLost
    ├── ParityRefused
    └── AllBlocksDropped
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with an input: where (RFC 6901 JSON pointer) and what to do about it."""

    pointer: str
    detail: str


class RolloutLabError(Exception):
    """Root of the tree. ``status`` is the HTTP status, ``slug`` the last part of the problem type."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors


class InvalidInput(RolloutLabError):
    """The caller's input is wrong."""

    status = 422
    slug = "invalid-input"
    title = "Invalid input"

    @classmethod
    def of(cls, errors: tuple[FieldError, ...]) -> "InvalidInput":
        """One error that names every faulty field."""
        said = "; ".join(f"{error.pointer or 'the document'}: {error.detail}" for error in errors)
        return cls(said, errors)


class IdempotencyMismatch(InvalidInput):
    """The Idempotency-Key was used before with another body."""

    slug = "idempotency-mismatch"
    title = "Idempotency-Key was used with another body"


class UnsupportedMediaType(RolloutLabError):
    """The request body is of a type the service does not read."""

    status = 415
    slug = "unsupported-media-type"
    title = "Unsupported media type"


class PayloadTooLarge(RolloutLabError):
    """The request body exceeds the limit."""

    status = 413
    slug = "payload-too-large"
    title = "Payload too large"


class NotFound(RolloutLabError):
    """No such resource."""

    status = 404
    slug = "not-found"
    title = "Not found"


class Conflict(RolloutLabError):
    """The resource's state does not allow the request."""

    status = 409
    slug = "conflict"
    title = "Conflict"


class UnreadableSpec(RolloutLabError):
    """The stored spec was written by another version of this project."""

    status = 409
    slug = "unreadable-spec"
    title = "Written by another version"


class Unauthorized(RolloutLabError):
    """The request needs a token, and has none that is valid."""

    status = 401
    slug = "unauthorized"
    title = "Unauthorized"


class Forbidden(RolloutLabError):
    """The token is valid, but may not do this."""

    status = 403
    slug = "forbidden"
    title = "Forbidden"


class FromElsewhere(RolloutLabError):
    """A page elsewhere made a browser send the request."""

    status = 403
    slug = "from-elsewhere"
    title = "Refused"


class UnknownHost(RolloutLabError):
    """The request names a host that is not the service's."""

    status = 421
    slug = "unknown-host"
    title = "Unknown host"


class TooManyRequests(RolloutLabError):
    """One client asks too often, or keeps too many streams open. ``retry_after_s``: when to come back."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class DatabaseUnavailable(RolloutLabError):
    """The database cannot be reached or refuses to answer."""

    status = 503
    slug = "database-unavailable"
    title = "Database unavailable"


class Unreachable(RolloutLabError):
    """The service does not answer, or not now: the same request may succeed later."""

    slug = "unreachable"
    title = "Service unreachable"


class Refused(RolloutLabError):
    """The service answered with a problem."""

    slug = "refused"
    title = "Request refused"

    def __init__(self, http_status: int, detail: str, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail, errors)
        self.http_status = http_status


class LeaseLost(RolloutLabError):
    """The attempt belongs to somebody else, or to nobody, by now."""

    slug = "lease-lost"
    title = "Lease lost"


class Cancelled(RolloutLabError):
    """Somebody asked the running experiment to stop."""

    slug = "cancelled"
    title = "Cancelled"


class Draining(RolloutLabError):
    """The worker was asked to end and hands its experiment back."""

    slug = "draining"
    title = "Worker is shutting down"


class FailureCode(StrEnum):
    """Why an attempt failed."""

    ENGINE_START_FAILED = "engine_start_failed"
    ENGINE_DIED = "engine_died"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"
    NO_RESOURCES = "no_resources"
    RAY_LOST = "ray_lost"
    INVALID_WORKLOAD = "invalid_workload"
    NOT_PERMITTED = "not_permitted"
    PARITY_REFUSED = "parity_refused"
    ALL_BLOCKS_DROPPED = "all_blocks_dropped"
    WORKER_LOST = "worker_lost"
    INTERNAL = "internal"


class ExperimentFailure(RolloutLabError):
    """The attempt cannot go on.

    ``arm`` is the arm at fault, if it is one; ``log_tail`` the last lines its engine printed.
    """

    slug = "experiment-failed"
    title = "Experiment failed"
    code: ClassVar[FailureCode] = FailureCode.INTERNAL

    def __init__(self, detail: str, arm: str | None = None, log_tail: str | None = None) -> None:
        super().__init__(detail)
        self.arm = arm
        self.log_tail = log_tail

    def __reduce__(self) -> tuple[type["ExperimentFailure"], tuple[str, str | None, str | None]]:
        return type(self), (self.detail, self.arm, self.log_tail)


class EngineStartFailed(ExperimentFailure):
    """The engine did not start; the detail is its own root-cause line."""

    code = FailureCode.ENGINE_START_FAILED


class EngineDied(ExperimentFailure):
    """A process of the engine is gone."""

    code = FailureCode.ENGINE_DIED


class EngineStalled(ExperimentFailure):
    """The engine yielded no token for ``stall_timeout_s``."""

    code = FailureCode.STALLED


class TimedOut(ExperimentFailure):
    """The experiment outlived ``limits.timeout_s``."""

    code = FailureCode.TIMED_OUT


class NoResources(ExperimentFailure):
    """The cluster has not the GPUs or CPUs the experiment needs."""

    code = FailureCode.NO_RESOURCES


class NotPermitted(ExperimentFailure):
    """The worker's operator does not let specs name what this one names."""

    code = FailureCode.NOT_PERMITTED


class InvalidWorkload(ExperimentFailure):
    """The workload cannot be drawn on the worker, or vLLM refuses it: a file is missing, a prompt does not fit."""

    code = FailureCode.INVALID_WORKLOAD


class RayLost(ExperimentFailure):
    """Ray is gone, and with it the way to start engines; another attempt goes on from finished blocks."""

    code = FailureCode.RAY_LOST


class ParityRefused(ExperimentFailure):
    """``decision.parity: strict`` and the arms differ in ways they do not declare."""

    code = FailureCode.PARITY_REFUSED


class AllBlocksDropped(ExperimentFailure):
    """No block is left to compare."""

    code = FailureCode.ALL_BLOCKS_DROPPED
