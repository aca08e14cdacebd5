"""What another version of this project left in the database."""

from typing import Any

import pytest
from sqlalchemy import update

from app.errors import FailureCode, UnreadableSpec
from app.spec.lifecycle import Current, Progress, Step
from app.store import catalogue, experiments, queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tables import attempts
from app.store.tables import experiments as table
from tests.support.store import LEASE_S, fail, start, submit

PROGRESS = Progress(step=Step.MEASURING, trials_done=3, trials_total=12, current=Current(arm="sync", block=1))


def rewrite(db: Database, experiment_id: ExperimentId, **columns: Any) -> None:
    with db.write() as connection:
        connection.execute(update(table).where(table.c.id == experiment_id).values(columns))


@pytest.mark.parametrize(
    "progress",
    [
        PROGRESS.model_dump(mode="json") | {"tokens_done": 5},
        PROGRESS.model_dump(mode="json") | {"step": "cooling_down"},
        {"done": 3, "of": 12},
        {},
        [3, 12],
    ],
    ids=["newer key", "newer step", "older keys", "nothing", "another shape"],
)
def test_progress_of_another_version_is_none(db: Database, progress: Any) -> None:
    lease = start(db)
    queue.beat(db, lease, LEASE_S, PROGRESS)
    assert experiments.get_item(db, lease.experiment_id).progress == PROGRESS
    rewrite(db, lease.experiment_id, progress=progress)

    assert experiments.get_item(db, lease.experiment_id).progress is None
    assert experiments.get(db, lease.experiment_id).item.progress is None
    assert [item.progress for item in catalogue.page(db).items] == [None]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ({"code": "gpu_on_fire", "detail": "smoke"}, "smoke"),
        ({"code": "engine_died", "detail": "gone", "rank": 3}, "gone"),
        ({"reason": "unknown"}, '{"reason": "unknown"}'),
    ],
)
def test_a_failure_of_another_version_keeps_its_words(db: Database, failure: dict[str, Any], said: str) -> None:
    lease = start(db)
    fail(db, lease)
    rewrite(db, lease.experiment_id, failure=failure)
    with db.write() as connection:
        connection.execute(update(attempts).values(failure=failure, continuation={"kept": "another way"}))

    row = experiments.get(db, lease.experiment_id)
    for found in (row.item.failure, row.attempts[0].failure):
        assert found is not None
        assert (found.code, found.detail) == (FailureCode.INTERNAL, said)
    assert row.attempts[0].continuation is None


def test_a_spec_of_another_version_is_refused_by_name(db: Database) -> None:
    found = submit(db)
    spec = experiments.get(db, found).submitted
    rewrite(db, found, spec=spec | {"plan": {"blocks": "many"}} | {f"moon_{index}": 1 for index in range(6)})

    with pytest.raises(UnreadableSpec, match=rf"{found} .* 7 of its fields: moon_0, .*, moon_4 and 2 more"):
        experiments.get(db, found)
    assert experiments.queue_position(db, found) == 1
    assert experiments.get_item(db, found).id == found


def test_what_does_not_wait_has_no_place_in_the_queue(db: Database) -> None:
    assert experiments.queue_position(db, start(db).experiment_id) is None
    assert experiments.queue_position(db, ExperimentId("0" * 16)) is None
    assert [experiments.queue_position(db, submit(db)) for _ in range(2)] == [1, 2]
