"""A service whose worker simulates."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.client import Client
from app.settings import Settings
from benchmarks.gpu.service import Lab
from benchmarks.support.service import serving


@pytest.fixture
def lab(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Lab]:
    """A service that benchmarks.gpu finds running; the test is its worker."""
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    settings = Settings(data_dir=tmp_path)
    with serving(settings) as service, Client(service.url) as client:
        yield Lab(client, service.db, settings)
