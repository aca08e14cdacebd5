"""The answer."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.experiments import Id
from app.errors import NotFound, UnreadableSpec
from app.http.basics import Db, etag_of, unchanged, written
from app.http.problems import responses
from app.judge.results import Results
from app.service.results import read_document
from app.store import trials
from app.store.ids import ExperimentId
from app.version import VERSION

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


@router.get(
    "/{experiment_id}/results", summary="Results", response_model=Results, responses=responses(NotFound, UnreadableSpec)
)
def get_results(request: Request, db: Db, experiment_id: Id) -> Response:
    """The summary, arms, trials, comparisons, parity, fairness and environment: partial while the experiment runs."""
    etag = etag_of("results", VERSION, experiment_id, trials.extent_of(db, ExperimentId(experiment_id)))
    return unchanged(request, etag) or written(read_document(db, ExperimentId(experiment_id), etag), etag)
