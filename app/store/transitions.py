"""The one statement that changes an experiment's status, and what goes with it: attempts and history."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, select, update

from app.spec.lifecycle import TRANSITIONS, Failure, Status
from app.store.actors import Actor
from app.store.clock import now_us
from app.store.ids import ExperimentId
from app.store.tables import attempts, events, experiments, is_status


def move(
    connection: Connection,
    origin: Status,
    target: Status,
    condition: ColumnElement[bool],
    reason: str,
    *,
    owner: str | None = None,
    failure: Failure | None = None,
    by: Actor | None = None,
    **values: Any,
) -> tuple[Row[Any], ...]:
    """Every experiment in ``origin`` that meets the condition goes to ``target``; its event goes with it.

    ``owner``: who claims it. ``failure``: of the attempt that ends. ``by``: who asked for it, if somebody did.
    ``values``: other columns to set. Returns the id, attempt, spec and retry_of of each; ValueError for a step that no
    experiment takes.
    """
    if target not in TRANSITIONS[origin]:
        raise ValueError(f"no experiment goes from {origin} to {target}")
    cause = describe_failure(failure)
    moved = connection.execute(
        update(experiments)
        .where(is_status(origin), condition)
        .values(
            status=target,
            version=experiments.c.version + 1,
            **_list_consequences(target, owner, cause),
            **values,
        )
        .returning(experiments.c.id, experiments.c.attempt, experiments.c.spec, experiments.c.retry_of)
    ).all()
    for row in moved:
        if target is Status.RUNNING:
            _begin_attempt(connection, row, owner)
        worker = _end_attempt(connection, row, target, cause) if origin is Status.RUNNING else owner
        append_event(connection, row.id, origin, target, row.attempt, worker, reason, cause, by)
    return tuple(moved)


def _list_consequences(target: Status, owner: str | None, cause: dict[str, Any] | None) -> dict[str, Any]:
    """What else is true of an experiment in this state."""
    if target is Status.RUNNING:
        return {
            "attempt": experiments.c.attempt + 1,
            "owner": owner,
            "started_at": now_us(),
            "heartbeat_at": now_us(),
        }
    unowned: dict[str, Any] = {"owner": None, "lease_expires_at": None, "progress": None}
    if target is Status.QUEUED:
        return unowned
    return unowned | {"finished_at": now_us(), "failure": cause if target is Status.FAILED else None}


def _begin_attempt(connection: Connection, row: Row[Any], owner: str | None) -> None:
    connection.execute(
        insert(attempts).values(experiment_id=row.id, attempt=row.attempt, owner=owner, started_at=now_us())
    )


def _end_attempt(connection: Connection, row: Row[Any], outcome: Status, cause: dict[str, Any] | None) -> str:
    owner: str = connection.execute(
        update(attempts)
        .where(attempts.c.experiment_id == row.id, attempts.c.attempt == row.attempt)
        .values(ended_at=now_us(), outcome=outcome, failure=cause)
        .returning(attempts.c.owner)
    ).scalar_one()
    return owner


def append_event(  # noqa: PLR0917 - the columns of a row
    connection: Connection,
    experiment_id: ExperimentId,
    origin: Status | None,
    target: Status,
    attempt: int,
    owner: str | None,
    reason: str,
    detail: dict[str, Any] | None = None,
    by: Actor | None = None,
) -> None:
    """The next line of an experiment's history."""
    connection.execute(
        _NEXT_EVENT,
        {
            "of": experiment_id,
            "experiment_id": experiment_id,
            "from_status": origin,
            "to_status": target,
            "attempt": attempt,
            "owner": owner,
            "reason": reason,
            "detail": detail,
            "actor": None if by is None else by.name,
            "source": None if by is None else by.source,
        },
    )


# The experiment's row is locked by then, so no other event of it can take the same number.
_LAST_EVENT = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.experiment_id == bindparam("of"))
_NEXT_EVENT = insert(events).values(seq=_LAST_EVENT.scalar_subquery() + 1, at=now_us())


def describe_failure(failure: Failure | None) -> dict[str, Any] | None:
    """A failure as it is stored."""
    return None if failure is None else failure.model_dump(mode="json")
