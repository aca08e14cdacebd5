"""Who runs experiments, and what an experiment can name."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Config, Db
from app.pages.shell import PageRouter, render_fragment, render_page, wants_fragment
from app.spec.experiment import DriverOverrides
from app.spec.models import MODELS
from app.spec.profiles import PROFILES
from app.store import experiments, workers
from app.store.workers import Worker

router = PageRouter()


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the page shows it."""

    worker: Worker
    alive: bool
    nodes: tuple[dict[str, Any], ...]
    versions: dict[str, str]
    gpus: float


@router.get("/workers")
def list_workers(request: Request, db: Db, settings: Config) -> Response:
    """Workers, their nodes and GPUs, and what each runs."""
    rows = [make_row(worker, settings.lease_s) for worker in workers.list_workers(db)]
    running = [row.worker.experiment_id for row in rows if row.worker.experiment_id is not None]
    names = {one: experiments.get_item(db, one).name or one for one in running}
    shown: dict[str, Any] = {"rows": rows, "names": names, "lease_s": settings.lease_s}
    if wants_fragment(request):
        return render_fragment(request, "worker_rows.html", title="Workers", final=False, **shown)
    return render_page(request, "workers.html", **shown)


def make_row(worker: Worker, lease_s: float) -> WorkerRow:
    """A worker's row; what it says of itself is not trusted to have any form."""
    nodes = tuple(node for node in worker.info.get("nodes") or () if isinstance(node, dict))
    versions = worker.info.get("versions")
    return WorkerRow(
        worker=worker,
        alive=worker.silent_s <= lease_s,
        nodes=nodes,
        versions={str(key): str(value) for key, value in versions.items()} if isinstance(versions, dict) else {},
        gpus=sum(node["gpus"] for node in nodes if isinstance(node.get("gpus"), int | float)),
    )


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """One setting of a profile, explained."""

    key: str
    value: str
    meaning: str


@router.get("/profiles")
def list_profiles(request: Request) -> Response:
    """What arms can start from, and the models that need no download."""
    found = [
        (profile, _explain("driver", profile.driver) + _explain("engine", profile.engine, only_said=True))
        for profile in PROFILES.values()
    ]
    return render_page(request, "profiles.html", profiles=found, models=list(MODELS.values()))


def _explain(section: str, settings: BaseModel, *, only_said: bool = False) -> list[ProfileSetting]:
    said = settings.model_dump(mode="json", exclude_unset=True)
    # The driver's own model describes `api` by its only value.
    fields = type(settings).model_fields | {"api": DriverOverrides.model_fields["api"]}
    return [
        ProfileSetting(f"{section}.{key}", write_value(value), fields[key].description or "")
        for key, value in settings.model_dump(mode="json").items()
        if key in said or not only_said
    ]


def write_value(value: object) -> str:
    """A setting's value as a spec has it."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value) if value != [] else "none"
