"""The statements that run all day stay cheap, however much is stored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from app.store import experiments, queue
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
    cursor = None if number == 1 else experiments.page(db, limit=10).next_cursor

    how = plan(db, lambda: experiments.page(db, cursor=cursor, limit=10))

    assert "ix_experiments_created_at_id" in how
    assert "TEMP B-TREE" not in how
    assert "Sort" not in how
