"""Where SQLAlchemy needs to be told which database it talks to."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from app.store.clock import now_us


def insert_unless_present(
    connection: Connection, table: Table, row: Mapping[str, Any], unique: tuple[str, ...], now: tuple[str, ...]
) -> datetime | None:
    """Insert the row unless one with the same ``unique`` columns is there; when it was inserted, None if it was not.

    The ``now`` columns get that time, which is the database's.
    """
    inserted = _unless_present(connection.dialect.name, table, unique, now)
    at: datetime | None = connection.execute(inserted, row).scalar_one_or_none()
    return at


@cache  # it takes longer to build than to run
def _unless_present(dialect: str, table: Table, unique: tuple[str, ...], now: tuple[str, ...]) -> ReturningInsert[Any]:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    values = {name: now_us() for name in now}
    return insert(table).values(values).on_conflict_do_nothing(index_elements=unique).returning(table.c[now[0]])


def insert_or_replace(connection: Connection, table: Table, row: Mapping[str, Any], unique: tuple[str, ...]) -> None:
    """Insert the row, or overwrite the one with the same ``unique`` columns."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=unique, set_=dict(row)))
