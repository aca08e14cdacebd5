"""An API and pages on a database that another version has written to."""

from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from app.store import experiments, queue
from app.store.database import Database
from app.store.tables import experiments as table
from tests.support.builders import a_simulated_spec
from tests.support.specs import SPEC
from tests.support.work import claim, work_off

HERE = "/v1/experiments"


def rewrite(db: Database, **columns: Any) -> None:
    with db.write() as connection:
        connection.execute(update(table).values(columns))


def test_progress_of_another_version_breaks_no_list_and_no_view(client: TestClient, db: Database) -> None:
    queue.enqueue(db, a_simulated_spec(name="running"))
    experiment = claim(db).lease.experiment_id
    rewrite(db, progress={"step": "cooling_down", "done": 3})

    assert [item["progress"] for item in client.get(HERE).json()["items"]] == [None]
    assert client.get(f"{HERE}/{experiment}").json()["progress"] is None
    for page in ("/", f"/experiments/{experiment}", f"/experiments/{experiment}/live"):
        found = client.get(page)
        assert found.status_code == 200
        assert "running" in found.text


def test_a_failure_of_another_version_is_told_in_its_words(client: TestClient, db: Database) -> None:
    queue.enqueue(db, a_simulated_spec(name="burnt"))
    experiment = work_off(db)
    rewrite(db, status="failed", failure={"code": "gpu_on_fire", "detail": "smoke everywhere"})

    assert client.get(f"{HERE}/{experiment}").json()["error"]["detail"] == "smoke everywhere"
    assert client.get("/").status_code == 200
    assert "smoke everywhere" in client.get(f"/experiments/{experiment}").text


@pytest.mark.parametrize("part", ["", "/results", "/events", "/requests", "/timeline", "/export?format=junit"])
def test_a_spec_of_another_version_is_said_to_be_one(client: TestClient, db: Database, part: str) -> None:
    experiment = queue.enqueue(db, a_simulated_spec(name="strange")).experiment_id
    rewrite(db, spec={"arms": "of another kind"})

    found = client.get(f"{HERE}/{experiment}{part}")
    assert found.status_code == 409
    assert found.json()["type"] == "/v1/problems/unreadable-spec"
    assert "cannot read 2 of its fields: arms, model" in found.json()["detail"]


def test_a_spec_of_another_version_is_not_cancelled_either(client: TestClient, db: Database) -> None:
    experiment = queue.enqueue(db, a_simulated_spec(name="strange")).experiment_id
    rewrite(db, spec={"arms": "of another kind"})

    assert client.post(f"{HERE}/{experiment}/cancel").status_code == 409
    assert experiments.get_item(db, experiment).status == "queued"


def test_a_spec_of_another_version_is_listed_and_spares_the_others(client: TestClient, db: Database) -> None:
    queue.enqueue(db, a_simulated_spec(name="strange"))
    work_off(db)
    queue.enqueue(db, a_simulated_spec(name="waits"))
    rewrite(db, spec={"arms": "of another kind"})

    assert [item["name"] for item in client.get(HERE).json()["items"]] == ["waits", "strange"]
    page = client.get("/")
    assert page.status_code == 200
    assert "place 1" in page.text
    assert client.post(HERE, params={"dry_run": True}, json=SPEC).json()["cost"]["estimated_s"] is None
