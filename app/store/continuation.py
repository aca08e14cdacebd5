"""What an attempt takes over from those before it."""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, and_, insert, literal, select, update

from app.judge.continuation import Continuation, Earlier, EarlierBlocks
from app.spec.plan import Phase
from app.store import trials as stored
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.lease import Lease, update_fenced
from app.store.tables import attempts, experiments, trials


def read_earlier_attempts(db: Database, lease: Lease, retry_of: ExperimentId | None) -> tuple[Earlier, ...]:
    """What earlier attempts left, newest first: of this experiment, of the one it retries, of the one that retries."""
    with db.read() as connection:
        rows = [
            row
            for experiment_id in (lease.experiment_id, *_follow_retries(connection, retry_of))
            for row in connection.execute(
                select(attempts)
                .where(attempts.c.experiment_id == experiment_id)
                .where(literal(experiment_id != lease.experiment_id) | (attempts.c.attempt < lease.attempt))
                .order_by(attempts.c.attempt.desc())
            )
        ]
    return tuple(
        Earlier(
            experiment_id=row.experiment_id,
            attempt=row.attempt,
            workload_sha256=row.workload_sha256,
            arms=tuple(arm.resolved for arm in stored.read_arms(db, row.experiment_id, row.attempt)),
            trials=stored.read_trials(db, row.experiment_id, row.attempt),
        )
        for row in rows
    )


def keep_workload(db: Database, lease: Lease, sha256: str) -> None:
    """Store which of the workloads that the spec could mean this attempt has drawn."""
    with db.write() as connection:
        update_fenced(connection, lease)
        connection.execute(update(attempts).where(_own(lease)).values(workload_sha256=sha256))


def take_over(db: Database, lease: Lease, continuation: Continuation) -> int:
    """Make measured blocks of earlier attempts part of this one, and note whose they were.

    Returns the number of trials. Blocks this attempt already has are left as they are: saying it twice is no error.
    """
    with db.write() as connection:
        update_fenced(connection, lease)
        taken = sum(_copy(connection, lease, earlier) for earlier in continuation.taken_over)
        document = continuation.model_dump(mode="json")
        connection.execute(update(attempts).where(_own(lease)).values(continuation=document))
        return taken


def _copy(connection: Connection, lease: Lease, earlier: EarlierBlocks) -> int:
    columns = [column for column in trials.c if column.name not in {"id", "experiment_id", "attempt"}]
    measured = trials.c.phase == Phase.MEASURED
    present = select(trials.c.block).where(
        trials.c.experiment_id == lease.experiment_id, trials.c.attempt == lease.attempt, measured
    )
    finished = (
        select(literal(lease.experiment_id).label("experiment_id"), literal(lease.attempt).label("attempt"), *columns)
        .where(trials.c.experiment_id == earlier.experiment_id, trials.c.attempt == earlier.attempt, measured)
        .where(trials.c.block.in_(earlier.blocks), trials.c.block.not_in(present))
        .order_by(trials.c.id)
    )
    names = ["experiment_id", "attempt", *(column.name for column in columns)]
    return len(connection.execute(insert(trials).from_select(names, finished).returning(trials.c.id)).all())


def _follow_retries(connection: Connection, experiment_id: ExperimentId | None) -> Iterator[ExperimentId]:
    """An experiment, the one that it retries, and so on."""
    while experiment_id is not None:
        yield experiment_id
        query = select(experiments.c.retry_of).where(experiments.c.id == experiment_id)
        experiment_id = connection.execute(query).scalar_one()


def _own(lease: Lease) -> ColumnElement[bool]:
    return and_(attempts.c.experiment_id == lease.experiment_id, attempts.c.attempt == lease.attempt)
