"""The database: SQLite for one host, Postgres for a team."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, text, type_coerce
from sqlalchemy import exc as sa

from app.errors import Conflict, DatabaseUnavailable, InvalidInput
from app.store.clock import Moment, now_us

if TYPE_CHECKING:
    from alembic.config import Config

# No overflow: connections beyond the pool are closed after every use, and to open one takes longer than most uses.
_POOL: dict[str, Any] = {"pool_size": 20, "max_overflow": 0, "pool_timeout": 10}
_WRITES = "rollout_lab_writes"
_LOCK_WAIT_S = 30  # of SQLite's one writer lock

# A connection of a service that starts on an empty database would keep the plans that suit one; and a process that
# stops in the middle of a transaction must not keep its locks from everybody else.
_POSTGRES_OPTIONS = (
    "-c plan_cache_mode=force_custom_plan -c idle_in_transaction_session_timeout=30s -c statement_timeout=60s"
)
_MIGRATION_LOCK = 0x726F6C6C  # any number, the same in every process

# Primary result codes that say that SQLite cannot do its work, whatever the statement: PERM, BUSY, LOCKED, NOMEM,
# READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB.
_SQLITE_UNAVAILABLE = frozenset({3, 5, 6, 7, 8, 10, 11, 13, 14, 15, 26})

_READ_ONLY_TRANSACTION = "25006"  # Postgres: a standby, or a database that was made read-only
_SQLITE_LACKS = ("no such table", "no such column")
_POSTGRES_LACKS = frozenset({"42P01", "42703"})


@dataclass(frozen=True, slots=True)
class Health:
    """What `/readyz` says about the database."""

    reachable: bool
    migrated: bool
    detail: str | None = None

    @property
    def ready(self) -> bool:
        """True where the service can work."""
        return self.reachable and self.migrated


class Database:
    """Connections to one database. Transactions are short; a failure to connect is DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        self.url = _parse_url(url)
        self._engine = _create_postgres(url) if self.is_postgres else _create_sqlite(url)
        self._reader = self._engine
        self._writing = threading.Lock()
        self._writer = self._engine.execution_options(**{_WRITES: True})
        if self.is_postgres:
            # One snapshot per read(), as SQLite gives it anyway.
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @property
    def is_postgres(self) -> bool:
        """True for Postgres, False for SQLite."""
        return self.url.get_backend_name() == "postgresql"

    @property
    def path(self) -> Path | None:
        """File of a SQLite database."""
        return None if self.is_postgres or not self.url.database else Path(self.url.database)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, all of it the same state."""
        with self._unavailable(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self, timeout_s: float | None = None) -> Iterator[Connection]:
        """A transaction that writes; it commits at the end of the block.

        ``timeout_s`` bounds every statement and every wait for a lock on Postgres; SQLite waits for its one lock only.
        """
        with self._unavailable(), self._turn(), self._writer.begin() as connection:
            if timeout_s is not None and self.is_postgres:
                limit = f"{timeout_s * 1000:.0f}ms"
                connection.execute(
                    text("SELECT set_config('lock_timeout', :t, true), set_config('statement_timeout', :t, true)"),
                    {"t": limit},
                )
            yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Threads queue for SQLite's one lock here: SQLite itself would have them sleep, each time longer."""
        if self.is_postgres:
            yield
        elif self._writing.acquire(timeout=_LOCK_WAIT_S):
            try:
                yield
            finally:
                self._writing.release()
        else:
            raise DatabaseUnavailable("database is locked")

    def now(self) -> datetime:
        """The database's clock."""
        with self.read() as connection:
            return connection.execute(select(type_coerce(now_us(), Moment))).scalar_one()

    def upgrade(self) -> None:
        """Bring the schema up to date; several processes may do so at once. Conflict if it is newer than the code."""
        from alembic import command
        from alembic.migration import MigrationContext

        config = _make_alembic_config()
        with self.migrating() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
            if revision not in {None, *revisions()}:
                raise Conflict(f"the database was made by a newer version of this service (schema {revision})")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A transaction that changes the schema, one process at a time; it commits at the end of the block."""
        with self._unavailable(), self._engine.connect() as connection:
            connection.detach()  # it is set up for this alone
            if self.is_postgres:
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            else:
                _prepare_sqlite(connection)
            yield connection
            connection.commit()

    def check(self) -> Health:
        """Whether the service can work with this database; never raises."""
        from alembic.migration import MigrationContext

        head = revisions()[0]
        try:
            with self.read() as connection:
                revision = MigrationContext.configure(connection).get_current_revision()
        except DatabaseUnavailable as error:
            return Health(reachable=False, migrated=False, detail=error.detail)
        if revision != head:
            return Health(reachable=True, migrated=False, detail=_describe(revision, head))
        return Health(reachable=True, migrated=True)

    def dispose(self) -> None:
        """Close every idle connection."""
        self._engine.dispose()

    @contextmanager
    def _unavailable(self) -> Iterator[None]:
        try:
            yield
        except sa.TimeoutError as error:
            raise DatabaseUnavailable("no free connection to the database") from error
        except sa.DBAPIError as error:
            if _is_unavailable(error):
                raise DatabaseUnavailable(str(error.orig).partition("\n")[0]) from error
            if _lacks_something(error) and not (health := self.check()).ready:
                raise DatabaseUnavailable(health.detail or "the database is not migrated") from error
            raise


@cache
def revisions() -> tuple[str, ...]:
    """Every version of the schema, newest first."""
    from alembic.script import ScriptDirectory

    return tuple(script.revision for script in ScriptDirectory.from_config(_make_alembic_config()).walk_revisions())


def _describe(revision: str | None, head: str) -> str:
    """What to do about a schema that is not this version's."""
    if revision is not None and revision not in revisions():
        return f"the schema is at {revision}, by a newer version of this service; this one needs {head}"
    found = "the database is not migrated" if revision is None else f"the schema is at {revision}"
    return f"{found}, this version needs {head}: run `rollout-lab db upgrade`"


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except sa.ArgumentError:
        raise InvalidInput("the database URL is not a SQLAlchemy URL") from None  # it may hold a password
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise InvalidInput(f"no {parsed.get_backend_name()} here: the database is SQLite or Postgres")
    return parsed


def _create_postgres(url: str) -> Engine:
    return create_engine(
        url,
        isolation_level="READ COMMITTED",
        json_serializer=_json,
        **_POOL,
        pool_pre_ping=True,
        connect_args={
            "application_name": "rollout-lab",
            "options": f"{_POSTGRES_OPTIONS} {make_url(url).query.get('options', '')}".strip(),
            "connect_timeout": 10,
            # A host that vanished without a word is noticed within a lease.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 15_000,
        },
    )


def _create_sqlite(url: str) -> Engine:
    database = make_url(url).database
    if database:
        try:
            Path(database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseUnavailable(f"cannot create the directory of {database}: {error}") from error
    engine = create_engine(url, json_serializer=_json, **_POOL, connect_args={"timeout": _LOCK_WAIT_S})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin transactions by itself, too late and never IMMEDIATE.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later fails at once when another has written in between, whatever the
    # busy timeout: so writers take the lock at the start.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_sqlite(connection: Connection) -> None:
    """Switch to WAL, then lock: batch migrations rebuild tables, which must not cascade to the rows that name them."""
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=OFF")
    cursor.close()
    connection.execution_options(**{_WRITES: True})
    connection.begin()


def _make_alembic_config() -> "Config":
    from alembic.config import Config

    import migrations

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    return config


def _is_unavailable(error: sa.DBAPIError) -> bool:
    """Whether the database failed rather than the statement."""
    if isinstance(error.orig, sqlite3.Error):
        return (getattr(error.orig, "sqlite_errorcode", 0) & 0xFF) in _SQLITE_UNAVAILABLE
    # psycopg's errors by the names SQLAlchemy gives them, so that psycopg is imported only where there is a Postgres.
    if isinstance(error, sa.OperationalError | sa.InterfaceError):
        return True
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) == _READ_ONLY_TRANSACTION


def _lacks_something(error: sa.DBAPIError) -> bool:
    """Whether the statement names a table or a column that is not there."""
    if isinstance(error.orig, sqlite3.Error):
        return str(error.orig).startswith(_SQLITE_LACKS) or "has no column named" in str(error.orig)
    return getattr(error.orig, "sqlstate", None) in _POSTGRES_LACKS


_json: Any = partial(json.dumps, allow_nan=False, separators=(",", ":"))
