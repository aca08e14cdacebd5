"""The statements that run all day stay cheap, however much is stored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from app.store import catalogue, queue
from app.store.catalogue import Order, Sort
from app.store.database import Database
from benchmarks.support.crowd import crowd_in
from benchmarks.support.databases import opened
from tests.support.store import LEASE_S

QUEUED = 100_000


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """One crowded database for all these tests."""
    if request.param == "sqlite":
        path = request.getfixturevalue("tmp_path_factory").mktemp("crowd") / "rollout-lab.sqlite"
        with crowded(f"sqlite:///{path}") as database:
            yield database
    else:
        with request.getfixturevalue("postgres").empty() as url, crowded(url) as database:
            yield database


@contextmanager
def crowded(url: str) -> Iterator[Database]:
    with opened(url) as database:
        database.upgrade()
        crowd_in(database, QUEUED)
        yield database


def plan(db: Database, act: Callable[[], object]) -> str:
    """How the database carries out the first statement of an act that is about experiments."""
    statements: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "experiments" in statement:
            statements.append((statement, parameters))

    event.listen(db._engine, "before_cursor_execute", keep)
    act()
    event.remove(db._engine, "before_cursor_execute", keep)
    statement, parameters = statements[0]
    explain = "EXPLAIN " if db.is_postgres else "EXPLAIN QUERY PLAN "
    with db.write() as connection:
        return "\n".join(str(row[-1]) for row in connection.exec_driver_sql(explain + statement, parameters))


def test_the_claim_reads_the_head_of_its_index(db: Database) -> None:
    how = plan(db, lambda: queue.claim(db, "worker-1", LEASE_S))

    assert "ix_experiments_queued" in how
    assert "Seq Scan" not in how
    assert "SCAN experiments\n" not in how + "\n"
    assert "Sort" not in how
    assert "TEMP B-TREE" not in how


def test_the_reaper_looks_at_running_experiments_only(db: Database) -> None:
    how = plan(db, lambda: queue.reap(db))

    assert "ix_experiments_running" in how
    assert "Seq Scan" not in how


def test_a_heartbeat_finds_its_row_by_key(db: Database) -> None:
    claimed = queue.claim(db, "worker-1", LEASE_S)
    assert claimed is not None

    how = plan(db, lambda: queue.beat(db, claimed.lease, LEASE_S))

    assert "pk_experiments" in how or "sqlite_autoindex_experiments_1" in how


@pytest.mark.parametrize("number", [1, 2])
def test_a_page_is_read_in_the_order_of_its_index(db: Database, number: int) -> None:
    cursor = None if number == 1 else catalogue.page(db, limit=10).next_cursor

    how = plan(db, lambda: catalogue.page(db, cursor=cursor, limit=10))

    assert "ix_experiments_created_at_id" in how
    assert "TEMP B-TREE" not in how
    assert "Sort" not in how


@pytest.fixture(scope="module")
def finished(db: Database) -> None:
    """Some of the crowd have finished, and have names."""
    with db.write() as connection:
        connection.exec_driver_sql(
            "UPDATE experiments SET status = 'succeeded', attempt = 1, finished_at = created_at, name = 'run ' || id "
            "WHERE status = 'queued' AND priority = 3"
        )
        connection.exec_driver_sql("ANALYZE")


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("sort", Sort)
def test_every_sort_is_the_order_of_an_index(db: Database, sort: Sort, order: Order, number: int) -> None:
    how: dict[str, Any] = {"sort": sort, "order": order, "limit": 10}
    cursor = None if number == 1 else catalogue.page(db, **how).next_cursor

    found = plan(db, lambda: catalogue.page(db, cursor=cursor, **how))

    assert f"ix_experiments_{sort}_id" in found
    assert "TEMP B-TREE" not in found
    assert "Sort" not in found
    if number == 2:  # the index leads to where the page begins
        assert "Index Cond" in found or "SEARCH" in found


def test_a_range_of_dates_is_looked_up(db: Database) -> None:
    now = db.now()

    found = plan(db, lambda: catalogue.page(db, created_after=now - timedelta(seconds=1), created_before=now))

    assert "ix_experiments_created_at_id" in found
    assert "SEARCH" in found or "Index Cond" in found
    assert "Sort" not in found
