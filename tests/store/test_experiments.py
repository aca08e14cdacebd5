"""Reading experiments."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from app.errors import InvalidInput, NotFound
from app.spec.lifecycle import Status
from app.store import backlog, experiments, queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tables import experiments as table
from benchmarks.support.crowd import crowd_in
from tests.support.builders import a_simulated_spec
from tests.support.store import LEASE_S, NOBODY, claim, fail, start, submit


def ids(page: experiments.ExperimentPage) -> list[ExperimentId]:
    return [item.id for item in page.items]


def all_pages(db: Database, limit: int) -> list[ExperimentId]:
    """Follow the cursors to the end."""
    page = experiments.page(db, limit=limit)
    found = ids(page)
    while page.next_cursor is not None:
        page = experiments.page(db, limit=limit, cursor=page.next_cursor)
        found += ids(page)
    return found


# --- one -----------------------------------------------------------------------------------------------------------


def test_what_does_not_exist_is_not_found(db: Database) -> None:
    with pytest.raises(NotFound, match=NOBODY):
        experiments.get(db, NOBODY)
    with pytest.raises(NotFound, match=NOBODY):
        experiments.get_item(db, NOBODY)
    with pytest.raises(NotFound):
        experiments.get(db, ExperimentId("\0"))
    assert experiments.events_after(db, NOBODY) == ()


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

    everything = experiments.events_after(db, lease.experiment_id)

    assert [event.to_status for event in everything] == [Status.QUEUED, Status.RUNNING, Status.FAILED]
    assert [event.attempt for event in everything] == [0, 1, 1]
    assert experiments.events_after(db, lease.experiment_id, seq=1) == everything[1:]
    assert experiments.events_after(db, lease.experiment_id, seq=3) == ()
    assert experiments.events_after(db, lease.experiment_id, seq=2**40) == ()


# --- many ----------------------------------------------------------------------------------------------------------


def test_pages_are_newest_first_and_lose_nothing(db: Database) -> None:
    queued = [submit(db) for _ in range(7)]

    with db.write() as connection:
        for minute, experiment_id in enumerate(queued):
            at = db.now() + timedelta(minutes=minute)
            connection.execute(update(table).where(table.c.id == experiment_id).values(created_at=at))

    assert all_pages(db, limit=3) == list(reversed(queued))
    assert experiments.page(db, limit=7).next_cursor is None


def test_equal_times_neither_repeat_nor_hide_anything(db: Database) -> None:
    queued = [submit(db) for _ in range(9)]
    with db.write() as connection:
        connection.execute(update(table).values(created_at=db.now()))

    for limit in (1, 2, 4):
        assert all_pages(db, limit) == sorted(queued, reverse=True)


def test_a_new_experiment_does_not_shift_the_next_page(db: Database) -> None:
    for _ in range(4):
        submit(db)
    first = experiments.page(db, limit=2)
    expected = ids(experiments.page(db, limit=2, cursor=first.next_cursor))

    submit(db)

    assert ids(experiments.page(db, limit=2, cursor=first.next_cursor)) == expected


def test_filters_narrow_the_list(db: Database) -> None:
    nightly = submit(db, name="Nightly 100% run", labels={"suite": "nightly", "team": "rl"})
    demo = submit(db, name="demo_run", labels={"suite": "demo", "team": "rl"}, model={"id": "Qwen/Qwen2.5-7B"})
    with db.write() as connection:
        connection.execute(update(table).where(table.c.id == demo).values(verdict="inconclusive same"))
    assert claim(db).experiment_id == nightly

    assert ids(experiments.page(db, labels={"suite": "nightly"})) == [nightly]
    assert sorted(ids(experiments.page(db, labels={"team": "rl"}))) == sorted([nightly, demo])
    assert ids(experiments.page(db, labels={"team": "rl", "suite": "demo"})) == [demo]
    assert ids(experiments.page(db, labels={"suite": "nightly", "team": "x"})) == []
    assert ids(experiments.page(db, status=[Status.RUNNING])) == [nightly]
    assert len(ids(experiments.page(db, status=[Status.RUNNING, Status.QUEUED]))) == 2
    assert ids(experiments.page(db, model="Qwen/Qwen2.5-7B")) == [demo]
    assert ids(experiments.page(db, verdict="same")) == ids(experiments.page(db, verdict="inconclusive")) == [demo]
    assert experiments.get_item(db, demo).verdict == "inconclusive"
    assert ids(experiments.page(db, verdict="sam")) == []
    assert ids(experiments.page(db, name="NIGHTLY")) == [nightly]
    assert ids(experiments.page(db, name="100%")) == [nightly]
    assert ids(experiments.page(db, name="o_r")) == [demo], "an underscore is an underscore"
    assert ids(experiments.page(db, name="\0")) == []


def test_filters_and_cursors_work_together(db: Database) -> None:
    nightly = [submit(db, labels={"suite": "nightly"}) for _ in range(3)]
    submit(db)

    first = experiments.page(db, labels={"suite": "nightly"}, limit=2)
    second = experiments.page(db, labels={"suite": "nightly"}, limit=2, cursor=first.next_cursor)

    assert sorted(ids(first) + ids(second)) == sorted(nightly)
    assert second.next_cursor is None


@pytest.mark.parametrize(
    "document",
    [b"", b"nonsense", b"[]", b'["2026-01-01T00:00:00"]', b'["2026-01-01T00:00:00", "x"]', b"[1, 2]", b"{}", b"\xff"],
)
def test_a_cursor_that_is_none_is_refused(db: Database, document: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        experiments.page(db, cursor=base64.urlsafe_b64encode(document).decode())

    assert [error.pointer for error in refused.value.errors] == ["/cursor"]


@pytest.mark.parametrize("cursor", ["!", "€", "a", "\0", "ab cd"])
def test_a_cursor_that_is_not_even_base64_is_refused(db: Database, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        experiments.page(db, cursor=cursor)


def test_a_cursor_from_the_edge_of_time_is_harmless(db: Database) -> None:
    submit(db)
    last = base64.urlsafe_b64encode(json.dumps(["9999-12-31T23:59:59+00:00", "\0"]).encode()).decode()

    assert len(experiments.page(db, cursor=last).items) == 1


def test_lists_do_not_load_results() -> None:
    assert not {"results", "spec"} & set(experiments._ITEM_COLUMNS)


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
