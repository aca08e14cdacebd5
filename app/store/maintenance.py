"""What an operator does to a database from time to time."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.errors import Conflict, DatabaseUnavailable, InvalidInput
from app.store.database import Database, revisions


def backup(db: Database, target: Path) -> None:
    """Copy a SQLite database, as it is at one moment, while others go on using it."""
    source = _require_file(db, "pg_dump --format=custom")
    if target.exists():
        raise Conflict(f"{target} exists; name another file")
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    with (
        _wrap_errors(),
        closing(sqlite3.connect(source)) as live,
        closing(sqlite3.connect(partial)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, whoever opens it
    partial.rename(target)


def restore(db: Database, source: Path) -> None:
    """Replace everything in a SQLite database with a backup, and bring its schema up to date.

    Stop the workers first: what they run is not in the backup, or not theirs.
    """
    target = _require_file(db, "pg_restore")
    if not source.is_file():
        raise InvalidInput(f"there is no file {source}")
    with (
        _wrap_errors(),
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as saved,
    ):
        _require_backup(saved, source)
        with closing(sqlite3.connect(target)) as live:
            saved.backup(live)
    db.dispose()
    db.upgrade()


def _require_file(db: Database, tool: str) -> Path:
    if db.path is None:
        raise InvalidInput(f"this database is on a Postgres server; use {tool}")
    return db.path


def _require_backup(saved: sqlite3.Connection, source: Path) -> None:
    try:
        health = saved.execute("PRAGMA quick_check").fetchone()[0]
        revision = saved.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    except (sqlite3.DatabaseError, TypeError):
        raise InvalidInput(f"{source} is not a backup of this service") from None
    if health != "ok":
        raise InvalidInput(f"{source} is damaged: {health}")
    if revision not in revisions():
        raise InvalidInput(f"{source} was made by a newer version of this service (schema {revision})")


@contextmanager
def _wrap_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseUnavailable(str(error)) from error
