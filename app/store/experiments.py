"""Reading experiments."""

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    exists,
    func,
    literal,
    select,
    tuple_,
)

from app.errors import FieldError, InvalidInput, NotFound
from app.judge.continuation import Continuation
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure, Progress, Status
from app.store.clock import Moment
from app.store.database import Database
from app.store.documents import failure_of, readable, spec_of
from app.store.ids import ExperimentId
from app.store.tables import SafeText, attempts, events, experiment_labels, experiments, is_status, storable

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
class ExperimentPage:
    """Some experiments, newest first, and where the next page begins."""

    items: tuple[ExperimentItem, ...]
    next_cursor: str | None


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
            raise NotFound(f"there is no experiment {experiment_id}")
        return ExperimentRow(
            item=_item(row),
            spec=spec_of(experiment_id, row.spec),
            submitted=row.spec,
            queue_position=_place_of(connection, row),
            owner=row.owner,
            heartbeat_at=row.heartbeat_at,
            lease_expires_at=row.lease_expires_at,
            attempts=_attempts(connection, experiment_id) if row.attempt else (),
            retries=_retries(connection, experiment_id),
            results=row.results,
        )


def submitted_row(connection: Connection, row: Mapping[str, Any], spec: Experiment, at: datetime) -> ExperimentRow:
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
        queue_position=_position(connection, item.id, item.priority, at),
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
        raise NotFound(f"there is no experiment {experiment_id}")
    return _item(row)


def queue_position(db: Database, experiment_id: ExperimentId) -> int | None:
    """Place in the queue, from 1; None for what does not wait."""
    c = experiments.c
    query = select(*(c[name] for name in ("id", "status", "priority", "queued_at"))).where(c.id == experiment_id)
    with db.read() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else _place_of(connection, row)


def page(
    db: Database,
    *,
    status: Collection[Status] = (),
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    model: str | None = None,
    verdict: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> ExperimentPage:
    """Newest first. ``name`` matches a part of the name, whatever its case; everything else matches whole.

    ``verdict`` matches experiments of which any primary comparison came to it.
    """
    c = experiments.c
    conditions: list[ColumnElement[bool]] = [_has_label(key, value) for key, value in (labels or {}).items()]
    if status:
        conditions.append(c.status.in_(list(status)))
    if name:
        # Both sides are folded by the database: SQLite knows the case of ASCII letters only.
        conditions.append(func.lower(c.name).like(func.lower(literal(f"%{_escaped(name)}%", SafeText)), escape="/"))
    if model is not None:
        conditions.append(c.model == model)
    if verdict is not None:
        conditions.append((" " + c.verdict + " ").contains(f" {verdict} ", autoescape=True))
    if cursor is not None:
        created_at, last = _decoded(cursor)
        conditions.append(tuple_(c.created_at, c.id) < tuple_(created_at, last, types=[Moment, c.id.type]))
    query = (
        select(*(c[name] for name in _ITEM_COLUMNS))
        .where(and_(True, *conditions))
        .order_by(c.created_at.desc(), c.id.desc())
        .limit(limit + 1)
    )
    with db.read() as connection:
        rows = connection.execute(query).all()
    more = len(rows) > limit
    items = tuple(_item(row) for row in rows[:limit])
    return ExperimentPage(items, _encoded(items[-1]) if more else None)


def events_after(db: Database, experiment_id: ExperimentId, seq: int = 0) -> tuple[Event, ...]:
    """Changes of status after the event ``seq``, oldest first."""
    query = (
        select(events)
        .where(events.c.experiment_id == experiment_id, events.c.seq > storable(seq))
        .order_by(events.c.seq)
    )
    with db.read() as connection:
        return tuple(_event(row) for row in connection.execute(query))


def counts(db: Database) -> dict[Status, int]:
    """How many experiments are in each status."""
    with db.read() as connection:
        found = connection.execute(select(experiments.c.status, func.count()).group_by(experiments.c.status)).all()
    return dict.fromkeys(Status, 0) | {Status(status): count for status, count in found}


_ITEM_COLUMNS = (
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
_ITEM_BY_ID = select(*(experiments.c[name] for name in _ITEM_COLUMNS)).where(experiments.c.id == _OF)
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


def _item(row: Row[Any]) -> ExperimentItem:
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
        failure=failure_of(row.failure),
        retry_of=row.retry_of,
        submitted_by=row.submitted_by,
    )


def _place_of(connection: Connection, row: Row[Any]) -> int | None:
    return _position(connection, row.id, row.priority, row.queued_at) if row.status == Status.QUEUED else None


def _position(connection: Connection, experiment_id: ExperimentId, priority: int, queued_at: datetime) -> int:
    """Place in the queue, from 1; whoever waits behind LAST_PLACE others is told no more than that."""
    place = {"of": experiment_id, "priority": priority, "queued_at": queued_at}
    return 1 + connection.execute(_AHEAD, place).scalar_one()


def _attempts(connection: Connection, experiment_id: ExperimentId) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            attempt=row.attempt,
            owner=row.owner,
            started_at=row.started_at,
            ended_at=row.ended_at,
            outcome=None if row.outcome is None else Status(row.outcome),
            failure=failure_of(row.failure),
            workload_sha256=row.workload_sha256,
            continuation=readable(Continuation, row.continuation),
        )
        for row in connection.execute(_ATTEMPTS, {"of": experiment_id})
    )


def _retries(connection: Connection, experiment_id: ExperimentId) -> tuple[ExperimentId, ...]:
    return tuple(ExperimentId(found) for found in connection.execute(_RETRIES, {"of": experiment_id}).scalars())


def _event(row: Row[Any]) -> Event:
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


def _has_label(key: str, value: str) -> ColumnElement[bool]:
    label = experiment_labels.c
    return exists().where(label.experiment_id == experiments.c.id, label.key == key, label.value == value)


def _escaped(part: str) -> str:
    return part.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _encoded(item: ExperimentItem) -> str:
    place = json.dumps([item.created_at.isoformat(), item.id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[datetime, str]:
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        created_at, last = datetime.fromisoformat(place[0]), str(place[1])
        if created_at.tzinfo is None:
            raise ValueError("no time zone")
    except (ValueError, TypeError, LookupError, binascii.Error, UnicodeError):
        raise InvalidInput.of((FieldError("/cursor", "not a cursor; use next_cursor of the page before"),)) from None
    return created_at, last
