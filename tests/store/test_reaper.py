"""When the reaper strikes, and when it waits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from app.errors import DatabaseUnavailable
from app.experiment.lifecycle import Status
from app.store import queue
from app.store.engine import Database
from app.store.reaper import Reaper
from tests.store.helpers import LEASE_S, expire, start, status


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class PatchyDatabase(Database):
    """One that can be away."""

    away = False

    @contextmanager
    def read(self) -> Iterator[Connection]:
        if self.away:
            raise DatabaseUnavailable("away")
        with super().read() as connection:
            yield connection


@pytest.fixture
def db(url: str) -> Iterator[PatchyDatabase]:
    database = PatchyDatabase(url)
    try:
        yield database
    finally:
        database.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reaper(db: PatchyDatabase, clock: Clock) -> Reaper:
    """One that has seen the database for a whole lease."""
    reaper = Reaper(db, LEASE_S, clock)
    assert reaper.reap() == ()
    clock.now += LEASE_S
    return reaper


def test_a_lost_worker_is_found(db: PatchyDatabase, reaper: Reaper) -> None:
    lease = start(db)
    assert reaper.reap() == ()

    expire(db, lease.experiment_id)

    assert reaper.reap() == (lease.experiment_id,)
    assert reaper.reap() == ()


def test_a_new_reaper_waits_for_one_lease(db: PatchyDatabase, clock: Clock) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)
    reaper = Reaper(db, LEASE_S, clock)

    assert reaper.reap() == ()
    clock.now += LEASE_S - 0.1
    assert reaper.reap() == ()
    clock.now += 0.2

    assert reaper.reap() == (lease.experiment_id,)


def test_an_outage_is_not_the_workers_fault(db: PatchyDatabase, clock: Clock, reaper: Reaper) -> None:
    lease = start(db)
    db.away = True
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            reaper.reap()
        clock.now += LEASE_S
    expire(db_again(db), lease.experiment_id)

    assert reaper.reap() == (), "its own return is the first thing it sees"
    clock.now += LEASE_S / 2
    assert reaper.reap() == ()
    queue.beat(db, lease, LEASE_S)
    clock.now += LEASE_S / 2

    assert reaper.reap() == ()
    assert status(db, lease.experiment_id) is Status.RUNNING


def test_a_second_outage_while_it_waits_starts_the_wait_anew(db: PatchyDatabase, clock: Clock, reaper: Reaper) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)
    for _ in range(2):
        db.away = True
        with pytest.raises(DatabaseUnavailable):
            reaper.reap()
        assert db_again(db) is db
        assert reaper.reap() == ()
        clock.now += LEASE_S - 1

    assert reaper.reap() == ()
    clock.now += 1

    assert reaper.reap() == (lease.experiment_id,)


def db_again(db: PatchyDatabase) -> PatchyDatabase:
    """The outage is over."""
    db.away = False
    return db
