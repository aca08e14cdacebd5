"""python -m app.server."""

import os
import shutil
from pathlib import Path

import pytest

from app.settings import Settings
from app.store import tokens
from app.store.actors import Actor
from app.store.tokens import Scope
from benchmarks.support.service import Service, serving
from tests.support.specs import SPEC


def threads(service: Service) -> dict[int, int]:
    """Every thread's niceness; those that a library has started while it was imported keep their own."""
    ids = [int(path.name) for path in Path(f"/proc/{service.process.pid}/task").iterdir()]
    return {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in ids}


def test_it_gives_way_once_it_serves(migrated_sqlite: Path, tmp_path: Path) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with serving(Settings(data_dir=tmp_path), niceness=3) as service:
        assert service.http.get("/v1/profiles").is_success
        found = threads(service)
    assert found.pop(service.process.pid) == ours + 3
    assert ours + 3 in found.values(), "those that answer"


@pytest.mark.parametrize(("trusted", "source"), [("", "127.0.0.1"), ("127.0.0.1", "203.0.113.9")])
def test_only_a_trusted_proxy_says_who_asks(migrated_sqlite: Path, tmp_path: Path, trusted: str, source: str) -> None:
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with serving(Settings(data_dir=tmp_path, trusted_proxies=trusted)) as service:
        secret = tokens.create(service.db, "anna", Scope.SUBMIT, None, Actor("root"))
        headers = {"Authorization": f"Bearer {secret}", "X-Forwarded-For": "203.0.113.9"}
        queued = service.http.post("/v1/experiments", json=SPEC, headers=headers).json()["id"]
        (event,) = service.http.get(f"/v1/experiments/{queued}/events", headers=headers).json()["items"]
    assert (event["actor"], event["source"]) == ("anna", source)
