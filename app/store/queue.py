"""The queue: the only writer of an experiment's status.

A worker owns an attempt through its lease. Every write it makes later carries (experiment, attempt, owner) and must
change exactly one row; otherwise somebody else has the attempt by now, and LeaseLost tells the worker to stop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Connection, and_, func, insert, literal, select, update

from app.errors import Conflict, FailureCode, IdempotencyMismatch, LeaseLost, NotFound, TooManyRequests, UnreadableSpec
from app.format import clip, plural
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure, Progress, Status
from app.store.actors import NOBODY, Actor
from app.store.clock import microseconds, now_us
from app.store.database import Database
from app.store.dialects import insert_unless_present
from app.store.documents import parse_spec
from app.store.experiments import ExperimentRow, build_submitted_row
from app.store.ids import ExperimentId
from app.store.lease import Lease, fence, lost, update_fenced
from app.store.submission import build_row
from app.store.tables import attempts, experiment_labels, experiments, is_status
from app.store.transitions import append_event, describe_failure, move

__all__ = [
    "Beat",
    "Claim",
    "Enqueued",
    "Lease",
    "beat",
    "claim",
    "enqueue",
    "finish",
    "hand_back",
    "lose",
    "reap",
    "request_cancel",
    "retry",
]

CLAIM_TIMEOUT_S = 5.0
MAX_LOSSES = 3  # an experiment that kills every worker it meets is not given a fourth
_CANCELLED = experiments.c.cancel_requested_at.is_not(None)
_AGAIN = experiments.c.retry_on_loss & (experiments.c.losses < MAX_LOSSES - 1)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """An experiment that waits; ``created`` is False where an Idempotency-Key named an earlier one."""

    experiment_id: ExperimentId
    created: bool
    row: ExperimentRow | None = None  # what was created, as it is now


@dataclass(frozen=True, slots=True)
class Claim:
    """Work for a worker."""

    lease: Lease
    spec: Experiment
    retry_of: ExperimentId | None


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat is told."""

    cancel_requested: bool


# --- submitting ----------------------------------------------------------------------------------------------------


def enqueue(
    db: Database,
    spec: Experiment,
    *,
    idempotency_key: str | None = None,
    retry_of: ExperimentId | None = None,
    by: Actor = NOBODY,
    most_queued: int | None = None,
) -> Enqueued:
    """Queue an experiment; raise InvalidInput if it contradicts itself.

    The same key and spec give the first experiment again, the same key and another spec raise IdempotencyMismatch.
    ``most_queued``: TooManyRequests where as many of the same submitter wait already.
    ``retry_of`` names a failed or cancelled experiment whose finished blocks the new one may take over.
    """
    row = build_row(spec, idempotency_key, retry_of, by)
    with db.write() as connection:
        if retry_of is not None:
            _require_retriable(connection, retry_of)
        at = insert_unless_present(connection, experiments, row, ("idempotency_key",), now=("created_at", "queued_at"))
        if at is None:
            return _find_first(connection, row)
        if most_queued is not None:
            _require_room(connection, by, most_queued)
        if spec.labels:
            connection.execute(
                insert(experiment_labels),
                [{"experiment_id": row["id"], "key": key, "value": value} for key, value in spec.labels.items()],
            )
        append_event(connection, row["id"], None, Status.QUEUED, 0, None, "submitted", by=by)
        return Enqueued(row["id"], created=True, row=build_submitted_row(connection, row, spec, at))


def retry(
    db: Database,
    experiment_id: ExperimentId,
    *,
    idempotency_key: str | None = None,
    by: Actor = NOBODY,
    most_queued: int | None = None,
) -> Enqueued:
    """Queue a failed or cancelled experiment once more, as a new one that names it."""
    with db.read() as connection:
        document = _require_retriable(connection, experiment_id)
    spec = parse_spec(experiment_id, document)
    return enqueue(db, spec, idempotency_key=idempotency_key, retry_of=experiment_id, by=by, most_queued=most_queued)


def _require_room(connection: Connection, by: Actor, most: int) -> None:
    c = experiments.c
    own = select(c.id).where(is_status(Status.QUEUED), c.submitted_by == by.name).limit(most + 1).subquery()
    waiting = connection.execute(select(func.count()).select_from(own)).scalar_one()
    if waiting > most:  # this one included
        raise TooManyRequests(
            f"{by.name} has {plural(most, 'experiment')} in the queue, the most there may be; wait until some have "
            "run, or cancel some (ROLLOUT_LAB_MOST_QUEUED)",
            retry_after_s=60.0,
        )


def _find_first(connection: Connection, row: Mapping[str, Any]) -> Enqueued:
    first = connection.execute(
        select(experiments.c.id, experiments.c.request_sha256).where(
            experiments.c.idempotency_key == row["idempotency_key"]
        )
    ).one()
    if first.request_sha256 != row["request_sha256"]:
        raise IdempotencyMismatch(f"this Idempotency-Key queued experiment {first.id} with another body")
    return Enqueued(ExperimentId(first.id), created=False)


def _require_retriable(connection: Connection, experiment_id: ExperimentId) -> Any:
    row = connection.execute(
        select(experiments.c.status, experiments.c.spec).where(experiments.c.id == experiment_id)
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no experiment {clip(experiment_id)}")
    if Status(row.status) not in {Status.FAILED, Status.CANCELLED}:
        raise Conflict(f"experiment {experiment_id} is {row.status}; only a failed or cancelled one can be retried")
    return row.spec


# --- running -------------------------------------------------------------------------------------------------------


def claim(db: Database, owner: str, lease_s: float) -> Claim | None:
    """Take the first experiment in the queue, or None."""
    first = (
        select(experiments.c.id)
        .where(is_status(Status.QUEUED))
        .order_by(experiments.c.priority.desc(), experiments.c.queued_at, experiments.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)  # Postgres only; SQLite has one writer at a time
        .scalar_subquery()
    )
    with db.write(CLAIM_TIMEOUT_S) as connection:
        for row in move(
            connection,
            Status.QUEUED,
            Status.RUNNING,
            experiments.c.id == first,
            "claimed",
            owner=owner,
            lease_expires_at=now_us() + microseconds(lease_s),
        ):
            lease = Lease(ExperimentId(row.id), row.attempt, owner)
            try:
                return Claim(lease, parse_spec(lease.experiment_id, row.spec), row.retry_of)
            except UnreadableSpec as error:
                # Left alone, it would kill every worker that claims it.
                failure = Failure(code=FailureCode.INTERNAL, detail=error.detail)
                move(connection, Status.RUNNING, Status.FAILED, fence(lease), failure.detail, failure=failure)
    return None


def beat(db: Database, lease: Lease, lease_s: float, progress: Progress | None = None) -> Beat:
    """Extend the lease, and say how far the attempt has come."""
    values: dict[str, Any] = {"lease_expires_at": now_us() + microseconds(lease_s), "heartbeat_at": now_us()}
    if progress is not None:
        values["progress"] = progress.model_dump(mode="json")
    with db.write(lease_s) as connection:
        return Beat(cancel_requested=update_fenced(connection, lease, **values))


def finish(
    db: Database,
    lease: Lease,
    status: Status,
    *,
    results: Mapping[str, Any] | BaseModel | None = None,
    verdicts: Sequence[str] = (),
    failure: Failure | None = None,
    reason: str,
) -> None:
    """End the attempt, and with it the experiment. Saying it twice, after a lost acknowledgement, is no error.

    `verdicts`: of its primary comparisons, the worst first.
    """
    if not status.terminal or (status is Status.FAILED) != (failure is not None):
        raise ValueError(f"an attempt cannot end as {status} with failure={failure!r}")
    document = results.model_dump(mode="json") if isinstance(results, BaseModel) else results
    with db.write() as connection:
        moved = move(
            connection,
            Status.RUNNING,
            status,
            fence(lease),
            reason,
            failure=failure,
            results=document,
            verdict=" ".join(verdicts) or None,
        )
        if not moved and not _has_ended_as(connection, lease, status, failure):
            raise lost(lease)


def hand_back(db: Database, lease: Lease, reason: str) -> Status:
    """Give the attempt up without blame: its worker has to go. Finished trials stay; so does the place in the queue.

    With a cancel request waiting the experiment is cancelled instead: no other worker should start it to be told so.
    """
    with db.write() as connection:
        try:
            target = Status.CANCELLED if update_fenced(connection, lease) else Status.QUEUED
        except LeaseLost:
            for target in (Status.CANCELLED, Status.QUEUED):
                if _has_ended_as(connection, lease, target):
                    return target
            raise
        move(connection, Status.RUNNING, target, fence(lease), reason)
        return target


def lose(db: Database, lease: Lease, failure: Failure) -> bool:
    """Give up an attempt that lost what it ran on; True if the experiment is queued again, as `reap` would.

    False if its spec does not say `retry_on_loss`, it lost too much before, or it is to be cancelled: then nothing has
    changed, and the attempt is still the worker's to finish.
    """
    with db.write() as connection:
        if _has_ended_as(connection, lease, Status.QUEUED, failure):
            return True
        update_fenced(connection, lease)
        here = and_(fence(lease), ~_CANCELLED, _AGAIN)
        return bool(
            move(
                connection,
                Status.RUNNING,
                Status.QUEUED,
                here,
                failure.detail,
                failure=failure,
                **_describe_loss(Status.QUEUED),
            )
        )


def request_cancel(db: Database, experiment_id: ExperimentId, *, by: Actor = NOBODY) -> Status:
    """Cancel what waits; ask the worker of what runs. Terminal states stay as they are. Returns the status after it."""
    c = experiments.c
    named = c.id == experiment_id
    asked = select(c.status, c.attempt, c.owner, c.cancel_requested_at).where(named).with_for_update()
    with db.write() as connection:
        found = connection.execute(asked).one_or_none()
        if found is None:
            raise NotFound(f"there is no experiment {clip(experiment_id)}")
        status = Status(found.status)
        if status is Status.QUEUED:
            move(connection, Status.QUEUED, Status.CANCELLED, named, "cancelled while queued", by=by)
            return Status.CANCELLED
        if status is Status.RUNNING and found.cancel_requested_at is None:
            connection.execute(
                update(experiments).where(named).values(cancel_requested_at=now_us(), version=c.version + 1)
            )
            reason = "asked to stop"
            append_event(connection, experiment_id, status, status, found.attempt, found.owner, reason, by=by)
        return status


def reap(db: Database) -> tuple[ExperimentId, ...]:
    """Take the attempts whose lease has run out from their workers.

    The experiment fails with `worker_lost`; it is queued again, at the end, if its spec says `retry_on_loss`; it is
    cancelled if that had been asked for. Use Reaper, which spares workers that could not reach the database either.
    """
    expired = and_(is_status(Status.RUNNING), experiments.c.lease_expires_at < now_us())
    # Rows that a heartbeat or another reaper holds are skipped: waiting for several at once could deadlock.
    free = experiments.c.id.in_(select(experiments.c.id).where(expired).with_for_update(skip_locked=True))
    outcomes = (
        (Status.CANCELLED, _CANCELLED),
        (Status.QUEUED, ~_CANCELLED & _AGAIN),
        (Status.FAILED, ~_CANCELLED & ~_AGAIN),
    )
    with db.read() as connection:
        if not connection.execute(select(literal(1)).where(expired).limit(1)).all():
            return ()
    failure = Failure(code=FailureCode.WORKER_LOST, detail="the worker stopped sending heartbeats")
    reaped: list[ExperimentId] = []
    with db.write() as connection:
        for target, condition in outcomes:
            moved = move(
                connection,
                Status.RUNNING,
                target,
                and_(expired, free, condition),
                "worker lost",
                failure=failure,
                **_describe_loss(target),
            )
            reaped += [ExperimentId(row.id) for row in moved]
    return tuple(reaped)


def _describe_loss(target: Status) -> dict[str, Any]:
    """What a loss does to an experiment besides; one that is queued again goes to the end."""
    return {"losses": experiments.c.losses + 1} | ({"queued_at": now_us()} if target is Status.QUEUED else {})


def _has_ended_as(connection: Connection, lease: Lease, status: Status, failure: Failure | None = None) -> bool:
    """Whether this very attempt has already ended this way, and by its worker: a reaper leaves its own failure."""
    ended = connection.execute(
        select(attempts.c.outcome, attempts.c.failure).where(
            attempts.c.experiment_id == lease.experiment_id,
            attempts.c.attempt == lease.attempt,
            attempts.c.owner == lease.owner,
        )
    ).one_or_none()
    return ended is not None and (ended.outcome, ended.failure) == (status, describe_failure(failure))
