"""Experiments on the wire."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.requests import Request

from app.errors import InvalidInput
from app.http.basics import Page, make_link
from app.judge.continuation import Continuation
from app.service.cost import Cost
from app.spec.experiment import Experiment
from app.spec.lifecycle import Failure, Progress, Status
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from app.store.experiments import ExperimentRow

ID = "An experiment's id."


class _View(BaseModel):
    model_config = ConfigDict(from_attributes=True, validate_by_name=True, validate_by_alias=True)


class ExperimentSummary(_View):
    """An experiment as lists show it."""

    id: str = Field(description=ID, examples=["0f8e5c1d2b3a4956"])
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
    verdict: str | None = Field(
        description="The worst verdict of the primary comparisons of all candidates, once there is one; from worst to "
        "best: `slower`, `confounded`, `inconclusive`, `faster`, `same`. Lists filter by, and `--fail-on` "
        "fails on, the verdict of any of them.",
        examples=["same"],
    )
    error: Failure | None = Field(validation_alias="failure", description="Why it failed.", examples=[None])
    retry_of: str | None = Field(description="The experiment this one retries.", examples=[None])
    submitted_by: str = Field(
        description="Whose it is: the name of the token it was submitted with, or `anonymous`.", examples=["anna"]
    )


class AttemptView(_View):
    """One time a worker took the experiment."""

    attempt: int = Field(description="Its number, from 1.", examples=[1])
    owner: str = Field(description="The worker.", examples=["gpu-7-4211"])
    started_at: datetime = Field(description="When it began.", examples=["2026-01-31T12:00:03Z"])
    ended_at: datetime | None = Field(description="When it ended.", examples=[None])
    outcome: Status | None = Field(description="The experiment's status after it.", examples=[None])
    error: Failure | None = Field(validation_alias="failure", description="Why it failed.", examples=[None])
    continuation: Continuation | None = Field(
        description="What became of blocks that earlier attempts had finished; null if there were none."
    )


class Links(BaseModel):
    """Where to go from here."""

    self: str = Field(description="The experiment.", examples=["/v1/experiments/0f8e5c1d2b3a4956"])
    events: str = Field(
        description="Its history, or a live stream.", examples=["/v1/experiments/0f8e5c1d2b3a4956/events"]
    )
    results: str = Field(
        description="Its results, partial while it runs.", examples=["/v1/experiments/0f8e5c1d2b3a4956/results"]
    )
    requests: str = Field(description="Its request records.", examples=["/v1/experiments/0f8e5c1d2b3a4956/requests"])
    timeline: str = Field(
        description="Its engines' sampled state.", examples=["/v1/experiments/0f8e5c1d2b3a4956/timeline"]
    )
    cancel: str = Field(description="POST here to cancel it.", examples=["/v1/experiments/0f8e5c1d2b3a4956/cancel"])
    retry: str = Field(
        description="POST here to run it again once it has failed or was cancelled.",
        examples=["/v1/experiments/0f8e5c1d2b3a4956/retry"],
    )
    page: str = Field(description="The page for people.", examples=["/experiments/0f8e5c1d2b3a4956"])


class PlanView(BaseModel):
    """What will run."""

    order: str = Field(description="The measured trials, one letter per arm.", examples=["ABBAABBAABBA"])
    trials: int = Field(description="Measured trials.", examples=[12])
    details: TrialPlan = Field(description="Every trial, in order, and the engines they share.")


class ExperimentView(ExperimentSummary):
    """All there is to know about an experiment, save its results."""

    queue_position: int | None = Field(
        description="Place in the queue, from 1; 1001 is any place behind 1000 others; null once it runs.",
        examples=[None],
    )
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


def build_view(request: Request, row: ExperimentRow) -> ExperimentView:
    """All there is to know about an experiment, save its results."""
    resolved, plan = _try_to_resolve(row.spec)
    return ExperimentView(
        **ExperimentSummary.model_validate(row.item).model_dump(),
        queue_position=row.queue_position,
        owner=row.owner,
        heartbeat_at=row.heartbeat_at,
        attempts=tuple(AttemptView.model_validate(attempt) for attempt in row.attempts),
        retries=row.retries,
        spec=row.submitted,
        resolved=resolved,
        plan=None if plan is None else build_plan_view(plan),
        links=_build_links(request, row.item.id),
    )


def _try_to_resolve(spec: Experiment) -> tuple[ResolvedExperiment, TrialPlan] | tuple[None, None]:
    """What a stored spec means to this version: it may name what a later or earlier one has."""
    try:
        resolved = resolve(spec)
    except InvalidInput:
        return None, None
    return resolved, plan_trials(spec, resolved)


def build_plan_view(plan: TrialPlan) -> PlanView:
    """What will run."""
    return PlanView(order=plan.order, trials=len(plan.measured), details=plan)


def _build_links(request: Request, experiment_id: str) -> Links:
    here = make_link(request, f"/v1/experiments/{experiment_id}")
    names = ("events", "results", "requests", "timeline", "cancel", "retry")
    below: dict[str, Any] = {name: f"{here}/{name}" for name in names}
    return Links(self=here, page=make_link(request, f"/experiments/{experiment_id}"), **below)
