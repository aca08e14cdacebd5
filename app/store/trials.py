"""What attempts leave behind: resolved arms, trials, request records."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, literal, select

from app.errors import Conflict, NotFound
from app.format import clip
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, HarnessUse, StartedArm, TrialResult, TrialState
from app.measure.work import Work
from app.spec.lifecycle import Status
from app.spec.plan import Phase, PlannedTrial
from app.store.clock import now_us
from app.store.database import Database
from app.store.dialects import insert_or_replace
from app.store.ids import ExperimentId
from app.store.lease import Lease, update_fenced
from app.store.tables import arms, experiments, storable, trial_records, trials

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoredArm:
    """An arm as one attempt found it."""

    attempt: int
    resolved: StartedArm


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """Which trial something belongs to."""

    attempt: int
    planned: PlannedTrial


@dataclass(frozen=True, slots=True)
class Extent:
    """What the results of an experiment rest on; another one, other results."""

    status: Status
    attempt: int
    arms: int  # that have started, in this attempt
    trials: int  # that are stored


# --- writing, inside the fence -------------------------------------------------------------------------------------


def save_arm(db: Database, lease: Lease, arm: StartedArm) -> None:
    """Store what an arm's engine turned out to be; an engine that starts anew replaces what was known of it."""
    row = {
        "experiment_id": lease.experiment_id,
        "attempt": lease.attempt,
        "arm": arm.arm,
        "resolved": asdict(arm),
    }
    with db.write() as connection:
        update_fenced(connection, lease)
        insert_or_replace(connection, arms, row, ("experiment_id", "attempt", "arm"))


def save_trial(db: Database, lease: Lease, result: TrialResult, summary: TrialSummary) -> None:
    """Store a finished trial. Saying it twice, after a lost acknowledgement, is no error."""
    from app.store.parquet import tabulate_records, tabulate_samples, write_parquet

    records = write_parquet(tabulate_records(result.records))
    timeline = write_parquet(tabulate_samples(result.timeline))
    row = _build_row(lease, summary)
    with db.write() as connection:
        update_fenced(connection, lease)
        if _is_stored(connection, row):
            return
        row["records_id"] = connection.execute(
            insert(trial_records)
            .values(stored_at=now_us(), records=records, timeline=timeline)
            .returning(trial_records.c.id)
        ).scalar_one()
        connection.execute(insert(trials).values(row))


# --- reading -------------------------------------------------------------------------------------------------------


def read_arms(db: Database, experiment_id: ExperimentId, attempt: int | None = None) -> tuple[StoredArm, ...]:
    """Resolved arms of one attempt, or of all; in the order of attempt and name."""
    query = (
        select(arms.c.attempt, arms.c.resolved)
        .where(
            arms.c.experiment_id == experiment_id,
            literal(True) if attempt is None else arms.c.attempt == storable(attempt),
        )
        .order_by(arms.c.attempt, arms.c.arm)
    )
    with db.read() as connection:
        return tuple(
            StoredArm(row.attempt, StartedArm(**(row.resolved | {"pids": tuple(row.resolved["pids"])})))
            for row in connection.execute(query)
        )


def read_extent(db: Database, experiment_id: ExperimentId) -> Extent:
    """How much there is to make results of: cheap enough to ask again and again."""
    with db.read() as connection:
        row = connection.execute(_EXTENT, {"of": experiment_id}).one_or_none()
    if row is None:
        raise NotFound(f"there is no experiment {clip(experiment_id)}")
    return Extent(Status(row.status), row.attempt, row.arms, row.trials)


def read_trials(db: Database, experiment_id: ExperimentId, attempt: int | None = None) -> tuple[TrialSummary, ...]:
    """Trials of one attempt, or of all, in the order they ran."""
    query = select(trials).where(_of(experiment_id, attempt)).order_by(*_ORDER)
    with db.read() as connection:
        return tuple(_parse_summary(row) for row in connection.execute(query))


def read_records(
    db: Database,
    experiment_id: ExperimentId,
    arm: str | None = None,
    slot: int | None = None,
    *,
    attempt: int | None = None,
) -> Iterator[tuple[StoredTrial, "pa.Table"]]:
    """Request records of measured trials, one table at a time, so that a million of them stream.

    No transaction stays open in between; a trial whose records an operator has deleted is left out.
    """
    from app.store.parquet import RECORD_SCHEMA

    chosen = _select_measured(experiment_id, arm, slot, attempt)
    return _read_blobs(db, chosen, trial_records.c.records, RECORD_SCHEMA)


def read_timelines(
    db: Database,
    experiment_id: ExperimentId,
    arm: str | None = None,
    slot: int | None = None,
    *,
    attempt: int | None = None,
) -> Iterator[tuple[StoredTrial, "pa.Table"]]:
    """Sampled engine state of measured trials, one table at a time."""
    from app.store.parquet import SAMPLE_SCHEMA

    chosen = _select_measured(experiment_id, arm, slot, attempt)
    return _read_blobs(db, chosen, trial_records.c.timeline, SAMPLE_SCHEMA)


def _read_blobs(
    db: Database, condition: ColumnElement[bool], column: ColumnElement[bytes], schema: "pa.Schema"
) -> Iterator[tuple[StoredTrial, "pa.Table"]]:
    from app.store.parquet import read_parquet

    with db.read() as connection:
        found = connection.execute(select(trials).where(condition).order_by(*_ORDER)).all()
    for row in found:
        with db.read() as connection:
            blob = connection.execute(select(column).where(trial_records.c.id == row.records_id)).scalar_one_or_none()
        if blob is not None:
            yield StoredTrial(row.attempt, _parse_planned(row)), read_parquet(blob, schema)


_CONDITIONS = TypeAdapter[Conditions | None](
    Conditions | None
)  # fields that only an earlier version wrote are left out
_EXTENT = select(
    experiments.c.status,
    experiments.c.attempt,
    *(
        select(func.count())
        .select_from(table)
        .where(table.c.experiment_id == experiments.c.id, table.c.attempt == experiments.c.attempt)
        .scalar_subquery()
        .label(table.name)
        for table in (arms, trials)
    ),
).where(experiments.c.id == bindparam("of"))
_ORDER = (trials.c.attempt, trials.c.started_at, trials.c.id)


def _of(experiment_id: ExperimentId, attempt: int | None) -> ColumnElement[bool]:
    of = trials.c.experiment_id == experiment_id
    return of if attempt is None else of & (trials.c.attempt == storable(attempt))


def _select_measured(
    experiment_id: ExperimentId, arm: str | None, slot: int | None, attempt: int | None
) -> ColumnElement[bool]:
    condition = _of(experiment_id, attempt) & (trials.c.phase == Phase.MEASURED)
    if arm is not None:
        condition &= trials.c.arm == arm
    if slot is not None:
        condition &= trials.c.slot == storable(slot)
    return condition


# --- rows and values -----------------------------------------------------------------------------------------------


def _build_row(lease: Lease, summary: TrialSummary) -> dict[str, Any]:
    work = None if summary.work is None else asdict(summary.work)
    return {
        "experiment_id": lease.experiment_id,
        "attempt": lease.attempt,
        **summary.planned.model_dump(),
        "state": summary.state,
        "started_at": summary.started_at,
        "wall_s": summary.wall_s,
        "metrics": summary.metrics,
        "missing": summary.missing,
        "output_hashes": None if work is None else work.pop("output_hashes"),
        "work": work,
        "harness": None if summary.harness is None else asdict(summary.harness),
        "conditions": None if summary.conditions is None else asdict(summary.conditions),
        "error": summary.error,
    }


def _is_stored(connection: Connection, row: dict[str, Any]) -> bool:
    key = ("experiment_id", "attempt", "phase", "block", "arm")
    same = ("slot", "state", "started_at", "wall_s")
    stored = connection.execute(
        select(*(trials.c[name] for name in same)).where(*(trials.c[name] == row[name] for name in key))
    ).one_or_none()
    if stored is not None and tuple(stored) != tuple(row[name] for name in same):
        raise Conflict(f"another result of {row['phase']} block {row['block']}, arm {row['arm']!r} is stored")
    return stored is not None


def _parse_planned(row: Row[Any]) -> PlannedTrial:
    return PlannedTrial.model_validate({name: getattr(row, name) for name in PlannedTrial.model_fields})


def _parse_summary(row: Row[Any]) -> TrialSummary:
    return TrialSummary(
        planned=_parse_planned(row),
        attempt=row.attempt,
        state=TrialState(row.state),
        started_at=row.started_at,
        wall_s=row.wall_s,
        metrics=row.metrics,
        missing=row.missing,
        work=None if row.work is None else Work(**row.work, output_hashes=row.output_hashes),
        harness=None if row.harness is None else HarnessUse(**row.harness),
        conditions=_CONDITIONS.validate_python(row.conditions),
        error=row.error,
    )
