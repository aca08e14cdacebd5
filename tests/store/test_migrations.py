"""The schema's history leads to the schema in the code, on both databases."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, Table, create_engine, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

import migrations
from app.spec.plan import Phase
from app.store import trials
from app.store.database import Database, revisions
from app.store.tables import attempts, experiments, metadata
from app.store.tables import trials as trial_rows
from benchmarks.support.databases import Postgres, opened
from tests.support.builders import a_result, a_trial, planned
from tests.support.store import start

ROOT = Path(migrations.__file__).parents[1]


@pytest.fixture(params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """An empty database."""
    if request.param == "sqlite":
        yield from connect(f"sqlite:///{tmp_path}/empty.sqlite")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        with server.empty() as url:
            yield from connect(url)


def connect(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def config_for(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(config_for()).get_heads()) == 1


def test_the_migrated_schema_is_the_schema_in_the_code(db: Database) -> None:
    with db.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_constraints_are_the_same_in_the_code_and_in_the_database(db: Database) -> None:
    """Alembic compares no check constraints."""
    with db.read() as connection:
        found = {
            (table, check["name"])
            for table in metadata.tables
            for check in inspect(connection).get_check_constraints(table)
        }
    assert found == {
        (table.name, str(constraint.name))
        for table in metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }


def test_every_revision_goes_up_and_down_and_up_again(connection: Connection) -> None:
    config = config_for(connection)
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]

    for revision in revisions:
        command.upgrade(config, revision)
        command.downgrade(config, "-1")
        command.upgrade(config, revision)
    command.downgrade(config, "base")

    assert inspect(connection).get_table_names() == ["alembic_version"]
    command.upgrade(config, "head")
    assert set(inspect(connection).get_table_names()) == {"alembic_version", *metadata.tables}


def test_a_populated_database_of_the_previous_revision_is_brought_up_to_date(
    db: Database, connection: Connection
) -> None:
    config = config_for(connection)
    script = ScriptDirectory.from_config(config)
    (head,) = script.get_heads()
    previous = script.get_revision(head).down_revision
    assert isinstance(previous, str)
    command.upgrade(config, previous)
    lease = start(db)
    trials.save_trial(db, lease, a_result(), a_trial())
    fill(connection, db)

    command.upgrade(config, "head")

    assert [row._asdict() for row in connection.execute(select(experiments))] == rows_of(db, experiments)
    assert [row._asdict() for row in connection.execute(select(attempts))] == rows_of(db, attempts)
    assert [row.arm for row in connection.execute(select(trial_rows))] == ["sync"]


def fill(connection: Connection, source: Database) -> None:
    """Copy everything into a database of an older revision, as far as that has columns for it."""
    for table in metadata.sorted_tables:
        if table.name in inspect(connection).get_table_names():
            known = {column["name"] for column in inspect(connection).get_columns(table.name)}
            for row in rows_of(source, table):
                old = {key: value for key, value in row.items() if key in known}
                connection.execute(insert(table).values(old))
    connection.commit()


def rows_of(db: Database, table: Table) -> list[dict[str, Any]]:
    with db.read() as connection:
        return [row._asdict() for row in connection.execute(select(table))]


def test_upgrading_again_changes_nothing(db: Database) -> None:
    lease = start(db)

    db.upgrade()

    with db.read() as connection:
        assert connection.execute(text("SELECT id FROM experiments")).scalars().all() == [lease.experiment_id]


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'lost'", "ck_experiments_"),
        ("owner = NULL", "ck_experiments_running_is_owned"),
        ("lease_expires_at = NULL", "ck_experiments_running_is_owned"),
        ("status = 'queued'", "ck_experiments_running_is_owned"),
        ("status = 'failed', owner = NULL, lease_expires_at = NULL", "ck_experiments_terminal_is_finished"),
        ("finished_at = 1", "ck_experiments_terminal_is_finished"),
        ("attempt = 0", "ck_experiments_attempt"),
        ("idempotency_key = 'a'", "ck_experiments_idempotent_request"),
        ("retry_of = 'nobody'", "(?i)foreign.key"),
    ],
)
def test_the_database_itself_refuses_nonsense(db: Database, change: str, constraint: str) -> None:
    start(db)

    with pytest.raises(IntegrityError, match=constraint), db.write() as connection:
        connection.execute(text(f"UPDATE experiments SET {change}"))  # noqa: S608


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_alembic_works_from_a_checkout_on_the_database_of_the_settings(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def alembic(*words: str, url: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "alembic", *words],
            cwd=ROOT,
            env={**os.environ, "ROLLOUT_LAB_DATABASE_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:///{tmp_path}/lab.sqlite"
        else:
            server: Postgres = request.getfixturevalue("postgres")
            url = stack.enter_context(server.empty())
        alembic("upgrade", "head", url=url)
        assert revisions()[0] in alembic("current", url=url)
        assert alembic("history", url=url).count("->") == len(revisions())
        with opened(url) as db:
            assert db.check().ready


def test_blocks_of_engines_that_restarted_for_every_trial_are_starts_of_their_own(
    db: Database, connection: Connection
) -> None:
    config = config_for(connection)
    command.upgrade(config, "0003")
    lease = start(db)
    for block in (0, 1):
        warm, counts = planned(block=block, phase=Phase.WARMUP), planned(block=block)
        for trial in (warm.model_copy(update={"fresh_engine": True}), counts):
            trials.save_trial(db, lease, a_result(planned=trial), a_trial(planned=trial))
    fill(connection, db)

    command.upgrade(config, "head")

    found = select(trial_rows.c.block, trial_rows.c.start).where(trial_rows.c.phase == Phase.MEASURED)
    assert sorted(tuple(row) for row in connection.execute(found)) == [(0, 0), (1, 1)]
