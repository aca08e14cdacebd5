"""How fast experiments can be submitted: `python -m benchmarks.submissions`, two minutes on two cores.

200 submissions a second for 60 s over HTTP, to a service in a process of its own, on each database. The client shares
the cores with the service and counts from when a request was due. Goals: p99 below 50 ms, none lost. Postgres comes
from the wheel that the tests use, with fsync off.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.settings import Settings
from app.spec.lifecycle import Status
from app.store import experiments
from app.store.database import Database
from app.supervisor import API_NICENESS
from benchmarks.load import Connections, Reply, at_rate, request
from benchmarks.support.databases import running_postgres
from benchmarks.support.service import Service, serving

SPEC: dict[str, Any] = {
    "name": "sync against async",
    "labels": {"suite": "nightly"},
    "model": {"preset": "tiny-qwen2"},
    "arms": [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}],
}


@contextmanager
def a_service(database: str, niceness: int) -> Iterator[Service]:
    """The API on a new database."""
    with tempfile.TemporaryDirectory() as directory:
        if database == "sqlite":
            yield from _serving(Settings(data_dir=Path(directory)), niceness)
        else:
            with running_postgres() as server, server.empty() as url:
                yield from _serving(Settings(data_dir=Path(directory), database_url=url), niceness)


def _serving(settings: Settings, niceness: int) -> Iterator[Service]:
    db = Database(settings.url)
    db.upgrade()
    db.dispose()
    with serving(settings, niceness) as service:
        yield service


async def submit(service: Service, per_s: float, seconds: float) -> list[Reply]:
    """Submit at this rate; a few first, which import what the service imports when it is first needed."""
    body = json.dumps(SPEC).encode()
    async with Connections(service.url) as connections:
        await at_rate(connections, 10, 1.0, lambda _: request("POST", "/v1/experiments", body))
        return await at_rate(connections, per_s, seconds, lambda _: request("POST", "/v1/experiments", body))


def measure(database: str, niceness: int, per_s: float, seconds: float) -> None:
    """Print one line."""
    load = os.getloadavg()[0]
    with a_service(database, niceness) as service:
        replies = asyncio.run(submit(service, per_s, seconds))
        queued = experiments.counts(service.db)[Status.QUEUED] - 10
    took = sorted(1e3 * reply.took_s for reply in replies)
    created = Counter(json.loads(reply.body)["id"] for reply in replies if reply.status == 201)
    lost = len(replies) - len(created)
    if queued != len(created):
        raise SystemExit(f"{len(created)} experiments were acknowledged, {queued} are in the database")
    p50, p90, p99 = (took[int(share * (len(took) - 1))] for share in (0.5, 0.9, 0.99))
    print(
        f"{database:10}{len(replies):8} sent{lost:6} lost   p50 {p50:7.1f} ms   p90 {p90:7.1f} ms   p99 {p99:7.1f} ms"
        f"   max {took[-1]:7.1f} ms   load before {load:.1f}",
        flush=True,
    )


def main() -> None:
    """Both databases, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.submissions", description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="submissions a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long, on each database")
    parser.add_argument("--database", choices=["sqlite", "postgres"], help="only this")
    parser.add_argument("--niceness", type=int, default=0, help=f"of the API: beside a worker it is {API_NICENESS}")
    asked = parser.parse_args()
    for database in [asked.database] if asked.database else ["sqlite", "postgres"]:
        measure(database, asked.niceness, asked.rate, asked.seconds)


if __name__ == "__main__":
    main()
