"""History, and the live stream."""

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from app.service import access
from app.service.feed import Feed
from app.settings import Settings
from app.spec.lifecycle import Status
from app.store import experiments, queue, tokens
from app.store.actors import Actor
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId
from app.store.tokens import Scope
from benchmarks.support.service import Service, serving
from tests.support.builders import a_simulated_spec
from tests.support.specs import SPEC
from tests.support.store import expire
from tests.support.work import claim, run_steps

HERE = "/v1/experiments"
Message = tuple[str | None, str, dict[str, Any]]  # id, event, data


@pytest.fixture
def experiment(service: Service) -> Iterator[str]:
    """A queued experiment, the only one."""
    created = service.http.post(HERE, json=SPEC).json()["id"]
    yield created
    queue.request_cancel(service.db, created)


@contextmanager
def listening(service: Service, experiment: str, last: int | None = None) -> Iterator[httpx.Response]:
    headers = {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": str(last)})
    with service.http.stream("GET", f"{HERE}/{experiment}/events", headers=headers) as response:
        yield response


def messages(response: httpx.Response) -> Iterator[Message]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("id"), fields["event"], json.loads(fields["data"])
            fields = {}


def test_history_is_a_list(client: TestClient, db: Database) -> None:
    created = client.post(HERE, json=SPEC).json()["id"]
    lease = claim(db).lease
    queue.finish(db, lease, Status.SUCCEEDED, reason="all blocks done")
    found = client.get(f"{HERE}/{created}/events").json()
    assert found["next_cursor"] is None
    assert [(e["seq"], e["from_status"], e["to_status"], e["reason"]) for e in found["items"]] == [
        (1, None, "queued", "submitted"),
        (2, "queued", "running", "claimed"),
        (3, "running", "succeeded", "all blocks done"),
    ]
    later = client.get(f"{HERE}/{created}/events", params={"after": 2}).json()
    assert [event["seq"] for event in later["items"]] == [3]


def test_a_stream_tells_everything_and_ends_with_the_experiment(service: Service, experiment: str) -> None:
    with listening(service, experiment) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        told = messages(response)
        assert next(told)[0:2] == ("1", "status")
        number, kind, data = next(told)
        assert (number, kind, data["status"], data["queue_position"]) == (None, "progress", "queued", 1)
        claimed = claim(service.db)
        steps = run_steps(service.db, claimed)
        next(steps)
        queue.finish(service.db, claimed.lease, Status.SUCCEEDED, reason="done")
        rest = list(told)
    assert [m[2]["to_status"] for m in rest if m[1] == "status"] == ["running", "succeeded"]
    assert [m[0] for m in rest if m[1] == "status"] == ["2", "3"]
    assert rest[-1][2]["status"] == "succeeded"


def test_a_stream_tells_of_progress_in_between(service: Service, experiment: str) -> None:
    with listening(service, experiment) as response:
        told = messages(response)
        for step in run_steps(service.db, claim(service.db)):
            if step.planned.slot == 2:
                break
        seen = next(m[2] for m in told if m[1] == "progress" and m[2]["progress"] is not None)
    assert seen["progress"]["trials_total"] == 12


def test_a_stream_resumes_behind_the_last_event(service: Service, experiment: str) -> None:
    queue.request_cancel(service.db, ExperimentId(experiment))
    with listening(service, experiment, last=1) as response:
        assert [m[0] for m in messages(response) if m[1] == "status"] == ["2"]


def test_a_finished_stream_tells_browsers_not_to_come_back(service: Service, experiment: str) -> None:
    queue.request_cancel(service.db, ExperimentId(experiment))
    with listening(service, experiment, last=2) as response:
        assert response.status_code == 204


def test_a_stream_of_nothing_is_a_problem(service: Service) -> None:
    with listening(service, "nobody") as response:
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"


def test_a_stream_follows_a_second_attempt(service: Service) -> None:
    spec = SPEC | {"limits": {"retry_on_loss": True}}
    experiment = service.http.post(HERE, json=spec).json()["id"]
    with listening(service, experiment) as response:
        told = messages(response)
        claim(service.db)
        expire(service.db, experiment)
        queue.reap(service.db)
        queue.finish(service.db, claim(service.db).lease, Status.SUCCEEDED, reason="done")
        statuses = [m[2]["to_status"] for m in told if m[1] == "status"]
    assert statuses == ["queued", "running", "queued", "running", "succeeded"]


def test_many_listeners_do_not_hurt(service: Service, experiment: str) -> None:
    """Sixty listeners on one experiment: the service answers others at once, and all hear of the end."""
    ready = threading.Barrier(61, timeout=60)

    def listen() -> str:
        with listening(service, experiment) as response:
            told = messages(response)
            next(told)
            ready.wait()
            return str(list(told)[-1][2]["status"])

    with ThreadPoolExecutor(60) as pool:
        listeners = [pool.submit(listen) for _ in range(60)]
        ready.wait()
        began = time.perf_counter()
        for _ in range(10):
            service.http.get("/v1/profiles").raise_for_status()
        took_s = (time.perf_counter() - began) / 10
        queue.request_cancel(service.db, ExperimentId(experiment))
        assert {listener.result(30) for listener in listeners} == {"cancelled"}
    assert took_s < 1.0


def test_streams_end_in_good_order_when_the_service_stops(settings: Settings) -> None:
    with serving(settings) as stopping:
        created = queue.enqueue(stopping.db, a_simulated_spec()).experiment_id
        with listening(stopping, created) as response:
            told = messages(response)
            next(told)
            stopping.process.send_signal(signal.SIGTERM)
            assert [m[1] for m in told] == ["progress"]
        assert stopping.process.wait(15) == -signal.SIGTERM
        assert "without completing" not in stopping.log.read_text()


def test_listeners_of_one_experiment_share_its_queries(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = queue.enqueue(db, a_simulated_spec()).experiment_id
    asked = 0

    def counted(*arguments: Any) -> ExperimentRow:
        nonlocal asked
        asked += 1
        return get(*arguments)

    get = experiments.get
    monkeypatch.setattr(experiments, "get", counted)

    async def listen(feed: Feed, heard: asyncio.Event) -> list[Status]:
        statuses = []
        async for snapshot in feed.snapshots(experiment):
            statuses.append(snapshot.row.item.status)
            heard.set()
        return statuses

    async def all_listen() -> list[list[Status]]:
        feed = Feed(db, interval_s)
        heard = [asyncio.Event() for _ in range(50)]
        listeners = [asyncio.create_task(listen(feed, event)) for event in heard]
        await asyncio.gather(*(event.wait() for event in heard))
        await asyncio.to_thread(queue.request_cancel, db, experiment)
        return await asyncio.gather(*listeners)

    interval_s, began = 0.05, time.monotonic()
    assert asyncio.run(all_listen()) == [[Status.QUEUED, Status.CANCELLED]] * 50
    assert asked <= (time.monotonic() - began) / interval_s + 2


def test_a_stream_ends_with_the_token_that_asked_for_it(migrated_sqlite: Path, tmp_path: Path) -> None:
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with serving(Settings(data_dir=tmp_path)) as service:
        experiment = queue.enqueue(service.db, a_simulated_spec()).experiment_id
        secret = tokens.create(service.db, "watcher", Scope.READ, None, Actor("root"))
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {secret}"}
        with service.http.stream("GET", f"{HERE}/{experiment}/events", headers=headers) as response:
            told = messages(response)
            assert [next(told)[1], next(told)[1]] == ["status", "progress"]
            tokens.revoke(service.db, "watcher", Actor("root"))
            time.sleep(access.REMEMBERED_S)
            claim(service.db)
            assert list(told) == []
