"""The fence: every write of a worker carries its lease and changes exactly one row, or nothing at all."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, update

from app.errors import LeaseLost
from app.store.ids import ExperimentId
from app.store.tables import experiments


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one attempt."""

    experiment_id: ExperimentId
    attempt: int
    owner: str


def fence(lease: Lease) -> ColumnElement[bool]:
    """True for the experiment's row while the lease holds: only a running experiment has an owner."""
    return and_(
        experiments.c.id == lease.experiment_id,
        experiments.c.attempt == lease.attempt,
        experiments.c.owner == lease.owner,
    )


def update_fenced(connection: Connection, lease: Lease, **values: Any) -> bool:
    """Change the experiment's row, and keep others from it until the transaction ends; LeaseLost if it is not ours.

    Returns whether somebody has asked to cancel it.
    """
    row = connection.execute(
        update(experiments)
        .where(fence(lease))
        .values(version=experiments.c.version + 1, **values)
        .returning(experiments.c.cancel_requested_at)
    ).one_or_none()
    if row is None:
        raise lost(lease)
    return row.cancel_requested_at is not None


def lost(lease: Lease) -> LeaseLost:
    """What a worker is told when its attempt is somebody else's by now."""
    return LeaseLost(f"{lease.owner} no longer owns attempt {lease.attempt} of experiment {lease.experiment_id}")
