"""Experiments: submit, list, look at, cancel, retry."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.views import ID, DryRun, ExperimentPage, ExperimentSummary, ExperimentView, build_plan_view, build_view
from app.errors import (
    Conflict,
    FieldError,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    UnreadableSpec,
    UnsupportedMediaType,
)
from app.http.admission import JSON_TYPES, YAML_TYPES, Who, read_media_type, wrong_media_type
from app.http.basics import (
    LONGEST_CURSOR,
    LONGEST_FILTER,
    LONGEST_MOMENT,
    MOST_LABELS,
    Db,
    answer,
    get_settings,
    make_etag,
    read_moment,
)
from app.http.problems import list_responses
from app.service import intake
from app.service.cancellation import cancel as cancel_experiment
from app.settings import Settings
from app.spec.document import load_json, load_yaml
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.store import catalogue, experiments, queue
from app.store.catalogue import Order, Sort
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])

Id = Annotated[str, Path(description=ID, examples=["0f8e5c1d2b3a4956"])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        description="Any text of your choice: sent again with the same request it queues nothing new.",
        examples=["nightly-2026-01-31"],
    ),
]


# --- submitting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Body:
    """A spec that has not been read yet: that is not for the event loop."""

    content: bytes
    is_yaml: bool
    settings: Settings

    def read(self) -> Experiment:
        document = load_yaml(self.content).value if self.is_yaml else load_json(self.content)
        return intake.read_spec(document, self.settings)


async def _take_body(request: Request) -> _Body:
    """The body, if it is of a type that can be a spec."""
    media_type = read_media_type(request)
    if media_type not in JSON_TYPES | YAML_TYPES:  # curl -d garbles YAML
        raise wrong_media_type(media_type)
    return _Body(await request.body(), media_type in YAML_TYPES, get_settings(request))


_SPEC_SCHEMA = {"schema": {"$ref": "#/components/schemas/Experiment"}}
_MINIMAL = {
    "name": "sync against async",
    "model": {"preset": "tiny-qwen2"},
    "arms": [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}],
}
_MINIMAL_YAML = """\
name: sync against async
model: {preset: tiny-qwen2}
arms:
  - {name: sync, profile: vllm-sync}
  - {name: async, profile: vllm-async}
"""


@router.post(
    "",
    status_code=201,
    summary="Submit an experiment",
    response_model=ExperimentView,
    response_description="Queued.",
    responses={
        200: {
            "description": "Queued before under this Idempotency-Key; or what a dry run found.",
            "model": ExperimentView | DryRun,
        },
        **list_responses(InvalidInput, IdempotencyMismatch, PayloadTooLarge, UnsupportedMediaType),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The spec.",
            "content": {
                "application/json": _SPEC_SCHEMA | {"example": _MINIMAL},
                "application/yaml": _SPEC_SCHEMA | {"example": _MINIMAL_YAML},
            },
        }
    },
)
def submit(
    request: Request,
    db: Db,
    caller: Who,
    *,
    body: Annotated[_Body, Depends(_take_body)],
    dry_run: Annotated[bool, Query(description="Only say what would happen; queue nothing.", examples=[False])] = False,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Queue an experiment, or with `dry_run` only show what it would do and cost."""
    spec = body.read()
    if dry_run:
        found = intake.preview(db, spec)
        return answer(
            request,
            DryRun(
                resolved=found.resolved, plan=build_plan_view(found.plan), cost=found.cost, warnings=list(found.advice)
            ),
        )
    return _answer_queued(request, db, intake.submit(db, spec, get_settings(request), caller, idempotency_key))


def _answer_queued(request: Request, db: Db, queued: queue.Enqueued) -> Response:
    request.state.experiment_id = queued.experiment_id
    view = build_view(request, queued.row or experiments.get(db, queued.experiment_id))
    return Response(
        view.model_dump_json(),
        status_code=201 if queued.created else 200,
        media_type="application/json",
        headers={"Location": view.links.self},
    )


# --- looking -------------------------------------------------------------------------------------------------------


class ListParameters(BaseModel):
    """Which experiments a list holds."""

    model_config = ConfigDict(extra="forbid")

    status: list[Status] = Field(
        [], max_length=16, description="Only these; may be repeated.", examples=[["queued", "running"]]
    )
    label: list[Annotated[str, Field(max_length=LONGEST_FILTER)]] = Field(
        [], max_length=MOST_LABELS, description="`key:value`; may be repeated, all must match.", examples=[["suite:x"]]
    )
    name: str | None = Field(
        None, max_length=LONGEST_FILTER, description="Part of the name, in any case.", examples=["async"]
    )
    model: str | None = Field(None, max_length=1024, description="The model.", examples=["tiny-qwen2"])
    created_after: str = Field(
        "",
        max_length=LONGEST_MOMENT,
        description="Submitted then or later: an RFC 3339 time, or a date for its beginning in UTC.",
        examples=["2026-01-01"],
    )
    created_before: str = Field(
        "",
        max_length=LONGEST_MOMENT,
        description="Submitted before then: an RFC 3339 time, or a date for its beginning in UTC.",
        examples=["2026-02-01T12:00:00Z"],
    )
    sort: Sort = Field(
        Sort.CREATED_AT,
        description="What the list is sorted by; by `finished_at` it holds only what has finished.",
        examples=["finished_at"],
    )
    order: Order | None = Field(None, description="Default: newest first, by name from A to Z.", examples=["desc"])
    cursor: str | None = Field(
        None,
        max_length=LONGEST_CURSOR,
        description="`next_cursor` of the page before, under the same `sort` and `order`.",
    )
    limit: int = Field(50, ge=1, le=200, description="Most items of a page.", examples=[50])


@router.get("", summary="List experiments", response_model=ExperimentPage, responses=list_responses(InvalidInput))
def list_experiments(request: Request, db: Db, parameters: Annotated[ListParameters, Query()]) -> Response:
    """Experiments, newest first unless sorted otherwise."""
    page = catalogue.page(
        db,
        status=parameters.status,
        labels=_parse_labels(parameters.label),
        name=parameters.name,
        model=parameters.model,
        created_after=read_moment(parameters.created_after, "created_after"),
        created_before=read_moment(parameters.created_before, "created_before"),
        sort=parameters.sort,
        order=parameters.order,
        cursor=parameters.cursor,
        limit=parameters.limit,
    )
    items = tuple(ExperimentSummary.model_validate(item) for item in page.items)
    return answer(request, ExperimentPage(items=items, next_cursor=page.next_cursor))


def _parse_labels(given: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label in given:
        key, colon, value = label.partition(":")
        if not colon:
            raise InvalidInput.of((FieldError("/label", f"{label!r} is not key:value"),))
        if labels.setdefault(key, value) != value:
            raise InvalidInput.of((FieldError("/label", f"{key!r} cannot have two values"),))
    return labels


@router.get(
    "/{experiment_id}",
    summary="Get an experiment",
    response_model=ExperimentView,
    responses=list_responses(NotFound, UnreadableSpec),
)
def get_experiment(request: Request, db: Db, experiment_id: Id) -> Response:
    """The experiment as submitted and as resolved, where it is, and how far it has come."""
    row = experiments.get(db, ExperimentId(experiment_id))
    return answer(request, build_view(request, row), make_etag("experiment", experiment_id, row.etag))


@router.post(
    "/{experiment_id}/cancel",
    status_code=202,
    summary="Cancel an experiment",
    response_model=ExperimentView,
    response_description="Running: its worker was asked to stop and keeps the finished trials.",
    responses={
        200: {"description": "Cancelled, or at its end before.", "model": ExperimentView},
        **list_responses(NotFound, UnreadableSpec, UnsupportedMediaType),
    },
)
def cancel(request: Request, db: Db, caller: Who, experiment_id: Id) -> Response:
    """Cancel what waits at once; ask what runs to stop. An experiment at its end stays as it is.

    One that another token has submitted takes the scope `admin`.
    """
    experiments.get(db, ExperimentId(experiment_id))  # what another version wrote is refused before it is cancelled
    status = cancel_experiment(db, ExperimentId(experiment_id), caller)
    view = build_view(request, experiments.get(db, ExperimentId(experiment_id)))
    return Response(view.model_dump_json(), status_code=200 if status.terminal else 202, media_type="application/json")


@router.post(
    "/{experiment_id}/retry",
    status_code=201,
    summary="Retry an experiment",
    response_model=ExperimentView,
    response_description="Queued as an experiment of its own, which names the one it retries.",
    responses={
        200: {"description": "Queued before under this Idempotency-Key.", "model": ExperimentView},
        **list_responses(NotFound, Conflict, UnreadableSpec, InvalidInput, IdempotencyMismatch, UnsupportedMediaType),
    },
)
def retry(request: Request, db: Db, caller: Who, experiment_id: Id, idempotency_key: IdempotencyKey = None) -> Response:
    """Queue what failed or was cancelled once more, with the same spec.

    Blocks that it had finished are not run again if the engines' fingerprint is still the same; `continuation` in the
    results says which, or why not.
    """
    queued = intake.retry(db, ExperimentId(experiment_id), get_settings(request), caller, idempotency_key)
    return _answer_queued(request, db, queued)
