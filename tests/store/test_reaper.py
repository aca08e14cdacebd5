"""When the reaper strikes, and when it waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Connection

from app.errors import DatabaseUnavailable
from app.spec.lifecycle import Status
from app.store import queue
from app.store.database import Database
from app.store.reaper import Reaper
from tests.support.store import LEASE_S, expire, start, status


class PatchyDatabase(Database):
    """One that can be away, and whose clock does what it is told."""

    away = False
    ahead = timedelta(0)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        if self.away:
            raise DatabaseUnavailable("away")
        with super().read() as connection:
            yield connection

    def now(self) -> datetime:
        return super().now() + self.ahead


@pytest.fixture
def db(url: str) -> Iterator[PatchyDatabase]:
    database = PatchyDatabase(url)
    try:
        yield database
    finally:
        database.dispose()


def a_lease_passes(db: PatchyDatabase, reaper: Reaper) -> list[str]:
    """Time goes by as it does in service: the reaper is called several times per lease."""
    reaped: list[str] = []
    for _ in range(4):
        reaped += reaper.reap()
        db.ahead += timedelta(seconds=LEASE_S / 4)
    return reaped


@pytest.fixture
def reaper(db: PatchyDatabase) -> Reaper:
    """One that has watched for a whole lease."""
    reaper = Reaper(db, LEASE_S)
    assert a_lease_passes(db, reaper) == []
    return reaper


def test_a_lost_worker_is_found_once(db: PatchyDatabase, reaper: Reaper) -> None:
    lease = start(db)
    assert reaper.reap() == ()

    expire(db, lease.experiment_id)

    assert reaper.reap() == (lease.experiment_id,)
    assert reaper.reap() == ()


def test_a_new_reaper_waits_for_one_lease(db: PatchyDatabase) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)
    reaper = Reaper(db, LEASE_S)

    assert a_lease_passes(db, reaper) == []
    assert reaper.reap() == (lease.experiment_id,)


def test_an_outage_is_not_the_workers_fault(db: PatchyDatabase, reaper: Reaper) -> None:
    lease = start(db)
    db.away = True
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            reaper.reap()
    db.away = False
    expire(db, lease.experiment_id)

    assert a_lease_passes(db, reaper) == []
    queue.beat(db, lease, LEASE_S)

    assert reaper.reap() == ()
    assert status(db, lease.experiment_id) is Status.RUNNING


def test_an_outage_while_it_waits_starts_the_wait_anew(db: PatchyDatabase, reaper: Reaper) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)
    for _ in range(2):
        db.away = True
        with pytest.raises(DatabaseUnavailable):
            reaper.reap()
        db.away = False
        assert a_lease_passes(db, reaper) == []

    assert reaper.reap() == (lease.experiment_id,)


@pytest.mark.parametrize("jump_s", [LEASE_S + 1, 8 * 3600, -3600])
def test_a_host_that_slept_or_whose_clock_was_set_is_not_the_workers_fault(
    db: PatchyDatabase, reaper: Reaper, jump_s: float
) -> None:
    lease = start(db)
    assert reaper.reap() == ()
    db.ahead += timedelta(seconds=jump_s)
    expire(db, lease.experiment_id)

    assert a_lease_passes(db, reaper) == []
    assert reaper.reap() == (lease.experiment_id,)


def test_leases_shorter_than_the_pause_between_calls_are_reaped_too(db: PatchyDatabase) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)
    reaper = Reaper(db, 1.0)

    assert reaper.reap() == ()
    db.ahead += timedelta(seconds=2)

    assert reaper.reap() == (lease.experiment_id,)
