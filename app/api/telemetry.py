"""What Prometheus scrapes."""

from collections.abc import Iterator

import structlog
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from app.errors import DatabaseUnavailable
from app.store import experiments
from app.store.backlog import oldest_queued_s
from app.store.database import Database

_log = structlog.get_logger(__name__)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Telemetry:
    """The metrics of one application: its own registry, so that there may be several in a process."""

    def __init__(self, database: Database) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Queue(database))
        self._requests = Histogram(
            "rollout_lab_http_request_seconds",
            "Time to answer a request; of an event stream, how long it was open.",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, str(status)).observe(seconds)


class _Queue(Collector):
    """The queue's state, read when it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> list[Metric]:
        """Nothing in advance: registration must not need a database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the database; say so where it is away, rather than report an empty queue."""
        up = GaugeMetricFamily("rollout_lab_database_up", "1 if the database answers.")
        try:
            counts = experiments.counts(self._database)
            oldest_s = oldest_queued_s(self._database)
        except DatabaseUnavailable as error:
            _log.warning("no metrics of the queue", detail=error.detail)
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        by_status = GaugeMetricFamily("rollout_lab_experiments", "Experiments by status.", labels=["status"])
        for status, count in counts.items():
            by_status.add_metric([status], count)
        yield by_status
        oldest = GaugeMetricFamily(
            "rollout_lab_oldest_queued_seconds", "How long the oldest queued experiment has waited; 0 if none does."
        )
        oldest.add_metric([], oldest_s or 0.0)
        yield oldest


router = APIRouter(tags=["service"])


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": 'rollout_lab_experiments{status="queued"} 3.0\n'}}}},
)
def metrics(request: Request) -> Response:
    """Experiments by status (`queued` is the queue's depth), age of the oldest queued one, request latencies."""
    telemetry: Telemetry = request.app.state.telemetry
    return Response(generate_latest(telemetry.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
