"""The answer."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.experiments import Id
from app.errors import NotFound, UnreadableSpec
from app.http.basics import Db, answer_bytes, answer_unchanged, make_etag
from app.http.problems import list_responses
from app.judge.results import Results
from app.service.results import read_document
from app.store import trials
from app.store.ids import ExperimentId
from app.version import VERSION

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


@router.get(
    "/{experiment_id}/results",
    summary="Results",
    response_model=Results,
    responses=list_responses(NotFound, UnreadableSpec),
)
def get_results(request: Request, db: Db, experiment_id: Id) -> Response:
    """The summary, arms, trials, comparisons, parity, fairness and environment: partial while the experiment runs."""
    etag = make_etag("results", VERSION, experiment_id, trials.read_extent(db, ExperimentId(experiment_id)))
    return answer_unchanged(request, etag) or answer_bytes(read_document(db, ExperimentId(experiment_id), etag), etag)
