"""Secrets that a service, its worker and its users hold, looked for in everything that is written and shown."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url, select

from app.http.admission import SESSION_COOKIE
from app.redaction import HIDDEN
from app.settings import Settings
from app.store import tokens, workers
from app.store.actors import Actor
from app.store.tables import metadata
from app.store.tokens import Scope
from benchmarks.support.databases import opened, running_postgres
from benchmarks.support.service import Service, serving
from tests.support.specs import a_spec
from tests.support.work import work_off

HUB_TOKEN = "planted-hub-token"  # noqa: S105 - what is looked for
DATABASE_PASSWORD = "planted-database-password"  # noqa: S105 - what is looked for
VIEWS = ("", "/results", "/events", "/requests", "/timeline", "/export?format=markdown")
PAGES = ("", "/report.html", "/findings", "/live")


@dataclass(frozen=True)
class Used:
    """A service through which an experiment has gone, and the secrets that were near."""

    service: Service
    token: str
    experiment: str

    @property
    def secrets(self) -> list[str]:
        return [HUB_TOKEN, DATABASE_PASSWORD, self.token]

    def told_by(self, text: str) -> list[str]:
        return [secret for secret in self.secrets if secret in text]

    def ask(self, path: str) -> str:
        response = self.service.http.get(path, headers={"Authorization": f"Bearer {self.token}"})
        assert response.status_code == 200, (path, response.text[:300])
        return str(response.headers) + response.text


@contextmanager
def a_url(kind: str, directory: Path, migrated_sqlite: Path) -> Iterator[str]:
    """Of a database; Postgres's has a password, which a server that trusts its own machine lets pass."""
    if kind == "sqlite":
        shutil.copyfile(migrated_sqlite, directory / "rollout-lab.sqlite")
        yield Settings(data_dir=directory).url
        return
    with running_postgres() as server, server.migrated() as url:
        yield make_url(url).set(password=DATABASE_PASSWORD).render_as_string(hide_password=False)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def used(
    request: pytest.FixtureRequest, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Used]:
    """One that has taken, run and shown an experiment, and was told its token where none belongs."""
    directory = tmp_path_factory.mktemp("used")
    with pytest.MonkeyPatch.context() as patch, a_url(request.param, directory, migrated_sqlite) as url:
        patch.setenv("HF_TOKEN", HUB_TOKEN)  # the service's and, as the work is done in this process, the worker's
        with opened(url) as db:
            token = tokens.create(db, "anna", Scope.ADMIN, None, Actor("root", "here"))
            workers.announce(db, "here", host=socket.gethostname(), pid=1, info={})  # or /readyz says 503
        with serving(Settings(data_dir=directory, database_url=url)) as service:
            spec = a_spec(plan={"blocks": 2, "warmup_trials": 0})
            spec["arms"][0]["environment"] = {"variables": {"OMP_NUM_THREADS": "${HF_TOKEN}"}}
            bearer = {"Authorization": f"Bearer {token}"}
            refused = service.http.post("/v1/experiments", json=spec, headers=bearer)
            assert refused.status_code == 422, refused.text
            del spec["arms"][0]["environment"]
            answer = service.http.post("/v1/experiments", json=spec, headers=bearer)
            assert answer.status_code == 201, answer.text
            misplace(service, token)
            assert work_off(service.db) == answer.json()["id"]
            yield Used(service, token, answer.json()["id"])


def misplace(service: Service, token: str) -> None:
    """Send a token in every place but the right one."""
    own = {"Origin": service.url}
    service.http.get("/v1/experiments", params={"token": token})
    service.http.get(f"/v1/experiments/{token}")
    service.http.get("/v1/profiles", headers={"X-Request-ID": token})
    service.http.get("/v1/profiles", headers={"Cookie": f"{SESSION_COOKIE}={token}"})
    service.http.get("/v1/profiles", auth=("anna", token))
    service.http.post("/login", params={"then": f"/{token}"}, data={"token": token + "x"}, headers=own)
    service.http.post("/v1/experiments", content=token, headers={"Authorization": f"Bearer {token}"})


def test_nothing_that_is_asked_for_tells_a_secret(used: Used) -> None:
    paths = [f"/v1/experiments/{used.experiment}{view}" for view in VIEWS]
    paths += [f"/experiments/{used.experiment}{page}" for page in PAGES]
    paths += ["/healthz", "/readyz", "/metrics", "/v1/experiments", "/v1/workers", "/", "/workers"]
    assert {path: told for path in paths if (told := used.told_by(used.ask(path)))} == {}


def test_no_row_and_no_file_holds_a_secret(used: Used) -> None:
    with used.service.db.read() as connection:
        rows = {
            table.name: "\n".join(str(tuple(row)) for row in connection.execute(select(table)))
            for table in metadata.sorted_tables
        }
    assert used.experiment in rows["experiments"]
    assert {name: told for name, text in rows.items() if (told := used.told_by(text))} == {}
    files = [path for path in used.service.log.parent.rglob("*") if path.is_file()]
    assert used.service.log in files
    held = {path.name: used.told_by(path.read_bytes().decode("latin-1")) for path in files}
    assert not any(held.values()), held


def test_the_log_tells_what_was_done_and_no_secret(used: Used) -> None:
    log = used.service.log.read_text()
    assert used.experiment in log
    assert HIDDEN in log  # a token stood in a path, and is not left standing
    assert used.told_by(log) == []


def test_a_database_that_cannot_be_reached_is_not_named_with_its_password(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"postgresql+psycopg://lab:{DATABASE_PASSWORD}@127.0.0.1:{port}/lab"
    with serving(Settings(data_dir=tmp_path, database_url=url)) as service:
        answers = [httpx.get(service.url + path, timeout=60.0) for path in ("/readyz", "/v1/profiles", "/", "/metrics")]
        told = [answer.text for answer in answers] + [service.log.read_text()]
    assert answers[0].status_code == 503
    assert str(port) in told[-1]
    assert not any(DATABASE_PASSWORD in text for text in told)
