"""Catalogue, workers, health, metrics."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store import workers
from app.store.database import Database
from app.version import VERSION
from tests.support.specs import SPEC
from tests.support.work import claim


def announce(db: Database, worker: str = "gpu-7:1") -> None:
    nodes = [{"host": "gpu-7", "cpus": 16.0, "gpus": 1.0}]
    workers.announce(db, worker, host="gpu-7", pid=1, info={"nodes": nodes, "versions": {"vllm": "0.25.1"}})


def test_profiles_say_what_they_set(client: TestClient) -> None:
    found = {profile["name"]: profile for profile in client.get("/v1/profiles").json()["items"]}
    assert found["vllm-sync"]["driver"]["api"] == "llm"
    assert found["vllm-async"]["driver"]["output_kind"] == "final_only"


def test_models_say_whether_they_take_text(client: TestClient) -> None:
    found = {model["name"]: model["has_tokenizer"] for model in client.get("/v1/models").json()["items"]}
    assert found["tiny-qwen2"] is True


def test_workers_are_listed_with_what_they_do(client: TestClient, db: Database) -> None:
    assert client.get("/v1/workers").json() == {"items": [], "next_cursor": None}
    announce(db)
    (found,) = client.get("/v1/workers").json()["items"]
    assert (found["id"], found["host"], found["liveness"], found["experiment_id"]) == (
        "gpu-7:1",
        "gpu-7",
        "alive",
        None,
    )
    assert found["info"]["versions"] == {"vllm": "0.25.1"}


def test_a_worker_without_a_word_for_a_lease_is_silent(settings: Settings, db: Database) -> None:
    announce(db)
    with TestClient(create_app(settings.model_copy(update={"lease_s": 1e-6}))) as client:
        assert client.get("/v1/workers").json()["items"][0]["liveness"] == "silent"
        assert client.get("/readyz").json()["status"] == "degraded"


def test_being_alive_needs_nothing(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none"))
    with TestClient(app) as client:
        assert client.get("/healthz").json() == {"status": "alive", "version": VERSION}


def test_ready_needs_a_database_a_worker_and_ray(client: TestClient, db: Database) -> None:
    alone = client.get("/readyz")
    assert alone.status_code == 200
    assert alone.json()["status"] == "degraded"
    assert alone.json()["database"]["ok"] is True
    assert alone.json()["workers"] == {
        "ok": False,
        "detail": "no worker has been heard of within a lease",
        "reported": None,
    }
    announce(db)
    ready = client.get("/readyz").json()
    assert ready["status"] == "ready"
    assert ready["ray"]["detail"] == "1 node, as the workers report"
    assert ready["ray"]["reported"] == [{"host": "gpu-7", "cpus": 16.0, "gpus": 1.0}]


def test_a_worker_without_ray_is_not_enough(client: TestClient, db: Database) -> None:
    workers.announce(db, "gpu-7:1", host="gpu-7", pid=1, info={})
    found = client.get("/readyz").json()
    assert (found["status"], found["ray"]["detail"]) == ("degraded", "gpu-7:1: reports no node")


def test_a_worker_that_has_lost_ray_says_so(client: TestClient, db: Database) -> None:
    announce(db)
    assert client.get("/readyz").json()["status"] == "ready"
    lost = {"nodes": [], "trouble": "Ray's raylet (pid 7) is gone"}
    workers.heartbeat(db, "gpu-7:1", experiment_id=None, info=lost)
    found = client.get("/readyz")
    assert found.status_code == 200
    assert (found.json()["status"], found.json()["workers"]["ok"], found.json()["ray"]["ok"]) == (
        "degraded",
        True,
        False,
    )
    assert found.json()["ray"]["detail"] == "gpu-7:1: Ray's raylet (pid 7) is gone"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+psycopg://nobody@127.0.0.1:1/none", "connection"),
        ("sqlite:///{directory}/empty.sqlite", "the database is not migrated"),
    ],
)
def test_without_a_usable_database_nothing_is_ready(tmp_path: Path, url: str, said: str) -> None:
    app = create_app(Settings(data_dir=tmp_path, database_url=url.format(directory=tmp_path)))
    with TestClient(app) as client:
        response = client.get("/readyz")
    assert response.status_code == 503
    found = response.json()
    assert found["status"] == "unavailable"
    assert said in found["database"]["detail"]
    assert found["workers"]["detail"] == "unknown without the database"


@pytest.mark.parametrize("path", ["/v1/experiments", "/v1/workers", "/v1/experiments/nobody"])
def test_a_database_that_is_not_migrated_is_no_error_of_the_service(tmp_path: Path, path: str) -> None:
    app = create_app(Settings(data_dir=tmp_path, database_url=f"sqlite:///{tmp_path}/empty.sqlite"))
    with TestClient(app) as client:
        answers = client.get(path), client.post("/v1/experiments", json=SPEC)
    for response in answers:
        assert response.status_code == 503
        assert response.json()["type"] == "/v1/problems/database-unavailable"
        assert "run `rollout-lab db upgrade`" in response.json()["detail"]


def test_metrics_count_experiments_and_requests(client: TestClient, db: Database) -> None:
    for _ in range(3):
        client.post("/v1/experiments", json=SPEC)
    claim(db)
    client.get("/v1/experiments/nobody")
    lines = client.get("/metrics").text.splitlines()
    assert 'rollout_lab_experiments{status="queued"} 2.0' in lines
    assert 'rollout_lab_experiments{status="running"} 1.0' in lines
    assert "rollout_lab_database_up 1.0" in lines
    oldest = next(line for line in lines if line.startswith("rollout_lab_oldest_queued_seconds "))
    assert 0 < float(oldest.split()[1]) < 60
    latency = 'rollout_lab_http_request_seconds_count{method="%s",route="%s",status="%s"} %s'
    assert latency % ("POST", "/v1/experiments", "201", "3.0") in lines
    assert latency % ("GET", "/v1/experiments/{experiment_id}", "404", "1.0") in lines


def test_metrics_of_a_lost_database_do_not_look_like_an_empty_queue(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none"))
    with TestClient(app) as client:
        text = client.get("/metrics").text
    assert "rollout_lab_database_up 0.0" in text
    assert "rollout_lab_experiments" not in text
