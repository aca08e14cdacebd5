"""What tests of the store share."""

import time
from typing import Any

from sqlalchemy import select, update

from app.errors import FailureCode
from app.spec.lifecycle import Failure, Status
from app.store import experiments, queue
from app.store.clock import now_us
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import Lease
from app.store.tables import experiments as table
from app.store.tables import token_events
from tests.support.builders import a_simulated_spec

NOBODY = ExperimentId("0" * 16)
LEASE_S = 30.0
A_FAILURE = Failure(code=FailureCode.ENGINE_DIED, detail="the engine core is gone", arm="sync")


def submit(db: Database, **changes: Any) -> ExperimentId:
    """Queue an experiment, later than all before it: SQLite's clock ticks once a millisecond."""
    time.sleep(0.002)
    return queue.enqueue(db, a_simulated_spec(**changes)).experiment_id


def claim(db: Database, owner: str = "worker-1", lease_s: float = LEASE_S) -> Lease:
    """Claim what is first in the queue."""
    claimed = queue.claim(db, owner, lease_s)
    assert claimed is not None
    return claimed.lease


def start(db: Database, owner: str = "worker-1", **changes: Any) -> Lease:
    """Queue an experiment and claim it."""
    experiment_id = submit(db, **changes)
    lease = claim(db, owner)
    assert lease.experiment_id == experiment_id
    return lease


def fail(db: Database, lease: Lease) -> None:
    """End an attempt with a failure."""
    queue.finish(db, lease, Status.FAILED, failure=A_FAILURE, reason="it broke")


def expire(db: Database, experiment_id: ExperimentId) -> None:
    """Let a lease run out."""
    with db.write() as connection:
        connection.execute(update(table).where(table.c.id == experiment_id).values(lease_expires_at=now_us() - 1))


def status(db: Database, experiment_id: ExperimentId) -> Status:
    """Where an experiment is."""
    return experiments.get_item(db, experiment_id).status


def changes_of(db: Database, experiment_id: ExperimentId) -> list[tuple[Status | None, Status]]:
    """The status changes of an experiment."""
    return [(event.from_status, event.to_status) for event in experiments.list_events_after(db, experiment_id)]


def history_of(db: Database, token: str) -> list[tuple[str, str, str]]:
    """What was done to a token, by whom and from where, oldest first."""
    events = token_events.c
    with db.read() as connection:
        rows = connection.execute(select(token_events).where(events.token == token).order_by(events.id))
        return [(row.action, row.actor, row.source) for row in rows]
