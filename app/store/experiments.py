"""Reading experiments."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, func, literal, select

from app.errors import NotFound
from app.format import clip
from app.judge.continuation import Continuation
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure, Progress, Status
from app.store.database import Database
from app.store.documents import parse_failure, parse_spec, readable
from app.store.ids import ExperimentId
from app.store.tables import attempts, events, experiments, is_status, storable

LAST_PLACE = 1000  # counted exactly: to count on would cost more with every experiment that waits


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time an experiment was claimed, and how that ended."""

    attempt: int
    owner: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Status | None  # the experiment's status after it
    failure: Failure | None
    workload_sha256: str | None
    continuation: Continuation | None


@dataclass(frozen=True, slots=True)
class ExperimentItem:
    """An experiment as lists show it."""

    id: ExperimentId
    version: int  # grows with every change
    name: str
    labels: dict[str, str]
    model: str
    simulated: bool
    status: Status
    priority: int
    created_at: datetime
    started_at: datetime | None  # of the last attempt
    finished_at: datetime | None
    attempt: int
    cancel_requested: bool
    progress: Progress | None
    verdict: str | None
    failure: Failure | None
    retry_of: ExperimentId | None
    submitted_by: str  # a token's name


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """All there is to know about an experiment, save its trials and events."""

    item: ExperimentItem
    spec: Experiment
    submitted: dict[str, Any]  # the spec as it was submitted
    queue_position: int | None  # from 1, while queued
    owner: str | None
    heartbeat_at: datetime | None
    lease_expires_at: datetime | None
    attempts: tuple[Attempt, ...]
    retries: tuple[ExperimentId, ...]  # experiments that retry this one
    results: dict[str, Any] | None

    @property
    def etag(self) -> str:
        """Changes whenever the experiment does."""
        return f"{self.item.version}-{self.queue_position or 0}-{len(self.retries)}"


@dataclass(frozen=True, slots=True)
class Event:
    """A change of status, or the request for one: from and to are the same then."""

    seq: int  # from 1, without gaps
    at: datetime
    from_status: Status | None
    to_status: Status
    attempt: int
    owner: str | None
    reason: str
    detail: dict[str, Any] | None
    actor: str | None  # who asked for it, where somebody did
    source: str | None  # and from which address


def get(db: Database, experiment_id: ExperimentId) -> ExperimentRow:
    """One experiment; NotFound if there is none, UnreadableSpec if another version wrote it."""
    with db.read() as connection:
        row = connection.execute(_BY_ID, {"of": experiment_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no experiment {clip(experiment_id)}")
        return ExperimentRow(
            item=item_of(row),
            spec=parse_spec(experiment_id, row.spec),
            submitted=row.spec,
            queue_position=_place_of(connection, row),
            owner=row.owner,
            heartbeat_at=row.heartbeat_at,
            lease_expires_at=row.lease_expires_at,
            attempts=_read_attempts(connection, experiment_id) if row.attempt else (),
            retries=tuple(ExperimentId(one) for one in connection.execute(_RETRIES, {"of": experiment_id}).scalars()),
            results=row.results,
        )


def build_submitted_row(
    connection: Connection, row: Mapping[str, Any], spec: Experiment, at: datetime
) -> ExperimentRow:
    """An experiment that was queued at this moment, as `get` would find it."""
    names = ("id", "version", "name", "labels", "model", "simulated", "priority", "retry_of", "submitted_by")
    item = ExperimentItem(
        **{name: row[name] for name in names},
        status=Status.QUEUED,
        created_at=at,
        started_at=None,
        finished_at=None,
        attempt=0,
        cancel_requested=False,
        progress=None,
        verdict=None,
        failure=None,
    )
    return ExperimentRow(
        item=item,
        spec=spec,
        submitted=row["spec"],
        queue_position=_count_position(connection, item.id, item.priority, at),
        owner=None,
        heartbeat_at=None,
        lease_expires_at=None,
        attempts=(),
        retries=(),
        results=None,
    )


def get_item(db: Database, experiment_id: ExperimentId) -> ExperimentItem:
    """One experiment as lists show it, without spec and results: cheap enough to ask again and again."""
    with db.read() as connection:
        row = connection.execute(_ITEM_BY_ID, {"of": experiment_id}).one_or_none()
    if row is None:
        raise NotFound(f"there is no experiment {clip(experiment_id)}")
    return item_of(row)


def queue_position(db: Database, experiment_id: ExperimentId) -> int | None:
    """Place in the queue, from 1; None for what does not wait."""
    c = experiments.c
    query = select(*(c[name] for name in ("id", "status", "priority", "queued_at"))).where(c.id == experiment_id)
    with db.read() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else _place_of(connection, row)


def list_events_after(db: Database, experiment_id: ExperimentId, seq: int = 0) -> tuple[Event, ...]:
    """Changes of status after the event ``seq``, oldest first."""
    query = (
        select(events)
        .where(events.c.experiment_id == experiment_id, events.c.seq > storable(seq))
        .order_by(events.c.seq)
    )
    with db.read() as connection:
        return tuple(_build_event(row) for row in connection.execute(query))


def counts(db: Database) -> dict[Status, int]:
    """How many experiments are in each status."""
    with db.read() as connection:
        found = connection.execute(select(experiments.c.status, func.count()).group_by(experiments.c.status)).all()
    return dict.fromkeys(Status, 0) | {Status(status): count for status, count in found}


ITEM_COLUMNS = (
    "id",
    "version",
    "name",
    "labels",
    "model",
    "simulated",
    "status",
    "priority",
    "created_at",
    "started_at",
    "finished_at",
    "attempt",
    "cancel_requested_at",
    "progress",
    "verdict",
    "failure",
    "retry_of",
    "submitted_by",
)


# Built once: that takes longer than to run them.
_OF: BindParameter[str] = bindparam("of")
_BY_ID = select(experiments).where(experiments.c.id == _OF)
_ITEM_BY_ID = select(*(experiments.c[name] for name in ITEM_COLUMNS)).where(experiments.c.id == _OF)
_ATTEMPTS = select(attempts).where(attempts.c.experiment_id == _OF).order_by(attempts.c.attempt)
_RETRIES = (
    select(experiments.c.id).where(experiments.c.retry_of == _OF).order_by(experiments.c.created_at, experiments.c.id)
)
_AHEAD = select(func.count()).select_from(
    select(literal(1))
    .where(
        is_status(Status.QUEUED),
        (experiments.c.priority > bindparam("priority"))
        | (
            (experiments.c.priority == bindparam("priority"))
            & (
                (experiments.c.queued_at < bindparam("queued_at"))
                | ((experiments.c.queued_at == bindparam("queued_at")) & (experiments.c.id < _OF))
            )
        ),
    )
    .limit(LAST_PLACE)
    .subquery()
)


def item_of(row: Row[Any]) -> ExperimentItem:
    """A row of ITEM_COLUMNS, or of more."""
    return ExperimentItem(
        id=ExperimentId(row.id),
        version=row.version,
        name=row.name,
        labels=row.labels,
        model=row.model,
        simulated=row.simulated,
        status=Status(row.status),
        priority=row.priority,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
        cancel_requested=row.cancel_requested_at is not None,
        progress=readable(Progress, row.progress),
        verdict=None if row.verdict is None else row.verdict.partition(" ")[0],
        failure=parse_failure(row.failure),
        retry_of=row.retry_of,
        submitted_by=row.submitted_by,
    )


def _place_of(connection: Connection, row: Row[Any]) -> int | None:
    return _count_position(connection, row.id, row.priority, row.queued_at) if row.status == Status.QUEUED else None


def _count_position(connection: Connection, experiment_id: ExperimentId, priority: int, queued_at: datetime) -> int:
    """Place in the queue, from 1; whoever waits behind LAST_PLACE others is told no more than that."""
    place = {"of": experiment_id, "priority": priority, "queued_at": queued_at}
    return 1 + connection.execute(_AHEAD, place).scalar_one()


def _read_attempts(connection: Connection, experiment_id: ExperimentId) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            attempt=row.attempt,
            owner=row.owner,
            started_at=row.started_at,
            ended_at=row.ended_at,
            outcome=None if row.outcome is None else Status(row.outcome),
            failure=parse_failure(row.failure),
            workload_sha256=row.workload_sha256,
            continuation=readable(Continuation, row.continuation),
        )
        for row in connection.execute(_ATTEMPTS, {"of": experiment_id})
    )


def _build_event(row: Row[Any]) -> Event:
    return Event(
        seq=row.seq,
        at=row.at,
        from_status=None if row.from_status is None else Status(row.from_status),
        to_status=Status(row.to_status),
        attempt=row.attempt,
        owner=row.owner,
        reason=row.reason,
        detail=row.detail,
        actor=row.actor,
        source=row.source,
    )
