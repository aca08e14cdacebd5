"""Workers, as they announce themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update

from app.store.clock import microseconds, now_us
from app.store.database import Database
from app.store.dialects import insert_or_replace
from app.store.ids import ExperimentId
from app.store.tables import workers


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: where it runs, what it has, what it does."""

    id: str  # the owner of its leases
    host: str
    pid: int
    started_at: datetime
    last_seen_at: datetime
    silent_s: float  # since then, by the database's clock
    experiment_id: ExperimentId | None
    info: dict[str, Any]  # Ray nodes, GPUs, versions


def announce(db: Database, worker_id: str, *, host: str, pid: int, info: Mapping[str, Any]) -> None:
    """A worker has started."""
    row = {
        "id": worker_id,
        "host": host,
        "pid": pid,
        "started_at": now_us(),
        "last_seen_at": now_us(),
        "experiment_id": None,
        "info": dict(info),
    }
    with db.write() as connection:
        insert_or_replace(connection, workers, row, ("id",))


def heartbeat(
    db: Database, worker_id: str, *, experiment_id: ExperimentId | None, info: Mapping[str, Any] | None = None
) -> bool:
    """A worker is alive and runs this experiment, or none. False if it is unknown and must announce itself again."""
    values: dict[str, Any] = {"last_seen_at": now_us(), "experiment_id": experiment_id}
    if info is not None:
        values["info"] = dict(info)
    with db.write() as connection:
        return connection.execute(update(workers).where(workers.c.id == worker_id).values(values)).rowcount == 1


def forget(db: Database, worker_id: str) -> None:
    """A worker has gone in good order."""
    with db.write() as connection:
        connection.execute(delete(workers).where(workers.c.id == worker_id))


def forget_silent(db: Database, silent_s: float) -> int:
    """Drop workers that have not been seen for this long; returns how many."""
    with db.write() as connection:
        silent = workers.c.last_seen_at < now_us() - microseconds(silent_s)
        return connection.execute(delete(workers).where(silent)).rowcount


def list_workers(db: Database) -> tuple[Worker, ...]:
    """Every worker that has announced itself, by host and process."""
    query = select(workers, (now_us() - workers.c.last_seen_at).label("silent_us")).order_by(
        workers.c.host, workers.c.pid, workers.c.id
    )
    with db.read() as connection:
        return tuple(
            Worker(
                id=row.id,
                host=row.host,
                pid=row.pid,
                started_at=row.started_at,
                last_seen_at=row.last_seen_at,
                silent_s=row.silent_us / 1_000_000,
                experiment_id=row.experiment_id,
                info=row.info,
            )
            for row in connection.execute(query)
        )
