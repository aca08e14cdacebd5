"""How long the queue is waiting."""

from sqlalchemy import func, literal_column, select

from app.store.clock import now_us
from app.store.database import Database
from app.store.tables import experiments


def oldest_queued_s(db: Database) -> float | None:
    """How long the experiment that has waited longest has been in the queue; None if it is empty."""
    waited = select(now_us() - func.min(experiments.c.queued_at)).where(
        experiments.c.status == literal_column("'queued'")
    )
    with db.read() as connection:
        microseconds: int | None = connection.execute(waited).scalar_one()
    return None if microseconds is None else microseconds / 1_000_000
