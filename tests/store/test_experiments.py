"""Reading experiments."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from app.errors import NotFound
from app.spec.lifecycle import Status
from app.store import backlog, experiments, queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tables import experiments as table
from benchmarks.support.crowd import crowd_in
from tests.support.builders import a_simulated_spec
from tests.support.store import LEASE_S, NOBODY, claim, fail, start, submit

# --- one -----------------------------------------------------------------------------------------------------------


def test_what_does_not_exist_is_not_found(db: Database) -> None:
    with pytest.raises(NotFound, match=NOBODY):
        experiments.get(db, NOBODY)
    with pytest.raises(NotFound, match=NOBODY):
        experiments.get_item(db, NOBODY)
    with pytest.raises(NotFound):
        experiments.get(db, ExperimentId("\0"))
    assert experiments.list_events_after(db, NOBODY) == ()


def test_times_are_aware_and_the_databases_own(db: Database) -> None:
    before = db.now()
    item = experiments.get_item(db, submit(db))
    after = db.now()

    assert item.created_at.tzinfo is UTC
    assert before <= item.created_at <= after
    assert abs(after - datetime.now(UTC)) < timedelta(minutes=1)


def test_every_attempt_is_told(db: Database) -> None:
    lease = start(db, "worker-1")
    queue.hand_back(db, lease, "draining")
    fail(db, claim(db, "worker-2"))

    first, second = experiments.get(db, lease.experiment_id).attempts

    assert (first.attempt, first.owner, first.outcome, first.failure) == (1, "worker-1", Status.QUEUED, None)
    assert (second.attempt, second.owner, second.outcome) == (2, "worker-2", Status.FAILED)
    assert second.failure is not None
    assert second.ended_at is not None
    assert first.ended_at is not None
    assert first.started_at <= first.ended_at <= second.started_at <= second.ended_at


def test_the_etag_changes_with_the_experiment_and_its_place_in_the_queue(db: Database) -> None:
    first, second = submit(db), submit(db)
    etags = [experiments.get(db, second).etag]
    assert experiments.get(db, second).etag == etags[0]

    assert claim(db).experiment_id == first
    etags.append(experiments.get(db, second).etag)
    lease = claim(db)
    etags.append(experiments.get(db, second).etag)
    queue.beat(db, lease, LEASE_S)
    etags.append(experiments.get(db, second).etag)
    queue.request_cancel(db, second)
    etags.append(experiments.get(db, second).etag)
    queue.finish(db, lease, Status.CANCELLED, reason="asked")
    etags.append(experiments.get(db, second).etag)
    queue.retry(db, second)
    etags.append(experiments.get(db, second).etag)

    assert len(set(etags)) == len(etags)


def test_events_go_on_where_the_reader_stopped(db: Database) -> None:
    lease = start(db)
    fail(db, lease)

    everything = experiments.list_events_after(db, lease.experiment_id)

    assert [event.to_status for event in everything] == [Status.QUEUED, Status.RUNNING, Status.FAILED]
    assert [event.attempt for event in everything] == [0, 1, 1]
    assert experiments.list_events_after(db, lease.experiment_id, seq=1) == everything[1:]
    assert experiments.list_events_after(db, lease.experiment_id, seq=3) == ()
    assert experiments.list_events_after(db, lease.experiment_id, seq=2**40) == ()


# --- many ----------------------------------------------------------------------------------------------------------


def test_lists_do_not_load_results() -> None:
    assert not {"results", "spec"} & set(experiments.ITEM_COLUMNS)


def test_the_queue_is_counted(db: Database) -> None:
    assert backlog.oldest_queued_s(db) is None
    first, _ = submit(db), submit(db)
    with db.write() as connection:
        an_hour_ago = db.now() - timedelta(hours=1)
        connection.execute(update(table).where(table.c.id == first).values(queued_at=an_hour_ago))

    waited = backlog.oldest_queued_s(db)
    assert waited is not None
    assert 3600 <= waited < 3700
    assert claim(db).experiment_id == first
    assert experiments.counts(db) == {
        Status.QUEUED: 1,
        Status.RUNNING: 1,
        Status.SUCCEEDED: 0,
        Status.FAILED: 0,
        Status.CANCELLED: 0,
    }


def test_a_spec_survives_storage_with_every_distinction(db: Database) -> None:
    spec = a_simulated_spec(engine={"max_num_seqs": None, "dtype": "auto"}, workload={"sampling": {}})

    stored = experiments.get(db, queue.enqueue(db, spec).experiment_id).spec

    assert stored == spec
    assert stored.model_dump(exclude_unset=True) == spec.model_dump(exclude_unset=True)


def test_places_far_behind_are_not_told_apart(db: Database) -> None:
    crowd_in(db, experiments.LAST_PLACE + 50)
    last = submit(db, limits={"priority": -1})
    in_sight = submit(db, limits={"priority": 100})

    assert experiments.get(db, in_sight).queue_position == 1
    assert experiments.get(db, last).queue_position == experiments.LAST_PLACE + 1
