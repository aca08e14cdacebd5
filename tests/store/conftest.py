"""Every test of the store runs on SQLite and on Postgres, each time in a database of its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store.database import Database
from benchmarks.support.databases import Postgres, opened, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A Postgres server."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A migrated Postgres database."""
    with postgres.migrated() as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy from."""
    path = tmp_path_factory.mktemp("template") / "rollout-lab.sqlite"
    with opened(f"sqlite:///{path}") as db:
        db.upgrade()
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database."""
    path = tmp_path / "rollout-lab.sqlite"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A migrated database."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """A migrated database, open."""
    with opened(url) as database:
        yield database


@pytest.fixture
def sqlite_db(sqlite_url: str) -> Iterator[Database]:
    """For what is true of SQLite only."""
    with opened(sqlite_url) as database:
        yield database


@pytest.fixture
def postgres_db(postgres_url: str) -> Iterator[Database]:
    """For what is true of Postgres only."""
    with opened(postgres_url) as database:
        yield database
