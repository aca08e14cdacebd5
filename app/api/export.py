"""Results for other tools."""

from enum import StrEnum
from typing import Annotated, Any, assert_never

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.experiments import Id
from app.errors import InvalidInput, NotFound, UnreadableSpec
from app.http.basics import Db, answer_unchanged, make_etag
from app.http.problems import list_responses
from app.service.results import make_results
from app.spec.resolution import resolve
from app.store import experiments, trials
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])


class ExportFormat(StrEnum):
    """Which tool it is for."""

    VLLM_BENCH = "vllm-bench"
    PYTORCH_BENCHMARK = "pytorch-benchmark"
    JUNIT = "junit"
    MARKDOWN = "markdown"


@router.get(
    "/{experiment_id}/export",
    summary="Results for other tools",
    response_model=None,
    responses={
        200: {
            "description": "The results so far.",
            "content": {
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                "application/xml": {"schema": {"type": "string"}},
                "text/markdown": {"schema": {"type": "string"}},
            },
        },
        **list_responses(NotFound, UnreadableSpec, InvalidInput),
    },
)
def export(
    request: Request,
    db: Db,
    experiment_id: Id,
    format_: Annotated[
        ExportFormat,
        Query(
            alias="format",
            description="`vllm-bench`: one object per measured trial, with the keys of `vllm bench serve`; "
            "`pytorch-benchmark`: records for the PyTorch benchmark database; `junit`: `slower` and `confounded` "
            "fail, `inconclusive` is skipped; `markdown`: for a comment.",
            examples=["junit"],
        ),
    ],
) -> Response:
    """What the experiment found, as other tools read it."""
    row = experiments.get(db, ExperimentId(experiment_id))
    etag = make_etag("export", experiment_id, row.etag, format_)
    response = answer_unchanged(request, etag) or _export_as(db, row, format_)
    response.headers["ETag"] = etag
    return response


def _export_as(db: Db, row: ExperimentRow, kind: ExportFormat) -> Response:
    from app.report import junit, markdown, pytorch_benchmark, vllm_bench

    name, results = row.item.name, row.results or make_results(db, row).model_dump(mode="json")
    match kind:
        case ExportFormat.VLLM_BENCH:
            return JSONResponse(vllm_bench.write(results, resolve(row.spec), name, _read_figures(db, row)))
        case ExportFormat.PYTORCH_BENCHMARK:
            return JSONResponse(pytorch_benchmark.write(results, resolve(row.spec), name))
        case ExportFormat.JUNIT:
            return Response(junit.write(results, name), media_type="application/xml")
        case ExportFormat.MARKDOWN:
            return Response(markdown.write(results, name), media_type="text/markdown; charset=utf-8")
        case _:
            assert_never(kind)


def _read_figures(db: Db, row: ExperimentRow) -> dict[int, dict[str, Any]]:
    """By slot: what a trial's requests say, one trial's records at a time."""
    from app.report import vllm_bench
    from app.store.parquet import read_columns

    stored = trials.read_records(db, row.item.id, attempt=row.item.attempt)
    return {
        trial.planned.slot: vllm_bench.compute_figures(read_columns(table)) for trial, table in stored if len(table)
    }
