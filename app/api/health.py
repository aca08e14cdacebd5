"""Is it alive, and can it work?"""

from enum import StrEnum

from fastapi import APIRouter
from pydantic import BaseModel, Field, JsonValue
from starlette.responses import Response

from app.errors import DatabaseUnavailable
from app.http.admission import MayRead
from app.http.basics import Config, Db
from app.settings import Settings
from app.store import workers
from app.store.database import Database, Health
from app.version import VERSION

router = APIRouter(tags=["service"])


class Alive(BaseModel):
    """The process answers."""

    status: str = Field("alive", description="Always `alive`.", examples=["alive"])
    version: str = Field(description="Version of the service.", examples=["0.1.0"])


class Readiness(StrEnum):
    """Can the service work?"""

    READY = "ready"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class Part(BaseModel):
    """One thing the service needs."""

    ok: bool = Field(description="Whether it is as it should be.", examples=[True])
    detail: str = Field(description="What was found.", examples=["1 worker, seen 0.8 s ago"])
    reported: JsonValue = Field(None, description="What the workers say about it themselves.", examples=[None])


class Ready(BaseModel):
    """Whether the service can work, part by part."""

    status: Readiness = Field(
        description="`degraded`: experiments are accepted, but nobody runs them now; `unavailable`: no database.",
        examples=["ready"],
    )
    database: Part = Field(description="Reachable, and of this version's schema.")
    workers: Part = Field(description="At least one has been heard of within a lease.")
    ray: Part = Field(description="As the workers that are alive report it.")


@router.get("/healthz", summary="Alive?", response_model=Alive)
async def healthz() -> Alive:
    """The process answers; it looks at nothing else."""
    return Alive(version=VERSION)


@router.get(
    "/readyz",
    summary="Ready?",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "The database cannot be used."}},
)
def readyz(db: Db, settings: Config, may_read: MayRead) -> Response:
    """Whether the database can be used, a worker is there, and Ray answers it; details for who may read."""
    ready = _look(db, settings)
    if not may_read:
        parts = {"database": ready.database, "workers": ready.workers, "ray": ready.ray}
        ready = ready.model_copy(update={name: _strip_details(part) for name, part in parts.items()})
    code = 503 if ready.status is Readiness.UNAVAILABLE else 200
    return Response(ready.model_dump_json(), code, media_type="application/json")


def _strip_details(part: Part) -> Part:
    """For strangers: no names of hosts, no words of a database."""
    return Part(ok=part.ok, detail="as it should be" if part.ok else "not as it should be; who may read is told more")


def _look(db: Database, settings: Settings) -> Ready:
    health = db.check()
    database = Part(ok=health.ready, detail=_describe(health))
    try:
        alive = [w for w in workers.list_workers(db) if w.silent_s <= settings.lease_s] if health.ready else None
    except DatabaseUnavailable as error:  # gone since the check
        database, alive = Part(ok=False, detail=error.detail), None
    if alive is None:
        unknown = Part(ok=False, detail="unknown without the database")
        return Ready(status=Readiness.UNAVAILABLE, database=database, workers=unknown, ray=unknown)
    parts = _check_workers(alive), _check_ray(alive)
    status = Readiness.READY if all(part.ok for part in parts) else Readiness.DEGRADED
    return Ready(status=status, database=database, workers=parts[0], ray=parts[1])


def _describe(health: Health) -> str:
    if not health.reachable:
        return health.detail or "not reachable"
    return "reachable and migrated" if health.migrated else health.detail or "not migrated"


def _check_workers(alive: list[workers.Worker]) -> Part:
    if not alive:
        return Part(ok=False, detail="no worker has been heard of within a lease")
    silent_s = min(worker.silent_s for worker in alive)
    return Part(ok=True, detail=f"{len(alive)} worker{'s' * (len(alive) > 1)}, seen {silent_s:.1f} s ago")


def _check_ray(alive: list[workers.Worker]) -> Part:
    """The Ray of every worker that is alive, as each has found it since."""
    if not alive:
        return Part(ok=False, detail="no worker is there to report it")
    troubles = [f"{worker.id}: {trouble}" for worker in alive if (trouble := _find_trouble(worker)) is not None]
    if troubles:
        return Part(ok=False, detail="; ".join(troubles))
    nodes = [node for worker in alive for node in worker.info["nodes"]]
    return Part(ok=True, detail=f"{len(nodes)} node{'s' * (len(nodes) > 1)}, as the workers report", reported=nodes)


def _find_trouble(worker: workers.Worker) -> str | None:
    trouble, nodes = worker.info.get("trouble"), worker.info.get("nodes")
    if trouble is not None:
        return str(trouble)
    return None if isinstance(nodes, list) and nodes else "reports no node"
