"""What the API takes of one client, and of one query."""

import json
import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Anonymous, Settings
from app.store import queue, tokens
from app.store.actors import Actor
from app.store.database import Database
from app.store.tokens import Scope
from benchmarks.support.service import Service, eventually, serving
from tests.support.builders import a_simulated_spec
from tests.support.specs import SPEC

LIST = "/v1/experiments"


def test_who_asks_too_often_is_told_when_to_come_back(settings: Settings) -> None:
    with TestClient(create_app(settings.model_copy(update={"requests_per_s": 0.5}))) as client:
        assert client.get(LIST).status_code == 200
        refused = client.get(LIST)
        page = client.get("/experiments")
    assert (refused.status_code, refused.json()["type"]) == (429, "/v1/problems/too-many-requests")
    assert 1 <= int(refused.headers["Retry-After"]) <= 2
    assert (page.status_code, "Retry-After" in page.headers) == (429, True)


def test_a_token_has_a_share_of_its_own(settings: Settings, db: Database) -> None:
    secret = tokens.create(db, "anna", Scope.READ, None, Actor("root"))
    with TestClient(create_app(settings.model_copy(update={"requests_per_s": 5.0}))) as client:
        answers = Counter(
            client.get(LIST, headers={"Authorization": f"Bearer {secret}"}).status_code for _ in range(30)
        )
    assert answers[200] >= 10
    assert answers[429] > 0


def test_two_hundred_submissions_a_second_are_within_bounds(client: TestClient) -> None:
    answers = Counter(client.post(LIST, params={"dry_run": True}, json=SPEC).status_code for _ in range(200))
    assert answers == {200: 200}


def test_a_client_follows_so_many_streams_and_no_more(migrated_sqlite: Path, tmp_path: Path) -> None:
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with serving(Settings(data_dir=tmp_path, streams_per_client=3)) as service, ExitStack() as stack:
        experiment = queue.enqueue(service.db, a_simulated_spec()).experiment_id
        path, headers = f"{LIST}/{experiment}/events", {"Accept": "text/event-stream"}
        lines = [stack.enter_context(service.http.stream("GET", path, headers=headers)).iter_lines() for _ in range(3)]
        assert all(next(one) for one in lines)  # kept: a reader that is dropped hangs up
        with service.http.stream("GET", path, headers=headers) as refused:
            pass
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert service.http.get(path).is_success, "the history needs no stream"
        stack.close()

        def follows_again() -> bool:
            with service.http.stream("GET", path, headers=headers) as stream:
                return stream.status_code == 200

        assert eventually(follows_again)


@pytest.mark.parametrize(
    "query",
    [
        {"name": "x" * 49_999},
        {"label": [f"k{n}:v" for n in range(17)]},
        {"label": "k:" + "v" * 1000},
        {"model": "x" * 5000},
        {"cursor": "x" * 5000},
        {"created_after": "2" * 5000},
        {"status": ["queued"] * 1000},
    ],
    ids=lambda query: next(iter(query)),
)
def test_a_query_has_bounds(client: TestClient, query: dict[str, str | list[str]]) -> None:
    found = client.get(LIST, params=query)
    assert (found.status_code, found.json()["type"]) == (422, "/v1/problems/invalid-input")
    assert len(found.content) < 2000


def test_the_page_has_them_too(client: TestClient) -> None:
    for query in ({"name": "x" * 49_999}, {"label": " ".join(f"k{n}:v" for n in range(17))}, {"label": "x" * 5000}):
        assert client.get("/experiments", params=query).status_code == 422
    for name in ("arm", "experiment"):
        assert client.get("/compare", params={name: [f"n{n}" for n in range(65)]}).status_code == 422


def test_sixteen_labels_are_not_too_many(client: TestClient) -> None:
    assert client.get(LIST, params={"label": [f"k{n}:v" for n in range(16)]}).status_code == 200


def test_no_answer_is_taken_for_another_type(service: Service) -> None:
    for path in ("/healthz", LIST, "/experiments", "/metrics", "/openapi.json", "/static/lab.css", "/nothing"):
        headers = service.http.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin", path


def test_one_submitter_has_so_many_places_in_the_queue(settings: Settings, db: Database) -> None:
    secrets = {scope: tokens.create(db, scope.value, scope, None, Actor("root")) for scope in Scope}

    def submit(scope: Scope, key: str | None = None) -> Response:
        headers = {"Authorization": f"Bearer {secrets[scope]}"} | ({} if key is None else {"Idempotency-Key": key})
        return client.post(LIST, json=SPEC, headers=headers)

    with TestClient(create_app(settings.model_copy(update={"most_queued": 2}))) as client:
        first = submit(Scope.SUBMIT, "first").json()["id"]
        assert submit(Scope.SUBMIT).status_code == 201
        refused = submit(Scope.SUBMIT)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
        assert "submit has 2 experiments in the queue" in refused.json()["detail"]
        assert submit(Scope.SUBMIT, "first").json()["id"] == first, "what is queued already needs no place"
        assert [submit(Scope.ADMIN).status_code for _ in range(3)] == [201] * 3
        headers = {"Authorization": f"Bearer {secrets[Scope.SUBMIT]}"}
        assert client.post(f"{LIST}/{first}/cancel", headers=headers).is_success
        assert client.post(f"{LIST}/{first}/retry", headers=headers).status_code == 201
        assert client.post(f"{LIST}/{first}/retry", headers=headers).status_code == 429


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/{'x' * 5000}",
        f"{LIST}/{'x' * 5000}",
        f"{LIST}/{'x' * 5000}/results",
        f"{LIST}/{'x' * 5000}/events",
        f"/v1/problems/{'x' * 5000}",
        f"{LIST}?{'x' * 5000}=1",
        f"{LIST}?name={'x' * 5000}",
        f"{LIST}?status={'x' * 5000}",
        f"{LIST}?label={'x' * 5000}",
        f"{LIST}?cursor={'x' * 5000}",
        f"{LIST}?limit={'9' * 5000}",
        f"{LIST}?since={'x' * 5000}",
        f"/experiments/{'x' * 5000}",
        f"/experiments?status={'x' * 5000}",
        f"/compare?experiment={'x' * 5000}",
    ],
)
def test_what_was_sent_is_not_sent_back_whole(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code in {200, 404, 422}
    assert "x" * 1000 not in response.text
    assert "9" * 1000 not in response.text


def test_a_full_queue_keeps_what_was_typed_on_the_page(settings: Settings) -> None:
    limited = settings.model_copy(update={"most_queued": 1, "anonymous": Anonymous.SUBMIT})
    with TestClient(create_app(limited)) as client:
        assert client.post(LIST, json=SPEC).status_code == 201
        typed = {"spec": json.dumps(SPEC | {"name": "typed with care"}), "ticket": "two"}
        response = client.post("/submit", data=typed, headers={"Origin": "http://testserver"})
    assert response.status_code == 429
    assert "anonymous has 1 experiment in the queue" in response.text
    assert "typed with care" in response.text
