"""Connections, and what becomes of their failures."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import exc, insert, select, text, update

from app.errors import Conflict, DatabaseUnavailable, InvalidInput
from app.spec.lifecycle import Status
from app.store import catalogue, experiments, queue
from app.store.database import Database, Health, revisions
from app.store.tables import experiments as experiments_table
from app.store.tables import workers
from benchmarks.support.databases import Postgres, opened
from benchmarks.support.service import eventually
from tests.support.builders import a_simulated_spec
from tests.support.store import LEASE_S, claim, expire, start, submit

HEALTHY = Health(reachable=True, migrated=True)


def set_revision(db: Database, revision: str) -> None:
    with db.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})


# --- both ----------------------------------------------------------------------------------------------------------


def test_a_migrated_database_is_ready(db: Database) -> None:
    assert db.check() == HEALTHY
    assert db.check().ready


def test_a_schema_of_another_version_is_not_ready(db: Database) -> None:
    set_revision(db, "9999")
    try:
        health = db.check()
        with pytest.raises(Conflict, match="newer version"):
            db.upgrade()
    finally:
        set_revision(db, revisions()[0])

    assert (health.reachable, health.migrated, health.ready) == (True, False, False)
    assert (
        health.detail == f"the schema is at 9999, by a newer version of this service; this one needs {revisions()[0]}"
    )
    assert db.check().ready


def test_what_is_written_in_a_failing_block_is_forgotten(db: Database) -> None:
    def write_and_fail() -> None:
        with db.write() as connection:
            connection.execute(text("DELETE FROM alembic_version"))
            raise KeyError

    with pytest.raises(KeyError):
        write_and_fail()

    assert db.check() == HEALTHY


def test_a_faulty_statement_is_not_an_outage(db: Database) -> None:
    with pytest.raises(exc.DBAPIError), db.read() as connection:
        connection.execute(text("SELECT nothing FROM nowhere"))
    with pytest.raises(exc.IntegrityError), db.write() as connection:
        connection.execute(insert(workers).values(id="a"))

    assert db.check() == HEALTHY


def test_a_database_that_is_not_migrated_says_what_to_do(postgres: Postgres, tmp_path: Path) -> None:
    with postgres.empty() as postgres_url:
        for url in (postgres_url, f"sqlite:///{tmp_path}/empty.sqlite"):
            with opened(url) as db:
                with pytest.raises(DatabaseUnavailable, match=r"not migrated.*run `rollout-lab db upgrade`"):
                    submit(db)
                with pytest.raises(DatabaseUnavailable, match="not migrated"):
                    catalogue.page(db)


def test_a_database_of_the_version_before_says_so_where_it_lacks_something(db: Database) -> None:
    with db.write() as connection:
        connection.execute(text("ALTER TABLE attempts RENAME COLUMN continuation TO later"))
    try:
        with pytest.raises(exc.DBAPIError):
            experiments.get(db, start(db).experiment_id)
        set_revision(db, revisions()[1])
        with pytest.raises(DatabaseUnavailable, match=f"the schema is at {revisions()[1]}, this version needs"):
            experiments.get(db, start(db).experiment_id)
    finally:
        set_revision(db, revisions()[0])
        with db.write() as connection:
            connection.execute(text("ALTER TABLE attempts RENAME COLUMN later TO continuation"))


def test_one_read_sees_one_state(db: Database) -> None:
    submit(db)
    with db.read() as connection:
        before = connection.execute(text("SELECT count(*) FROM experiments")).scalar_one()
        submit(db)
        assert connection.execute(text("SELECT count(*) FROM experiments")).scalar_one() == before == 1


def test_writers_wait_for_each_other(db: Database) -> None:
    """Each reads first and writes later; all of them get their turn."""
    lease = start(db)
    barrier = threading.Barrier(8)

    def beat(_: int) -> None:
        barrier.wait()
        for _ in range(10):
            queue.beat(db, lease, LEASE_S)

    before = experiments.get_item(db, lease.experiment_id).version
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(beat, range(8)))

    assert experiments.get_item(db, lease.experiment_id).version == before + 80


def test_the_clock_is_the_databases(db: Database) -> None:
    first = db.now()
    second = db.now()

    assert first <= second < first + timedelta(minutes=1)


def test_several_processes_may_upgrade_at_once(postgres: Postgres, tmp_path: Path) -> None:
    def upgrade(url: str) -> Health:
        with opened(url) as db:
            db.upgrade()
            return db.check()

    with postgres.empty() as postgres_url, ThreadPoolExecutor(3) as pool:
        for url in (postgres_url, f"sqlite:///{tmp_path}/new.sqlite"):
            assert list(pool.map(upgrade, [url] * 3)) == [HEALTHY] * 3


def test_no_free_connection_is_an_outage(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = db._engine.pool
    monkeypatch.setattr(pool, "_timeout", 0.05)
    held = [db._engine.connect() for _ in range(20)]

    with pytest.raises(DatabaseUnavailable, match="no free connection"), db.read():
        pass

    for connection in held:
        connection.close()


@pytest.mark.parametrize("url", ["", "rollout-lab.sqlite", "mysql://root:secret@host/db"])
def test_other_databases_are_refused_without_telling_secrets(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Database(url)

    assert "secret" not in refused.value.detail


# --- SQLite --------------------------------------------------------------------------------------------------------


def test_the_directory_of_a_sqlite_file_is_made(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/some/where/rollout-lab.sqlite") as db:
        assert db.check() == Health(
            reachable=True,
            migrated=False,
            detail=f"the database is not migrated, this version needs {revisions()[0]}: run `rollout-lab db upgrade`",
        )
        db.upgrade()
        assert db.check() == HEALTHY


def test_a_directory_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DatabaseUnavailable, match="cannot create"):
        Database(f"sqlite:///{tmp_path}/file/rollout-lab.sqlite")


@pytest.mark.parametrize("pragma", ["journal_mode=wal", "foreign_keys=1", "synchronous=1", "busy_timeout=30000"])
def test_sqlite_is_set_up(sqlite_db: Database, pragma: str) -> None:
    name, _, value = pragma.partition("=")
    for transaction in (sqlite_db.read, sqlite_db.write):
        with transaction() as connection:
            assert str(connection.execute(text(f"PRAGMA {name}")).scalar_one()) == value


def test_readers_do_not_wait_for_a_writer(sqlite_db: Database) -> None:
    with sqlite_db.write(), sqlite_db.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM experiments")).scalar_one() == 0


def test_a_locked_sqlite_file_is_an_outage(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.database._LOCK_WAIT_S", 0.1)
    with opened(sqlite_url) as db:
        holder = sqlite3.connect(db.path or "", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")

        with pytest.raises(DatabaseUnavailable, match="locked"):
            queue.enqueue(db, a_simulated_spec())

        holder.execute("ROLLBACK")
        holder.close()
        assert queue.enqueue(db, a_simulated_spec()).created


def test_a_full_disk_is_an_outage(sqlite_db: Database) -> None:
    def write_much() -> None:
        with sqlite_db.write() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1")
            connection.execute(text("CREATE TABLE much AS SELECT hex(randomblob(1000000)) AS x"))

    with pytest.raises(DatabaseUnavailable, match="full"):
        write_much()


def test_a_read_only_database_is_an_outage(sqlite_url: str) -> None:
    read_only = f"{sqlite_url.replace('sqlite:///', 'sqlite:///file:')}?mode=ro&uri=true"
    with opened(read_only) as db, pytest.raises(DatabaseUnavailable, match="readonly"):
        queue.claim(db, "worker-1", LEASE_S)


def test_a_file_that_is_no_database_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "rollout-lab.sqlite").write_text("something else entirely, and long enough to be read as a header" * 9)
    with opened(f"sqlite:///{tmp_path}/rollout-lab.sqlite") as db:
        health = db.check()

        assert not health.reachable
        assert health.detail == "file is not a database"


# --- Postgres ------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_an_outage(tmp_path: Path) -> None:
    with opened(f"postgresql+psycopg://postgres@/nowhere?host={tmp_path}") as db:
        with pytest.raises(DatabaseUnavailable):
            queue.claim(db, "worker-1", LEASE_S)
        assert not db.check().reachable


def test_a_postgres_that_stops_is_an_outage_and_its_return_the_end_of_it(
    postgres: Postgres, postgres_db: Database
) -> None:
    lease = start(postgres_db)
    waiting = submit(postgres_db)
    postgres.stop()
    try:
        for act in (
            lambda: queue.beat(postgres_db, lease, LEASE_S),
            lambda: queue.claim(postgres_db, "worker-2", LEASE_S),
            lambda: queue.reap(postgres_db),
            lambda: experiments.get(postgres_db, waiting),
        ):
            with pytest.raises(DatabaseUnavailable):
                act()
        assert not postgres_db.check().reachable
    finally:
        postgres.start()

    assert postgres_db.check() == HEALTHY
    assert not queue.beat(postgres_db, lease, LEASE_S).cancel_requested
    assert claim(postgres_db).experiment_id == waiting


def test_a_connection_cut_in_the_middle_is_an_outage(postgres_db: Database) -> None:
    def write_on_a_cut_connection() -> None:
        with postgres_db.write() as connection:
            mine = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with postgres_db.write() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": mine})
            connection.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailable):
        write_on_a_cut_connection()
    assert postgres_db.check() == HEALTHY


def test_a_claim_does_not_wait_for_rows_others_hold(postgres_db: Database) -> None:
    first, second = submit(postgres_db), submit(postgres_db)
    with postgres_db.write() as connection:
        connection.execute(text("SELECT id FROM experiments WHERE id = :id FOR UPDATE"), {"id": first})
        assert claim(postgres_db).experiment_id == second
        assert queue.claim(postgres_db, "worker-2", LEASE_S) is None
    assert claim(postgres_db).experiment_id == first


def test_a_cancel_request_waits_for_a_claim_under_way(postgres_db: Database) -> None:
    experiment_id = submit(postgres_db)
    lease = queue.Lease(experiment_id, 1, "worker-1")
    with ThreadPoolExecutor(1) as pool:
        with postgres_db.write() as connection:
            running = {"status": "running", "attempt": 1, "owner": "worker-1", "lease_expires_at": postgres_db.now()}
            connection.execute(update(experiments_table).values(running))
            asked = pool.submit(queue.request_cancel, postgres_db, experiment_id)
            waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            eventually(lambda: connection.execute(waiting).scalar_one())
        assert asked.result() is Status.RUNNING

    assert queue.beat(postgres_db, lease, LEASE_S).cancel_requested


def test_a_reaper_does_not_wait_for_a_heartbeat_under_way(postgres_db: Database) -> None:
    lease = start(postgres_db)
    expire(postgres_db, lease.experiment_id)
    with postgres_db.write() as connection:
        connection.execute(text("SELECT id FROM experiments FOR UPDATE"))
        assert queue.reap(postgres_db) == ()
    assert queue.reap(postgres_db) == (lease.experiment_id,)


def test_a_write_that_waits_too_long_is_an_outage(postgres_db: Database) -> None:
    lease = start(postgres_db)
    with postgres_db.write() as connection:
        connection.execute(text("SELECT id FROM experiments FOR UPDATE"))
        with pytest.raises(DatabaseUnavailable, match="timeout"):
            queue.beat(postgres_db, lease, 0.2)


def test_a_writer_that_stops_in_its_transaction_loses_its_locks(postgres_db: Database) -> None:
    lease = start(postgres_db)
    impatient = postgres_db.url.update_query_dict({"options": "-c idle_in_transaction_session_timeout=50ms"})

    def stop_while_writing(db: Database) -> None:
        with db.write() as connection:
            connection.execute(text("SELECT id FROM experiments FOR UPDATE"))
            assert not queue.beat(postgres_db, lease, LEASE_S).cancel_requested
            connection.execute(text("SELECT 1"))

    with (
        opened(impatient.render_as_string(hide_password=False)) as db,
        pytest.raises(DatabaseUnavailable, match="idle-in-transaction timeout"),
    ):
        stop_while_writing(db)
    with postgres_db.read() as connection:
        assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar() == "30s"


def test_a_read_cannot_write_on_postgres(postgres_db: Database) -> None:
    with pytest.raises(DatabaseUnavailable, match="read-only"), postgres_db.read() as connection:
        connection.execute(text("DELETE FROM workers"))
    with postgres_db.write() as connection:
        connection.execute(text("DELETE FROM workers"))
        assert connection.execute(select(text("current_setting('transaction_isolation')"))).scalar() == "read committed"
