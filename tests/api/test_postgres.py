"""The same on Postgres."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database
from benchmarks.support.databases import Postgres
from tests.support.specs import SPEC
from tests.support.work import work_off

HERE = "/v1/experiments"


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A migrated Postgres database."""
    with postgres.migrated() as found:
        yield found


def test_an_experiment_goes_its_way(url: str, tmp_path: Path) -> None:
    db = Database(url)
    with TestClient(create_app(Settings(data_dir=tmp_path, database_url=url))) as client:
        created = client.post(HERE, json=SPEC, headers={"Idempotency-Key": "x"}).json()
        assert client.post(HERE, json=SPEC, headers={"Idempotency-Key": "x"}).json()["id"] == created["id"]
        work_off(db)
        here = created["links"]["self"]
        assert client.get(here).json()["verdict"] == "slower"
        assert client.get(f"{here}/results").json()["complete"] is True
        assert len(client.get(f"{here}/requests").json()["items"]) == 48
        assert len(client.get(f"{here}/requests?format=parquet").content) > 1000
        assert [e["to_status"] for e in client.get(f"{here}/events").json()["items"]] == [
            "queued",
            "running",
            "succeeded",
        ]
        assert client.get(HERE, params={"label": "suite:nightly", "status": "succeeded"}).json()["items"]
        assert client.get("/readyz").json()["database"]["ok"] is True
        assert 'rollout_lab_experiments{status="succeeded"} 1.0' in client.get("/metrics").text
        estimate = client.post(HERE, params={"dry_run": True}, json=SPEC).json()["cost"]
        assert estimate["based_on"] == created["id"]
    db.dispose()
