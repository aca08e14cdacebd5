"""Experiments: submit, list, look at, cancel."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.api.estimate import Cost, advice, cost_of
from app.api.http import Db, Page, answer, etag_of, link
from app.api.problems import UnsupportedMediaType, responses
from app.errors import (
    FieldError,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
)
from app.experiment.document import load_json, load_yaml
from app.experiment.lifecycle import Failure, Progress, Status
from app.experiment.parsing import parse_experiment
from app.experiment.plan import TrialPlan, plan_trials
from app.experiment.resolution import ResolvedExperiment, resolve
from app.experiment.spec import Experiment
from app.store import experiments, queue
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])

_JSON_TYPES = frozenset({"application/json"})
_YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_ID = "An experiment's id."
Id = Annotated[str, Path(description=_ID, examples=["0f8e5c1d2b3a4956"])]


class _View(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class ExperimentSummary(_View):
    """An experiment as lists show it."""

    id: str = Field(description=_ID, examples=["0f8e5c1d2b3a4956"])
    name: str = Field(description="For people.", examples=["sync against async"])
    labels: dict[str, str] = Field(description="For filters.", examples=[{"suite": "nightly"}])
    model: str = Field(description="The model every arm runs.", examples=["tiny-qwen2"])
    simulated: bool = Field(description="Whether any arm has no engine.", examples=[False])
    status: Status = Field(description="Where it is.", examples=["running"])
    priority: int = Field(description="Higher runs first.", examples=[0])
    created_at: datetime = Field(description="When it was submitted.", examples=["2026-01-31T12:00:00Z"])
    started_at: datetime | None = Field(description="When its last attempt began.", examples=["2026-01-31T12:00:03Z"])
    finished_at: datetime | None = Field(description="When it ended.", examples=[None])
    attempt: int = Field(description="How many times a worker has taken it.", examples=[1])
    cancel_requested: bool = Field(description="Whether somebody asked to cancel it.", examples=[False])
    progress: Progress | None = Field(
        description="How far a running experiment has come.",
        examples=[
            {
                "step": "measuring",
                "trials_done": 5,
                "trials_total": 12,
                "current": {"arm": "async", "block": 2},
                "eta_s": 31.5,
            }
        ],
    )
    verdict: str | None = Field(description="Verdict of the primary comparison, once there is one.", examples=["same"])
    failure: Failure | None = Field(description="Why it failed.", examples=[None])
    retry_of: str | None = Field(description="The experiment this one retries.", examples=[None])


class AttemptView(_View):
    """One time a worker took the experiment."""

    attempt: int = Field(description="Its number, from 1.", examples=[1])
    owner: str = Field(description="The worker.", examples=["gpu-7-4211"])
    started_at: datetime = Field(description="When it began.", examples=["2026-01-31T12:00:03Z"])
    ended_at: datetime | None = Field(description="When it ended.", examples=[None])
    outcome: Status | None = Field(description="The experiment's status after it.", examples=[None])
    failure: Failure | None = Field(description="Why it failed.", examples=[None])


class Links(BaseModel):
    """Where to go from here."""

    self: str = Field(description="The experiment.", examples=["/v1/experiments/0f8e5c1d2b3a4956"])
    events: str = Field(description="Its history, or a live stream.")
    results: str = Field(description="Its results, partial while it runs.")
    requests: str = Field(description="Its request records.")
    timeline: str = Field(description="Its engines' sampled state.")
    cancel: str = Field(description="POST here to cancel it.")
    page: str = Field(description="The page for people.", examples=["/experiments/0f8e5c1d2b3a4956"])


class PlanView(BaseModel):
    """What will run."""

    order: str = Field(description="The measured trials, one letter per arm.", examples=["ABBAABBAABBA"])
    trials: int = Field(description="Measured trials.", examples=[12])
    details: TrialPlan = Field(description="Every trial, in order, and the engines they share.")


class ExperimentView(ExperimentSummary):
    """All there is to know about an experiment, save its results."""

    queue_position: int | None = Field(description="Place in the queue, from 1; null once it runs.", examples=[None])
    owner: str | None = Field(description="The worker that runs it.", examples=["gpu-7-4211"])
    heartbeat_at: datetime | None = Field(
        description="When that worker was last heard of.", examples=["2026-01-31T12:01:00Z"]
    )
    attempts: tuple[AttemptView, ...] = Field(description="Every time a worker took it.")
    retries: tuple[str, ...] = Field(description="Experiments that retry this one.", examples=[[]])
    spec: dict[str, JsonValue] = Field(
        description="The spec as it was submitted.",
        examples=[{"model": {"preset": "tiny-qwen2"}, "arms": [{"name": "sync", "profile": "vllm-sync"}]}],
    )
    resolved: ResolvedExperiment | None = Field(
        description="Every arm with every default filled in; null where this version cannot tell."
    )
    plan: PlanView | None = Field(description="What runs, in order; null where this version cannot tell.")
    links: Links = Field(description="Where to go from here.")


class ExperimentPage(Page):
    """Experiments, newest first."""

    items: tuple[ExperimentSummary, ...] = Field(description="The experiments of this page.")


class DryRun(BaseModel):
    """What would happen."""

    resolved: ResolvedExperiment = Field(description="Every arm with every default filled in.")
    plan: PlanView = Field(description="What would run, in order.")
    cost: Cost = Field(description="What it would take.")
    warnings: list[str] = Field(
        description="What it will not be able to say, and what it leaves to chance.",
        examples=[["percentiles without a value: p99 needs 662 values, got 32 (per trial)"]],
    )


# --- submitting ----------------------------------------------------------------------------------------------------


async def _submitted(request: Request) -> Experiment:
    """The body as an experiment."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _JSON_TYPES | _YAML_TYPES:
        # A web page elsewhere can make a browser send other types without asking; and curl -d garbles YAML.
        raise UnsupportedMediaType(
            f"the Content-Type is {media_type or 'missing'}; a spec is application/json or application/yaml: with curl, "
            "--json @spec.json, or --data-binary @spec.yaml --header 'Content-Type: application/yaml'"
        )
    body = await request.body()
    return await run_in_threadpool(_parsed, body, media_type in _YAML_TYPES)


def _parsed(body: bytes, is_yaml: bool) -> Experiment:
    return parse_experiment(load_yaml(body).value if is_yaml else load_json(body))


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
        **responses(InvalidInput, IdempotencyMismatch, PayloadTooLarge, UnsupportedMediaType),
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
    spec: Annotated[Experiment, Depends(_submitted)],
    dry_run: Annotated[bool, Query(description="Only say what would happen; queue nothing.", examples=[False])] = False,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            description="Any text of your choice: sent again with the same spec it queues nothing new.",
            examples=["nightly-2026-01-31"],
        ),
    ] = None,
) -> Response:
    """Queue an experiment, or with `dry_run` only show what it would do and cost."""
    if dry_run:
        return answer(request, _rehearse(db, spec))
    queued = queue.enqueue(db, spec, idempotency_key=idempotency_key)
    view = _view(request, experiments.get(db, queued.experiment_id))
    return Response(
        view.model_dump_json(),
        status_code=201 if queued.created else 200,
        media_type="application/json",
        headers={"Location": view.links.self},
    )


def _rehearse(db: Db, spec: Experiment) -> DryRun:
    resolved = resolve(spec)
    plan = plan_trials(spec, resolved)
    return DryRun(
        resolved=resolved,
        plan=_plan_view(plan),
        cost=cost_of(db, spec, resolved, plan),
        warnings=advice(spec, resolved, plan),
    )


# --- looking -------------------------------------------------------------------------------------------------------


class ListParameters(BaseModel):
    """Which experiments a list holds."""

    model_config = ConfigDict(extra="forbid")

    status: list[Status] = Field([], description="Only these; may be repeated.", examples=[["queued", "running"]])
    label: list[str] = Field(
        [], description="`key:value`; may be repeated, all must match.", examples=[["suite:nightly"]]
    )
    name: str | None = Field(None, description="Part of the name, in any case.", examples=["async"])
    model: str | None = Field(None, description="The model.", examples=["tiny-qwen2"])
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    limit: int = Field(50, ge=1, le=200, description="Most items of a page.", examples=[50])


@router.get("", summary="List experiments", response_model=ExperimentPage, responses=responses(InvalidInput))
def list_experiments(request: Request, db: Db, parameters: Annotated[ListParameters, Query()]) -> Response:
    """Experiments, newest first."""
    page = experiments.page(
        db,
        status=parameters.status,
        labels=_labels(parameters.label),
        name=parameters.name,
        model=parameters.model,
        cursor=parameters.cursor,
        limit=parameters.limit,
    )
    items = tuple(ExperimentSummary.model_validate(item) for item in page.items)
    return answer(request, ExperimentPage(items=items, next_cursor=page.next_cursor))


def _labels(given: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label in given:
        key, colon, value = label.partition(":")
        if not colon:
            raise InvalidInput.of((FieldError("/label", f"{label!r} is not key:value"),))
        if labels.setdefault(key, value) != value:
            raise InvalidInput.of((FieldError("/label", f"{key!r} cannot have two values"),))
    return labels


@router.get(
    "/{experiment_id}", summary="Get an experiment", response_model=ExperimentView, responses=responses(NotFound)
)
def get_experiment(request: Request, db: Db, experiment_id: Id) -> Response:
    """The experiment as submitted and as resolved, where it is, and how far it has come."""
    row = experiments.get(db, ExperimentId(experiment_id))
    return answer(request, _view(request, row), etag_of("experiment", experiment_id, row.etag))


@router.post(
    "/{experiment_id}/cancel",
    status_code=202,
    summary="Cancel an experiment",
    response_model=ExperimentView,
    response_description="Running: its worker was asked to stop and keeps the finished trials.",
    responses={
        200: {"description": "Cancelled, or at its end before.", "model": ExperimentView},
        **responses(NotFound),
    },
)
def cancel(request: Request, db: Db, experiment_id: Id) -> Response:
    """Cancel what waits at once; ask what runs to stop. An experiment at its end stays as it is."""
    status = queue.request_cancel(db, ExperimentId(experiment_id))
    view = _view(request, experiments.get(db, ExperimentId(experiment_id)))
    return Response(view.model_dump_json(), status_code=200 if status.terminal else 202, media_type="application/json")


# --- views ---------------------------------------------------------------------------------------------------------


def _view(request: Request, row: ExperimentRow) -> ExperimentView:
    resolved, plan = _resolved(row.spec)
    return ExperimentView(
        **ExperimentSummary.model_validate(row.item).model_dump(),
        queue_position=row.queue_position,
        owner=row.owner,
        heartbeat_at=row.heartbeat_at,
        attempts=tuple(AttemptView.model_validate(attempt) for attempt in row.attempts),
        retries=row.retries,
        spec=row.submitted,
        resolved=resolved,
        plan=None if plan is None else _plan_view(plan),
        links=_links(request, row.item.id),
    )


def _resolved(spec: Experiment) -> tuple[ResolvedExperiment, TrialPlan] | tuple[None, None]:
    """What a stored spec means to this version: it may name what a later or earlier one has."""
    try:
        resolved = resolve(spec)
    except InvalidInput:
        return None, None
    return resolved, plan_trials(spec, resolved)


def _plan_view(plan: TrialPlan) -> PlanView:
    return PlanView(order=plan.order, trials=len(plan.measured), details=plan)


def _links(request: Request, experiment_id: str) -> Links:
    here = link(request, f"/v1/experiments/{experiment_id}")
    below: dict[str, Any] = {name: f"{here}/{name}" for name in ("events", "results", "requests", "timeline", "cancel")}
    return Links(self=here, page=link(request, f"/experiments/{experiment_id}"), **below)
