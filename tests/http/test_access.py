"""Who may do what: every route, every scope."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fastapi.routing import APIRoute
from httpx2 import Response
from starlette.testclient import TestClient

from app.http.rules import RULES, find_rule
from app.main import create_app
from app.openapi import description
from app.service import access
from app.settings import Anonymous, Settings
from app.store import experiments, queue, tokens, workers
from app.store.actors import Actor
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tokens import Scope
from tests.support.builders import a_simulated_spec
from tests.support.specs import SPEC

ROOT = Actor("root", "gpu-7")
HERE = "http://127.0.0.1:8321"
LIST = "/v1/experiments"


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of every route of the application."""
    for route in create_app(Settings(database_url="postgresql+psycopg://")).routes:
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in sorted(route.methods))


@dataclass(frozen=True)
class Door:
    """A service that has tokens, one per scope, and asks everybody for one."""

    client: TestClient
    secrets: dict[Scope, str]

    def ask(self, method: str, path: str, scope: Scope | None) -> Response:
        headers = {} if scope is None else {"Authorization": f"Bearer {self.secrets[scope]}"}
        return self.client.request(method, path, headers=headers, follow_redirects=False)


def local(settings: Settings, **changes: object) -> Settings:
    """As a service is that nobody has configured."""
    return settings.model_copy(update={"allowed_hosts": "", "anonymous": Anonymous.AUTO} | changes)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def door(settings: Settings, db: Database) -> Iterator[Door]:
    """A service on loopback with a token of every scope."""
    secrets = {scope: tokens.create(db, scope.value, scope, None, ROOT) for scope in Scope}
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        yield Door(client, secrets)


# --- the matrix ----------------------------------------------------------------------------------------------------


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert {f"{method} {path}" for method, path in routes()} == set(RULES)


def test_a_route_that_was_forgotten_is_for_admins() -> None:
    assert find_rule("GET", "/new") is Scope.ADMIN


@pytest.mark.parametrize(("method", "path"), sorted(routes()), ids=lambda value: value)
def test_a_route_lets_in_whom_its_rule_names_and_nobody_else(door: Door, method: str, path: str) -> None:
    needed = RULES[f"{method} {path}"]
    place = path.replace("{experiment_id}", "nobody").replace("{part}", "shape").replace("{kind}", "csv")
    place = place.replace("{name}", "verdict").replace("{slug}", "conflict").replace("{name:path}", "lab.css")
    for scope in (None, *Scope):
        response = door.ask(method, place, scope)
        let_in = needed is None or (scope is not None and scope.covers(needed))
        assert response.status_code < 500
        if (method, path) in {("POST", "/login"), ("POST", "/logout")}:
            continue  # tests/pages/test_login.py
        kept_out = response.status_code in {401, 403} or "/login?" in response.headers.get("location", "")
        assert kept_out is not let_in, (scope, response.status_code, response.text[:200])


def test_what_kept_a_request_out_is_a_problem_that_says_what_to_do(door: Door) -> None:
    nobody, reader = door.ask("POST", LIST, None), door.ask("POST", LIST, Scope.READ)
    assert (nobody.status_code, nobody.headers["WWW-Authenticate"]) == (401, 'Bearer realm="Rollout Lab"')
    assert nobody.headers["content-type"] == "application/problem+json"
    assert "Authorization: Bearer" in nobody.json()["detail"]
    assert (reader.status_code, reader.json()["detail"]) == (
        403,
        "read may read; this takes a token with the scope submit",
    )


def test_the_description_says_what_every_call_takes() -> None:
    for path, methods in json.loads(description())["paths"].items():
        for method, operation in methods.items():
            needed = find_rule(method.upper(), path)
            assert operation["security"] == (
                [] if needed is None else [{"token": [needed.value]}, {"session": [needed.value]}]
            )
            assert {"421", "429"} | ({"401", "403"} if needed else set()) <= set(operation["responses"])


# --- tokens --------------------------------------------------------------------------------------------------------


def test_without_tokens_a_local_service_is_open_and_with_one_it_is_not(settings: Settings, db: Database) -> None:
    app = create_app(local(settings))
    with TestClient(app, base_url=HERE) as client:
        assert client.post(LIST, json=SPEC).json()["submitted_by"] == "anonymous"
        secret = tokens.create(db, "anna", Scope.SUBMIT, None, ROOT)
        app.state.gate.forget()
        assert client.post(LIST, json=SPEC).status_code == 401
        assert client.post(LIST, json=SPEC, headers=bearer(secret)).json()["submitted_by"] == "anna"


@pytest.mark.parametrize("secret", ["", "rlt_wrong", "x" * 20_000])
def test_a_wrong_token_opens_nothing_that_is_closed(door: Door, secret: str) -> None:
    response = door.client.get(LIST, headers=bearer(secret))
    assert (response.status_code, response.json()["detail"]) == (401, "there is no such token")


def test_a_wrong_token_is_refused_where_none_is_needed(settings: Settings) -> None:
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        assert client.get(LIST, headers=bearer("rlt_wrong")).status_code == 401


def test_a_token_that_is_over_says_so(door: Door, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REMEMBERED_S", 0.0)
    assert door.ask("GET", LIST, Scope.READ).status_code == 200
    tokens.revoke(db, "read", ROOT)
    response = door.ask("GET", LIST, Scope.READ)
    assert (response.status_code, response.json()["detail"]) == (401, "this token is revoked")


@pytest.mark.parametrize(
    ("anonymous", "read", "submitted"),
    [("none", 401, 401), ("read", 200, 403), ("submit", 200, 201), ("admin", 200, 201)],
)
def test_what_anybody_may_do_is_the_operators_to_say(
    settings: Settings, anonymous: str, read: int, submitted: int
) -> None:
    open_to_all = local(settings, host="192.0.2.1", anonymous=Anonymous(anonymous))
    with TestClient(create_app(open_to_all), base_url=HERE) as client:
        assert client.get(LIST).status_code == read
        assert client.post(LIST, json=SPEC).status_code == submitted


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "0.0.0.0"}, {"host": "lab"}, {"allowed_hosts": "lab.example"}, {"root_path": "/lab"}],  # noqa: S104
)
def test_a_service_for_others_is_never_open_by_itself(settings: Settings, elsewhere: dict[str, str]) -> None:
    with TestClient(create_app(local(settings, **elsewhere)), base_url=HERE) as client:
        assert client.get(LIST).status_code == 401
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_scope_reaches_others_experiments_only_as_admin(door: Door, db: Database) -> None:
    other = queue.enqueue(db, a_simulated_spec(), by=Actor("anna")).experiment_id
    mine = queue.enqueue(db, a_simulated_spec(), by=Actor("submit")).experiment_id
    nobodys = queue.enqueue(db, a_simulated_spec()).experiment_id
    refused = door.ask("POST", f"{LIST}/{other}/cancel", Scope.SUBMIT)
    assert (refused.status_code, "is anna's" in refused.json()["detail"]) == (403, True)
    for found, scope in ((mine, Scope.SUBMIT), (nobodys, Scope.SUBMIT), (other, Scope.ADMIN)):
        assert door.ask("POST", f"{LIST}/{found}/cancel", scope).json()["status"] == "cancelled"


def test_a_write_is_told_with_who_and_from_where(door: Door, db: Database) -> None:
    queued = door.client.post(LIST, json=SPEC, headers=bearer(door.secrets[Scope.SUBMIT])).json()["id"]
    door.ask("POST", f"{LIST}/{queued}/cancel", Scope.ADMIN)
    retried = door.ask("POST", f"{LIST}/{queued}/retry", Scope.ADMIN).json()
    found = door.ask("GET", f"{LIST}/{queued}/events", Scope.READ).json()["items"]
    assert [(event["reason"], event["actor"], event["source"]) for event in found] == [
        ("submitted", "submit", "testclient"),
        ("cancelled while queued", "admin", "testclient"),
    ]
    assert retried["submitted_by"] == "admin"
    assert experiments.get_item(db, ExperimentId(queued)).submitted_by == "submit"


def test_a_key_that_two_have_thought_of_queues_for_both(door: Door) -> None:
    def queued(scope: Scope) -> tuple[int, str]:
        headers = bearer(door.secrets[scope]) | {"Idempotency-Key": "nightly"}
        response = door.client.post(LIST, json=SPEC, headers=headers)
        return response.status_code, response.json()["id"]

    first, again, other = queued(Scope.SUBMIT), queued(Scope.SUBMIT), queued(Scope.ADMIN)
    assert (first[0], again, other[0]) == (201, (200, first[1]), 201)
    assert other[1] != first[1]


# --- what a web page elsewhere can make a browser send ---------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "", "[::1", "a b"])
def test_a_name_that_is_not_the_services_is_refused(settings: Settings, host: str) -> None:
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        for method, path in (("GET", LIST), ("POST", LIST), ("GET", "/healthz"), ("GET", "/experiments")):
            response = client.request(method, path, headers={"Host": host})
            assert response.status_code == 421, (method, path)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "localhost", "LOCALHOST:8321", "[::1]:8321", "192.0.2.1", "lab.example"]
)
def test_names_and_addresses_of_the_service_are_taken(settings: Settings, host: str) -> None:
    app = create_app(local(settings, allowed_hosts="lab.example, other.example", anonymous=Anonymous.READ))
    with TestClient(app, base_url=HERE) as client:
        assert client.get(LIST, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site", "Origin": HERE},
    ],
)
def test_no_page_elsewhere_changes_anything(settings: Settings, db: Database, headers: dict[str, str]) -> None:
    queued = queue.enqueue(db, a_simulated_spec()).experiment_id
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        for path in (f"{LIST}/{queued}/cancel", f"{LIST}/{queued}/retry", f"/experiments/{queued}/cancel"):
            assert client.post(path, headers=headers).status_code == 403
        assert client.post(LIST, json=SPEC, headers=headers).status_code == 403
    assert experiments.get_item(db, queued).status == "queued"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
def test_what_a_form_can_send_changes_nothing(settings: Settings, db: Database, media_type: str) -> None:
    queued = queue.enqueue(db, a_simulated_spec()).experiment_id
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        for verb in ("cancel", "retry"):
            response = client.post(f"{LIST}/{queued}/{verb}", headers={"Content-Type": media_type})
            assert response.status_code == 415
        assert client.post(f"{LIST}/{queued}/cancel").status_code == 200


# --- through a reverse proxy, and after a while -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"X-Real-IP": "203.0.113.9"},
        {"Via": "1.1 proxy"},
        {"Host": "198.51.100.7"},
    ],
)
def test_a_reverse_proxy_on_this_machine_opens_it_to_nobody(settings: Settings, headers: dict[str, str]) -> None:
    with TestClient(create_app(local(settings)), base_url=HERE) as client:
        assert client.get(LIST).status_code == 200
        assert client.get(LIST, headers=headers).status_code == 401
        assert client.post(LIST, json=SPEC, headers=headers).status_code == 401


def test_a_key_of_nobody_is_never_taken_for_a_tokens_key(settings: Settings, door: Door) -> None:
    headers = bearer(door.secrets[Scope.SUBMIT]) | {"Idempotency-Key": "nightly"}
    own = door.client.post(LIST, json=SPEC, headers=headers).json()["id"]
    with TestClient(create_app(local(settings, anonymous=Anonymous.SUBMIT)), base_url=HERE) as client:
        other = client.post(LIST, json=SPEC, headers={"Idempotency-Key": "submit/nightly"})
    assert (other.status_code, other.json()["id"] == own) == (201, False)


def test_strangers_are_told_whether_it_is_ready_and_no_names(door: Door, db: Database) -> None:
    workers.announce(db, "gpu-7-4211", host="gpu-7", pid=1, info={"nodes": [{"name": "gpu-7", "address": "10.1.2.3"}]})
    stranger, reader = door.ask("GET", "/readyz", None), door.ask("GET", "/readyz", Scope.READ)
    assert (stranger.status_code, stranger.json()["status"]) == (reader.status_code, reader.json()["status"])
    assert "gpu-7" in reader.text
    assert "gpu-7" not in stranger.text
    assert "10.1.2.3" not in stranger.text
