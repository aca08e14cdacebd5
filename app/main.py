"""The application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool

from app.api import (
    events,
    experiments,
    export,
    health,
    models,
    profiles,
    requests,
    results,
    telemetry,
    timeline,
    workers,
)
from app.api.middleware import BodyLimit, HeadAsGet, RequestContext
from app.api.schema import DescribedApp
from app.api.telemetry import Telemetry
from app.http import problems
from app.http.admission import admit
from app.pages.routes import router as pages
from app.service.access import Gate
from app.service.allowance import Allowance
from app.service.feed import Feed
from app.service.upkeep import upkeep
from app.settings import Settings
from app.store.database import Database
from app.version import VERSION

ROUTERS = (
    experiments.router,
    events.router,
    results.router,
    requests.router,
    timeline.router,
    export.router,
    profiles.router,
    models.router,
    workers.router,
    health.router,
    telemetry.router,
    problems.router,
    pages,
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service, ready to be served; its database is opened here and closed when it stops."""
    settings = settings or Settings()
    app = DescribedApp(
        title="Rollout Lab",
        version=VERSION,
        root_path=settings.root_path,
        lifespan=_lifespan,
        docs_url=None,  # they would load their scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        dependencies=[Depends(admit)],
    )
    app.state.settings = settings
    app.state.database = Database(settings.url)
    app.state.gate = Gate(app.state.database, settings)
    app.state.allowance = Allowance(settings.requests_per_s, settings.streams_per_client)
    app.state.telemetry = Telemetry(app.state.database)
    app.state.feed = Feed(app.state.database)
    for router in ROUTERS:
        app.include_router(router)
    problems.install_handlers(app)
    app.add_middleware(BodyLimit, most_bytes=settings.max_body_bytes)
    app.add_middleware(HeadAsGet)
    app.add_middleware(RequestContext, telemetry=app.state.telemetry)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    with upkeep(app.state.database, app.state.settings.lease_s):
        yield
    await run_in_threadpool(app.state.database.dispose)
