"""The real application on a real database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.engine import Database
from tests.live import Service, serving
from tests.store.postgres import Postgres, running_postgres


@pytest.fixture(scope="session", autouse=True)
def _plain_log() -> None:
    """structlog's default paints tracebacks with the value of every variable, which takes seconds."""
    structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()])


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy from."""
    path = tmp_path_factory.mktemp("migrated") / "rollout-lab.sqlite"
    db = Database(f"sqlite:///{path}")
    db.upgrade()
    db.dispose()
    return path


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


@pytest.fixture(scope="session")
def service(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The API as a process of its own; tests that use it must not mind each other's experiments."""
    directory = tmp_path_factory.mktemp("service")
    shutil.copyfile(migrated_sqlite, directory / "rollout-lab.sqlite")
    with serving(Settings(data_dir=directory, max_body_bytes=1 << 20)) as found:
        yield found
