"""The answer."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.experiments import Id
from app.api.http import Db, answer, etag_of, unchanged
from app.api.problems import responses
from app.errors import NotFound, UnreadableSpec
from app.experiment.plan import plan_trials
from app.experiment.resolution import resolve
from app.experiment.results import Results, build_results
from app.store import experiments, trials
from app.store.engine import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


@router.get(
    "/{experiment_id}/results", summary="Results", response_model=Results, responses=responses(NotFound, UnreadableSpec)
)
def get_results(request: Request, db: Db, experiment_id: Id) -> Response:
    """The summary, arms, trials, comparisons, parity, fairness and environment: partial while the experiment runs."""
    row = experiments.get(db, ExperimentId(experiment_id))
    etag = etag_of("results", experiment_id, row.etag)
    return unchanged(request, etag) or answer(request, row.results or results_of(db, row), etag)


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
