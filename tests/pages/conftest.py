"""A laboratory behind the real application, in this process and as one of its own; and a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database
from benchmarks.support.service import Service, serving
from tests.support.browser import launch
from tests.support.stories import LEASE_S, Lab, a_lab


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a service whose database is migrated."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("pages"), lease_s=LEASE_S)
    db = Database(settings.url)
    db.upgrade()
    db.dispose()
    return settings


@pytest.fixture(scope="session")
def db(settings: Settings) -> Iterator[Database]:
    """The service's database, as a worker sees it."""
    database = Database(settings.url)
    yield database
    database.dispose()


@pytest.fixture(scope="session")
def lab(db: Database) -> Lab:
    """Experiments of every kind; tests that change them make their own."""
    return a_lab(db)


@pytest.fixture(scope="session")
def client(settings: Settings, lab: Lab) -> Iterator[TestClient]:
    """A client of the application in this process."""
    del lab
    with TestClient(create_app(settings)) as found:
        yield found


@pytest.fixture(scope="session")
def service(settings: Settings, lab: Lab) -> Iterator[Service]:
    """The application as a process of its own."""
    del lab
    with serving(settings) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()
