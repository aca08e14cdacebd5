"""Engine state over the time of measured trials."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api.experiments import Id
from app.api.selection import Row, RowParameters, Selection, answer_rows, name_file
from app.errors import InvalidInput, NotFound, UnreadableSpec
from app.http.basics import Db, Page
from app.http.problems import list_responses
from app.report.perfetto import build_trial_events, name_process
from app.store import trials
from app.store.database import Database

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


class TimelineFormat(StrEnum):
    """How the engines' state comes."""

    JSON = "json"
    PERFETTO = "perfetto"


class SampleRow(Row):
    """The engine's state after one of its steps."""

    at_s: float = Field(description="Seconds since the trial began.", examples=[0.31])
    running: int = Field(description="Requests that run.", examples=[32])
    waiting: int = Field(description="Requests that wait.", examples=[0])
    kv_cache_usage_pct: float = Field(description="Use of the KV cache, percent.", examples=[12.5])
    prompt_tokens: int = Field(description="Prompt tokens of the step.", examples=[0])
    output_tokens: int = Field(description="Tokens generated in the step.", examples=[32])
    preemptions: int = Field(description="Requests preempted in the step.", examples=[0])
    drafts: int | None = Field(
        description="Drafts checked in the step, one of a request each; null where decoding is not speculative.",
        examples=[32],
    )
    draft_tokens: int | None = Field(description="Tokens of these drafts.", examples=[96])
    accepted_tokens: int | None = Field(description="How many of them were accepted.", examples=[41])


class SamplePage(Page):
    """Engine state, in the order of the trials."""

    items: tuple[SampleRow, ...] = Field(description="The samples of this page.")


class Trace(BaseModel):
    """Trials, requests and counters in the Trace Event Format (`format=perfetto`)."""

    display_time_unit: str = Field(alias="displayTimeUnit", description="What viewers show times in.", examples=["ms"])
    trace_events: list[dict[str, JsonValue]] = Field(
        alias="traceEvents",
        description="The events.",
        examples=[[{"ph": "C", "name": "requests"}]],
    )


class TimelineParameters(RowParameters):
    """Which engine state, and how."""

    format: TimelineFormat = Field(
        TimelineFormat.JSON,
        description="`json` comes in pages; `perfetto` whole, with the requests, as ui.perfetto.dev opens it.",
        examples=["perfetto"],
    )


@router.get(
    "/{experiment_id}/timeline",
    summary="Engine state over time",
    response_model=SamplePage | Trace,
    responses=list_responses(NotFound, UnreadableSpec, InvalidInput),
)
def get_timeline(
    request: Request, db: Db, experiment_id: Id, parameters: Annotated[TimelineParameters, Query()]
) -> Response:
    """What every engine ran, step by step, in the current attempt's measured trials."""
    write = None if parameters.format is TimelineFormat.JSON else _answer_trace
    return answer_rows(request, db, experiment_id, parameters, read=trials.read_timelines, write=write)


def _answer_trace(db: Database, selection: Selection) -> Response:
    headers = name_file(f"{selection.experiment.item.id}-trace.json")
    return StreamingResponse(_write_trace(db, selection), media_type="application/json", headers=headers)


def _write_trace(db: Database, selection: Selection) -> Iterator[str]:
    """The trace's JSON, a trial at a time."""
    yield '{"displayTimeUnit":"ms","traceEvents":['
    separator = ""
    for events in _read_events(db, selection):
        yield separator + ",".join(json.dumps(event, separators=(",", ":")) for event in events)
        separator = ","
    yield "]}"


def _read_events(db: Database, selection: Selection) -> Iterator[list[dict[str, Any]]]:
    """The arms' names, then a trial's events at a time."""
    from app.store.parquet import list_records, list_samples

    numbers = {arm.name: number for number, arm in enumerate(selection.experiment.spec.arms, start=1)}
    yield [name_process(number, arm) for arm, number in numbers.items()]
    chosen = selection.trials(db)
    began_s = min((trial.started_at for trial in chosen), default=0.0)
    for trial in chosen:
        slot = trial.planned.slot
        samples = [s for _, table in selection.tables(db, trials.read_timelines, slot) for s in list_samples(table)]
        requests = [r for _, table in selection.tables(db, trials.read_records, slot) for r in list_records(table)]
        yield list(build_trial_events(numbers[trial.planned.arm], trial, began_s, samples, requests))
