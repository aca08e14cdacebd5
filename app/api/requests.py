"""Request records of measured trials: a page, a stream or a file at a time."""

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api.experiments import Id
from app.api.selection import (
    Row,
    RowParameters,
    Selection,
    Tables,
    Write,
    answer_rows,
    list_rows,
    name_file,
    name_trial,
)
from app.errors import InvalidInput, NotFound, UnreadableSpec
from app.format import spreadsheet_cell
from app.http.basics import Db, Page
from app.http.problems import list_responses
from app.store import trials
from app.store.database import Database
from app.store.trials import StoredTrial

if TYPE_CHECKING:
    import pyarrow as pa

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])

_CHUNK = 1 << 16


class RecordFormat(StrEnum):
    """How request records come."""

    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


class RecordRow(Row):
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
    sent_s: float = Field(description="When its caller sent it.", examples=[0.001])
    received_s: float | None = Field(
        description="When a server had it; null where the caller talks to the engine itself.", examples=[0.002]
    )
    prepared_s: float | None = Field(description="When the server had its token ids.", examples=[0.002])
    queued_s: float | None = Field(description="When the engine core queued it.", examples=[0.002])
    scheduled_s: float | None = Field(description="When it was first scheduled.", examples=[0.004])
    first_token_s: float | None = Field(description="When the engine had the first token.", examples=[0.031])
    last_token_s: float | None = Field(description="When the engine had the last token.", examples=[0.702])
    left_s: float | None = Field(description="When the server gave the complete sample up.", examples=[0.706])
    delivered_s: float = Field(description="When the caller had the complete sample.", examples=[0.709])
    agent_worker: int | None = Field(
        description="The process that called, from 0; null where only one calls.", examples=[3]
    )
    preemptions: int | None = Field(description="How often it was preempted.", examples=[0])
    itl_ms: list[float] | None = Field(
        description="Gap before every token but the first, where the driver streams.", examples=[[5.2, 5.3]]
    )


class RecordPage(Page):
    """Request records, in the order of the trials."""

    items: tuple[RecordRow, ...] = Field(description="The records of this page.")


class RecordParameters(RowParameters):
    """Which request records, and how."""

    format: RecordFormat = Field(
        RecordFormat.JSON, description="`json` comes in pages, the others whole.", examples=["csv"]
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
        **list_responses(NotFound, UnreadableSpec, InvalidInput),
    },
)
def get_requests(
    request: Request, db: Db, experiment_id: Id, parameters: Annotated[RecordParameters, Query()]
) -> Response:
    """One row per generated sample of the current attempt's measured trials."""
    write = _WRITERS.get(parameters.format)
    return answer_rows(request, db, experiment_id, parameters, read=trials.read_records, write=write)


def _answer_ndjson(db: Database, selection: Selection) -> Response:
    lines = _write_ndjson(selection.tables(db, trials.read_records))
    return StreamingResponse(
        lines, media_type="application/x-ndjson", headers=_name_file(selection, RecordFormat.NDJSON)
    )


def _answer_csv(db: Database, selection: Selection) -> Response:
    lines = _write_csv(selection.tables(db, trials.read_records))
    return StreamingResponse(
        lines, media_type="text/csv; charset=utf-8", headers=_name_file(selection, RecordFormat.CSV)
    )


def _answer_parquet(db: Database, selection: Selection) -> Response:
    import pyarrow.parquet as pq

    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the response has been sent
    try:
        with pq.ParquetWriter(file, _make_schema(), compression="zstd") as writer:
            for trial, table in selection.tables(db, trials.read_records):
                writer.write_table(_add_trial(trial, table))
    except BaseException:
        file.close()
        raise
    headers = _name_file(selection, RecordFormat.PARQUET) | {"Content-Length": str(file.tell())}
    file.seek(0)
    return StreamingResponse(_read_chunks(file), media_type="application/vnd.apache.parquet", headers=headers)


# Whole, where JSON comes in pages.
_WRITERS: dict[RecordFormat, Write] = {
    RecordFormat.NDJSON: _answer_ndjson,
    RecordFormat.CSV: _answer_csv,
    RecordFormat.PARQUET: _answer_parquet,
}


def _name_file(selection: Selection, kind: RecordFormat) -> dict[str, str]:
    return name_file(f"{selection.experiment.item.id}-requests.{kind}")


def _write_ndjson(tables: Tables) -> Iterator[str]:
    for trial, table in tables:
        for rows in _read_batches(trial, table):
            yield "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def _write_csv(tables: Tables) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, _make_schema().names, lineterminator="\n")
    writer.writeheader()
    yield text.getvalue()
    for trial, table in tables:
        for rows in _read_batches(trial, table):
            text.seek(0)
            text.truncate()
            writer.writerows({key: _write_cell(value) for key, value in row.items()} for row in rows)
            yield text.getvalue()


def _write_cell(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else spreadsheet_cell(value)


def _read_chunks(file: Any) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _read_batches(trial: StoredTrial, table: "pa.Table") -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(table), 1000):
        yield list_rows(trial, table.slice(start, 1000))


def _make_schema() -> "pa.Schema":
    import pyarrow as pa

    from app.store.parquet import RECORD_SCHEMA

    kinds = {"attempt": pa.int32(), "trial": pa.int32(), "block": pa.int32(), "arm": pa.string()}
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in kinds.items()), *RECORD_SCHEMA])


def _add_trial(trial: StoredTrial, table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    columns = {name: [value] * len(table) for name, value in name_trial(trial).items()}
    return pa.table(columns | {name: table[name] for name in table.column_names}, schema=_make_schema())
