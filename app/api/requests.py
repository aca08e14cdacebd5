"""Request records and engine state of measured trials."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api import selection as selection_rows
from app.api.experiments import Id
from app.api.selection import Download, Selection
from app.errors import InvalidInput, NotFound, UnreadableSpec
from app.http.basics import Db, Page, answer, etag_of, unchanged
from app.http.problems import responses
from app.report.perfetto import process_name, trial_events
from app.store import experiments, trials
from app.store.database import Database
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


class RecordFormat(StrEnum):
    """How request records come."""

    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


class TimelineFormat(StrEnum):
    """How the engines' state comes."""

    JSON = "json"
    PERFETTO = "perfetto"


class _Row(BaseModel):
    attempt: int = Field(description="The attempt.", examples=[1])
    trial: int = Field(description="Slot of the trial, from 0.", examples=[3])
    block: int = Field(description="Its block, from 0.", examples=[1])
    arm: str = Field(description="Its arm.", examples=["async"])


class RecordRow(_Row):
    """One generated sample. Times are seconds since the trial began; null is unknown."""

    request_id: str = Field(description="Its name.", examples=["0-3-1"])
    prompt_index: int = Field(description="The prompt, from 0.", examples=[3])
    sample_index: int = Field(description="The sample of that prompt, from 0.", examples=[1])
    replica: int = Field(description="The engine that served it.", examples=[0])
    turn: int = Field(description="The turn, from 0.", examples=[0])
    prompt_tokens: int = Field(description="Tokens of the prompt.", examples=[128])
    output_tokens: int = Field(description="Tokens generated.", examples=[128])
    cached_tokens: int | None = Field(description="Tokens of the prompt that were cached.", examples=[0])
    finish_reason: str | None = Field(description="Why it ended.", examples=["length"])
    output_sha256: str = Field(description="Hash of the generated token ids.", examples=["9f86d081884c7d65…"])
    arrived_s: float = Field(description="When the request should start; latencies count from here.", examples=[0.0])
    sent_s: float = Field(description="When it was handed to the engine.", examples=[0.001])
    queued_s: float | None = Field(description="When the engine core queued it.", examples=[0.002])
    scheduled_s: float | None = Field(description="When it was first scheduled.", examples=[0.004])
    first_token_s: float | None = Field(description="When the engine had the first token.", examples=[0.031])
    last_token_s: float | None = Field(description="When the engine had the last token.", examples=[0.702])
    delivered_s: float = Field(description="When the caller had the complete sample.", examples=[0.709])
    preemptions: int | None = Field(description="How often it was preempted.", examples=[0])
    itl_ms: list[float] | None = Field(
        description="Gap before every token but the first, where the driver streams.", examples=[[5.2, 5.3]]
    )


class SampleRow(_Row):
    """The engine's state after one of its steps."""

    at_s: float = Field(description="Seconds since the trial began.", examples=[0.31])
    running: int = Field(description="Requests that run.", examples=[32])
    waiting: int = Field(description="Requests that wait.", examples=[0])
    kv_cache_usage_pct: float = Field(description="Use of the KV cache, percent.", examples=[12.5])
    prompt_tokens: int = Field(description="Prompt tokens of the step.", examples=[0])
    output_tokens: int = Field(description="Tokens generated in the step.", examples=[32])
    preemptions: int = Field(description="Requests preempted in the step.", examples=[0])


class RecordPage(Page):
    """Request records, in the order of the trials."""

    items: tuple[RecordRow, ...] = Field(description="The records of this page.")


class SamplePage(Page):
    """Engine state, in the order of the trials."""

    items: tuple[SampleRow, ...] = Field(description="The samples of this page.")


class _RowParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    arm: str | None = Field(None, max_length=300, description="Only this arm.", examples=["async"])
    trial: int | None = Field(None, ge=0, description="Only this trial, by its slot.", examples=[3])
    cursor: str | None = Field(None, max_length=300, description="`next_cursor` of the page before (`json` only).")
    limit: int = Field(1000, ge=1, le=10_000, description="Most rows of a page (`json` only).", examples=[1000])


class RecordParameters(_RowParameters):
    """Which request records, and how."""

    format: RecordFormat = Field(
        RecordFormat.JSON, description="`json` comes in pages, the others whole.", examples=["csv"]
    )


class TimelineParameters(_RowParameters):
    """Which engine state, and how."""

    format: TimelineFormat = Field(
        TimelineFormat.JSON,
        description="`json` comes in pages; `perfetto` whole, with the requests, as ui.perfetto.dev opens it.",
        examples=["perfetto"],
    )


@router.get(
    "/{experiment_id}/requests",
    summary="Request records",
    response_model=RecordPage,
    responses={
        200: {
            "description": "The records.",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **responses(NotFound, UnreadableSpec, InvalidInput),
    },
)
def get_requests(
    request: Request, db: Db, experiment_id: Id, parameters: Annotated[RecordParameters, Query()]
) -> Response:
    """One row per generated sample of the current attempt's measured trials."""
    selection, etag = _selection(db, experiment_id, parameters)
    if (same := unchanged(request, etag)) is not None:
        return same
    if parameters.format is RecordFormat.JSON:
        found, after = selection_rows.page(db, selection, trials.records_of, parameters.cursor, parameters.limit)
        return answer(request, {"items": found, "next_cursor": after}, etag)
    response = selection_rows.download(db, selection, Download(parameters.format))
    response.headers["ETag"] = etag
    return response


@router.get(
    "/{experiment_id}/timeline",
    summary="Engine state over time",
    response_model=SamplePage,
    responses=responses(NotFound, UnreadableSpec, InvalidInput),
)
def get_timeline(
    request: Request, db: Db, experiment_id: Id, parameters: Annotated[TimelineParameters, Query()]
) -> Response:
    """What every engine ran, step by step, in the current attempt's measured trials."""
    selection, etag = _selection(db, experiment_id, parameters)
    if (same := unchanged(request, etag)) is not None:
        return same
    if parameters.format is TimelineFormat.JSON:
        found, after = selection_rows.page(db, selection, trials.timeline_of, parameters.cursor, parameters.limit)
        return answer(request, {"items": found, "next_cursor": after}, etag)
    name = f'attachment; filename="{experiment_id}-trace.json"'
    return StreamingResponse(
        _trace(db, selection), media_type="application/json", headers={"ETag": etag, "Content-Disposition": name}
    )


def _selection(db: Database, experiment_id: str, parameters: _RowParameters) -> tuple[Selection, str]:
    row = experiments.get(db, ExperimentId(experiment_id))
    etag = etag_of(type(parameters).__name__, experiment_id, row.etag, parameters.model_dump_json())
    return Selection(row, parameters.arm, parameters.trial), etag


def _trace(db: Database, selection: Selection) -> Iterator[str]:
    """The trace's JSON, a trial at a time."""
    yield '{"displayTimeUnit":"ms","traceEvents":['
    separator = ""
    for events in _trace_events(db, selection):
        yield separator + ",".join(json.dumps(event, separators=(",", ":")) for event in events)
        separator = ","
    yield "]}"


def _trace_events(db: Database, selection: Selection) -> Iterator[list[dict[str, Any]]]:
    from app.store.parquet import records_of_table, samples_of_table

    numbers = {arm.name: number for number, arm in enumerate(selection.experiment.spec.arms, start=1)}
    yield [process_name(number, arm) for arm, number in numbers.items()]
    chosen = selection.trials(db)
    began_s = min((trial.started_at for trial in chosen), default=0.0)
    for trial in chosen:
        slot = trial.planned.slot
        samples = [s for _, table in selection.tables(db, trials.timeline_of, slot) for s in samples_of_table(table)]
        requests = [r for _, table in selection.tables(db, trials.records_of, slot) for r in records_of_table(table)]
        yield list(trial_events(numbers[trial.planned.arm], trial, began_s, samples, requests))
