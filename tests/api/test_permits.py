"""Dangerous specs over the API and on the submit page: refused in words, with what the operator can do."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.spec.parsing import parse_experiment
from app.store import experiments, queue
from app.store.database import Database
from tests.support.malformed import malformed

ATTACKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/arms/0/environment/python": ({}, {"environment": {"python": "sh -c id x"}}),
    "/arms/0/environment/variables/OMP_LEAK": ({}, {"environment": {"variables": {"OMP_LEAK": "${HF_TOKEN}"}}}),
    "/arms/0/environment/variables/VLLM_PLUGINS": ({}, {"environment": {"variables": {"VLLM_PLUGINS": "x"}}}),
    "/arms/0/driver/api": ({}, {"driver": {"api": None}}),
    "/arms/0/driver/failing_slots/0": ({}, {"driver": {"failing_slots": [-1]}}),
    "/workload/prompts/path": ({"workload": {"prompts": {"path": "s3://b?endpoint_override=x/y.jsonl"}}}, {}),
    "/model/id": ({"model": {"id": "../../etc/passwd"}}, {}),
    "/engine/trust_remote_code": ({"model": {"id": "org/model"}, "engine": {"trust_remote_code": True}}, {}),
    "/plan/blocks": ({"plan": {"blocks": "6"}}, {}),
    "/calibrate": ({"calibrate": "yes"}, {}),
    "/replicas": ({"replicas": True}, {}),
    "/explain": ({"explain": 0}, {}),
    "/plan": ({"plan": {"blocks": 200, "warmup_trials": 20, "starts": 50}, "arms": None}, {}),
}


def attack(pointer: str) -> dict[str, Any]:
    spec, arm = ATTACKS[pointer]
    many = [{"name": f"a{number}", "profile": "simulated"} for number in range(64)]
    found = {"model": {"preset": "tiny-qwen2"}, "arms": [{"name": "a", "profile": "simulated"} | arm]} | spec
    return found if found["arms"] else found | {"arms": many}


@pytest.mark.parametrize("pointer", ATTACKS)
@pytest.mark.parametrize("dry_run", ["false", "true"])
def test_an_attack_is_refused_where_it_stands(client: TestClient, pointer: str, dry_run: str) -> None:
    response = client.post("/v1/experiments", json=attack(pointer), params={"dry_run": dry_run})
    assert response.status_code == 422
    assert pointer in [error["pointer"] for error in response.json()["errors"]]
    assert client.get("/v1/experiments").json()["items"] == []


@pytest.mark.parametrize("pointer", ATTACKS)
@pytest.mark.parametrize("path", ["/submit", "/submit/check"])
def test_an_attack_is_a_readable_error_on_the_form(client: TestClient, pointer: str, path: str) -> None:
    spec = json.dumps(attack(pointer))
    response = client.post(path, data={"spec": spec}, headers={"Origin": "http://testserver"})
    assert response.status_code in (200, 422)
    assert response.headers["content-type"].startswith("text/html")
    assert pointer in response.text


def test_a_spec_from_before_is_not_run_again_where_it_is_not_allowed_any_more(client: TestClient, db: Database) -> None:
    spec = parse_experiment(attack("/arms/0/environment/python"))
    queued = queue.enqueue(db, spec).experiment_id
    queue.request_cancel(db, queued)
    assert client.get(f"/v1/experiments/{queued}").status_code == 200
    response = client.post(f"/v1/experiments/{queued}/retry", headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert experiments.get(db, queued).retries == ()


def test_what_the_operator_names_is_taken(settings: Settings, tmp_path: Path) -> None:
    allowed = settings.model_copy(
        update={
            "environments": {"nightly": Path("/opt/nightly/bin/python")},
            "variables": "VLLM_PLUGINS",
            "hub_models": "org/*",
            "remote_code": "org/model",
            "data_roots": str(tmp_path),
        }
    )
    arm = {"environment": {"python": "nightly", "variables": {"VLLM_PLUGINS": "x"}}}
    spec = {
        "model": {"id": "org/model"},
        "engine": {"trust_remote_code": True},
        "workload": {"prompts": {"path": f"{tmp_path}/x.jsonl"}},
        "arms": [{"name": "a", "profile": "vllm-sync"} | arm],
    }
    with TestClient(create_app(allowed)) as client:
        assert client.post("/v1/experiments", json=spec).status_code == 201
        other = spec | {"model": {"id": "evil/model"}}
        assert client.post("/v1/experiments", json=other).status_code == 422


def test_malformed_specs_are_never_the_service_s_fault(client: TestClient) -> None:
    statuses = set()
    for document in malformed(1_000, seed=1):
        content = json.dumps(document, allow_nan=True).encode()
        response = client.post(
            "/v1/experiments?dry_run=true", content=content, headers={"Content-Type": "application/json"}
        )
        statuses.add(response.status_code)
    assert statuses == {200, 422}
