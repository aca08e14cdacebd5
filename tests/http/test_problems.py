"""Errors as problem details."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.api.experiments import ListParameters
from app.errors import Conflict, LeaseLost
from app.http.problems import ANSWERED
from app.main import create_app
from app.settings import Settings
from benchmarks.support.service import Service
from tests.support.specs import SPEC, a_spec

HERE = "/v1/experiments"
YAML_TYPE = {"Content-Type": "application/yaml"}


def the_problem(response: Any, status: int) -> dict[str, Any]:
    """The problem a response is, after a look at what all of them have."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance"} <= set(found)
    assert found["status"] == status
    assert found["instance"] == f"urn:rollout-lab:request:{response.headers['X-Request-ID']}"
    return found


def test_a_faulty_spec_names_every_field(client: TestClient) -> None:
    spec = a_spec(engine={"max_num_seq": 1}, plan={"blocks": 0})
    found = the_problem(client.post(HERE, json=spec), 422)
    assert found["type"] == "/v1/problems/invalid-input"
    assert found["errors"] == [
        {"pointer": "/engine/max_num_seq", "detail": "unknown field 'max_num_seq'; did you mean 'max_num_seqs'?"},
        {"pointer": "/plan/blocks", "detail": "must be at least 1, not 0"},
    ]


def test_a_contradictory_spec_names_the_field_too(client: TestClient) -> None:
    spec = a_spec(baseline="nobody", model={"preset": "huge"})
    found = the_problem(client.post(HERE, json=spec), 422)
    assert [error["pointer"] for error in found["errors"]] == ["/baseline", "/model/preset"]
    assert the_problem(client.post(HERE, params={"dry_run": True}, json=spec), 422)["errors"] == found["errors"]


@pytest.mark.parametrize(
    ("body", "media_type", "said"),
    [
        (b'{"a": 1,}', "application/json", "line 1: not JSON"),
        (b"a: 1\na: 2", "application/yaml", "line 2: key 'a' is given twice"),
        (b"a: &x 1", "text/yaml; charset=utf-8", "line 1: anchor &x"),
        (b"", "application/json", "line 1: not JSON"),
        (b"", "application/yaml", "the document: must be an object"),
        (b"\xff", "application/json", "line 1: not UTF-8"),
        (b'{"name": "\\u0000"}', "application/json", "/name: contains a NUL character"),
        (b'{"name": "\\ud800"}', "application/json", "/name: contains half a surrogate pair"),
        (b'{"x": 1e999}', "application/json", "/x: must be a finite number"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(client: TestClient, body: bytes, media_type: str, said: str) -> None:
    response = client.post(HERE, content=body, headers={"Content-Type": media_type})
    assert the_problem(response, 422)["detail"].startswith(said)


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_of_another_type_is_refused(client: TestClient, media_type: str) -> None:
    """Types a web page elsewhere can send without asking first must never queue anything."""
    headers = {"Content-Type": media_type} if media_type else {}
    found = the_problem(client.post(HERE, content=json.dumps(SPEC).encode(), headers=headers), 415)
    assert found["type"] == "/v1/problems/unsupported-media-type"
    assert "--json @spec.json" in found["detail"]
    assert client.get(HERE).json()["items"] == []


def test_an_announced_body_above_the_limit_is_refused(client: TestClient) -> None:
    spec = a_spec(name="x" * (1 << 20))
    assert the_problem(client.post(HERE, json=spec), 413)["type"] == "/v1/problems/payload-too-large"


def test_a_body_above_the_limit_is_refused_on_the_wire(service: Service) -> None:
    chunks = (b" " * 65_536 for _ in range(32))
    for body in (chunks, b" " * (2 << 20)):
        response = service.http.post(HERE, content=body, headers={"Content-Type": "application/json"})
        assert the_problem(response, 413)["title"] == "Payload too large"


def test_an_unknown_place_is_a_problem(client: TestClient) -> None:
    found = the_problem(client.get("/v1/nowhere"), 404)
    assert (found["type"], found["detail"]) == ("about:blank", "there is nothing at /v1/nowhere")


def test_a_wrong_method_is_told_the_right_ones(client: TestClient) -> None:
    response = client.delete(HERE)
    assert the_problem(response, 405)["detail"] == "/v1/experiments does not take DELETE, but GET, HEAD, POST"
    assert response.headers["Allow"] == "GET, HEAD, POST"


def test_an_overlong_idempotency_key_is_refused(client: TestClient) -> None:
    found = the_problem(client.post(HERE, json=SPEC, headers={"Idempotency-Key": "x" * 256}), 422)
    assert found["errors"][0]["parameter"] == "idempotency-key"


def _with_route(settings: Settings, error: Exception) -> FastAPI:
    app = create_app(settings)

    @app.get("/raise")
    def fail() -> None:
        raise error

    return app


def test_an_error_nobody_meant_keeps_its_words_in_the_log(settings: Settings) -> None:
    app = _with_route(settings, RuntimeError("the password is secret"))
    with TestClient(app) as client, structlog.testing.capture_logs() as log:
        response = client.get("/raise")
    found = the_problem(response, 500)
    assert [entry["path"] for entry in log if entry["event"] == "request failed" and entry["exc_info"]] == ["/raise"]
    assert "secret" not in response.text
    assert found["detail"] == "The service's log has the cause, under this request's instance."


@pytest.mark.parametrize("error", [LeaseLost("worker-1 lost it"), RuntimeError("oops")])
def test_errors_that_are_no_answers_are_internal(settings: Settings, error: Exception) -> None:
    with TestClient(_with_route(settings, error)) as client:
        assert str(error) not in the_problem(client.get("/raise"), 500)["detail"]


@pytest.mark.parametrize("kind", ANSWERED)
def test_every_error_with_an_answer_has_one(settings: Settings, kind: type[Conflict]) -> None:
    with TestClient(_with_route(settings, kind("so it is"))) as client:
        found = the_problem(client.get("/raise"), kind.status)
        explained = client.get(found["type"])
    assert (found["title"], found["detail"]) == (kind.title, "so it is")
    assert explained.json()["title"] == kind.title
    assert explained.json()["status"] == kind.status


def test_a_database_that_is_away_is_worth_another_try(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none"))
    with TestClient(app) as client:
        for response in (client.get(HERE), client.post(HERE, json=SPEC), client.get(f"{HERE}/x/events")):
            found = the_problem(response, 503)
            assert found["type"] == "/v1/problems/database-unavailable"
            assert response.headers["Retry-After"] == "5"


def test_an_unknown_kind_of_problem_is_not_found(client: TestClient) -> None:
    the_problem(client.get("/v1/problems/nonsense"), 404)


def test_a_request_keeps_the_id_it_came_with(client: TestClient) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["X-Request-ID"] == "abc-1"
    for odd in ("", "x" * 65, "a b", "a\tb"):
        assert client.get("/healthz", headers={"X-Request-ID": odd}).headers["X-Request-ID"] not in ("", odd)


def test_behind_a_proxy_addresses_have_its_prefix(settings: Settings) -> None:
    with TestClient(create_app(settings.model_copy(update={"root_path": "/lab"}))) as client:
        created = client.post(HERE, json=SPEC)
        assert created.headers["Location"].startswith("/lab/v1/experiments/")
        assert client.get(created.json()["links"]["self"]).status_code == 200
        assert client.get(f"{HERE}/nobody").json()["type"] == "/lab/v1/problems/not-found"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3),
    max_leaves=6,
)
PLACES = ("name", "labels", "model", "engine", "workload", "arms", "baseline", "plan", "decision", "limits", "x")


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=JSON, raw=st.binary(max_size=40))
def test_no_body_breaks_the_service(client: TestClient, place: str, value: object, raw: bytes) -> None:
    for body, headers in (
        (json.dumps(a_spec(**{place: value})).encode("utf-8", "surrogatepass"), {"Content-Type": "application/json"}),
        (raw, YAML_TYPE),
    ):
        response = client.post(HERE, params={"dry_run": True}, content=body, headers=headers)
        assert response.status_code in (200, 422), response.text


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(list(ListParameters.model_fields)),
    value=st.text(max_size=12),
)
def test_no_parameter_breaks_the_service(client: TestClient, name: str, value: str) -> None:
    try:
        response = client.get(HERE, params={name: value.encode("utf-8", "surrogatepass")})
    except httpx.InvalidURL:
        return
    assert response.status_code in (200, 422), response.text
