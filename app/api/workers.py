"""Who runs experiments."""

from datetime import datetime
from enum import StrEnum

from fastapi import APIRouter
from pydantic import BaseModel, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Config, Db, Page, answer
from app.http.problems import list_responses
from app.store import workers
from app.store.workers import Worker

router = APIRouter(prefix="/v1", tags=["service"])


class Liveness(StrEnum):
    """Whether a worker has been heard of within a lease."""

    ALIVE = "alive"
    SILENT = "silent"


class WorkerView(BaseModel):
    """A worker: where it runs, what it has, what it does."""

    id: str = Field(description="Its name; the owner of its attempts.", examples=["gpu-7-4211"])
    host: str = Field(description="Its host.", examples=["gpu-7"])
    pid: int = Field(description="Its process.", examples=[4211])
    started_at: datetime = Field(description="When it started.", examples=["2026-01-31T11:58:00Z"])
    last_seen_at: datetime = Field(description="When it was last heard of.", examples=["2026-01-31T12:01:00Z"])
    liveness: Liveness = Field(description="`silent` after a lease without a word.", examples=["alive"])
    experiment_id: str | None = Field(description="What it runs now.", examples=["0f8e5c1d2b3a4956"])
    info: dict[str, JsonValue] = Field(
        description="Ray nodes, GPUs and versions, as the worker reports them.", examples=[{"vllm": "0.25.1"}]
    )


class WorkerPage(Page):
    """Every worker that has announced itself."""

    items: tuple[WorkerView, ...] = Field(description="The workers, by host and process.")


@router.get("/workers", summary="Workers", response_model=WorkerPage, responses=list_responses())
def list_workers(request: Request, db: Db, settings: Config) -> Response:
    """Dispatchers, their Ray nodes and GPUs, and what each runs."""
    found = tuple(_build_view(worker, settings.lease_s) for worker in workers.list_workers(db))
    return answer(request, WorkerPage(items=found))


def _build_view(worker: Worker, lease_s: float) -> WorkerView:
    return WorkerView(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        started_at=worker.started_at,
        last_seen_at=worker.last_seen_at,
        liveness=Liveness.ALIVE if worker.silent_s <= lease_s else Liveness.SILENT,
        experiment_id=worker.experiment_id,
        info=worker.info,
    )
