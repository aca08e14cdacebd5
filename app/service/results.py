"""What an experiment has found, made of what is stored."""

from app.judge.results import Results, build_results
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.store import trials
from app.store.database import Database
from app.store.experiments import ExperimentRow


def results_of(db: Database, row: ExperimentRow) -> Results:
    """What the current attempt has found so far."""
    item = row.item
    resolved = resolve(row.spec)
    stored = trials.arms_of(db, item.id, item.attempt)
    current = row.attempts[-1] if row.attempts else None
    return build_results(
        item.id,
        spec=row.spec,
        resolved=resolved,
        plan=plan_trials(row.spec, resolved),
        status=item.status,
        arms=[arm.resolved for arm in stored],
        trials=trials.trials_of(db, item.id, item.attempt),
        failure=item.failure,
        continuation=None if current is None else current.continuation,
        workload_sha256=None if current is None else current.workload_sha256,
    )
