"""The real application on a real database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database
from benchmarks.support.databases import Postgres, running_postgres


@pytest.fixture
def settings(migrated_sqlite: Path, tmp_path: Path) -> Settings:
    """Settings of a service with an empty SQLite database of its own."""
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    return Settings(data_dir=tmp_path, lease_s=30.0)


@pytest.fixture
def db(settings: Settings) -> Iterator[Database]:
    """The service's database, as a worker sees it."""
    database = Database(settings.url)
    yield database
    database.dispose()


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """A client of the running application."""
    with TestClient(create_app(settings)) as found:
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A Postgres server."""
    with running_postgres() as server:
        yield server
