"""What API and pages both do with a spec."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import IdempotencyMismatch, InvalidInput
from app.service import intake
from app.service.access import Caller
from app.settings import Settings
from app.store import catalogue, experiments, queue
from app.store.database import Database
from app.store.tokens import Scope

ANNA, BERT = (Caller(name, Scope.SUBMIT, "127.0.0.1") for name in ("anna", "bert"))
HUB: dict[str, Any] = {"model": {"id": "somebody/model"}, "arms": [{"name": "sync", "profile": "vllm-sync"}]}
TINY = HUB | {"model": {"preset": "tiny-qwen2"}}
NO_HUB = Settings(hub_models="")


@pytest.fixture
def db(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copyfile(migrated_sqlite, tmp_path / "lab.sqlite")
    database = Database(f"sqlite:///{tmp_path / 'lab.sqlite'}")
    yield database
    database.dispose()


def test_a_preview_says_what_will_run_and_queues_nothing(db: Database) -> None:
    found = intake.preview(db, intake.read_spec(TINY | {"plan": {"blocks": 3}}, Settings()))
    assert found.plan.order == "AAA"
    assert found.cost.trials == 3
    assert found.resolved.baseline == "sync"
    assert catalogue.page(db, limit=5).items == ()


def test_what_the_operator_does_not_allow_is_refused_when_read_and_when_retried(db: Database) -> None:
    with pytest.raises(InvalidInput):
        intake.read_spec(HUB, NO_HUB)
    queued = intake.submit(db, intake.read_spec(HUB, Settings()), Settings(), ANNA, None).experiment_id
    queue.request_cancel(db, queued)
    with pytest.raises(InvalidInput):
        intake.retry(db, queued, NO_HUB, ANNA)
    again = intake.retry(db, queued, Settings(), ANNA).experiment_id
    assert experiments.get_item(db, again).retry_of == queued


def test_a_key_queues_once_for_each_who_uses_it(db: Database) -> None:
    spec = intake.read_spec(TINY, Settings())
    first = intake.submit(db, spec, Settings(), ANNA, "nightly")
    assert intake.submit(db, spec, Settings(), ANNA, "nightly").experiment_id == first.experiment_id
    assert intake.submit(db, spec, Settings(), BERT, "nightly").created
    with pytest.raises(IdempotencyMismatch):
        intake.submit(db, intake.read_spec(TINY | {"name": "other"}, Settings()), Settings(), ANNA, "nightly")
