"""What all tests share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from app.settings import Settings
from app.store.database import Database
from benchmarks.support.service import Service, serving

# The first example fills caches; on a busy machine that alone can take longer than hypothesis's 200 ms.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# starlette's client calls the application `testserver`, and has no token.
os.environ |= {"ROLLOUT_LAB_ALLOWED_HOSTS": "testserver", "ROLLOUT_LAB_ANONYMOUS": "admin"}


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


@pytest.fixture(scope="session")
def service(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The API as a process of its own; tests that use it must not mind each other's experiments."""
    directory = tmp_path_factory.mktemp("service")
    shutil.copyfile(migrated_sqlite, directory / "rollout-lab.sqlite")
    with serving(Settings(data_dir=directory, max_body_bytes=1 << 20)) as found:
        yield found
