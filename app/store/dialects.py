"""Where SQLAlchemy needs to be told which database it talks to."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, literal
from sqlalchemy.dialects import postgresql, sqlite


def insert_unless_present(
    connection: Connection, table: Table, row: Mapping[str, Any], unique: tuple[str, ...]
) -> bool:
    """Insert the row unless one with the same ``unique`` columns is there; True if it was inserted."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    inserted = insert(table).values(row).on_conflict_do_nothing(index_elements=unique).returning(literal(1))
    return connection.execute(inserted).scalar_one_or_none() is not None


def insert_or_replace(connection: Connection, table: Table, row: Mapping[str, Any], unique: tuple[str, ...]) -> None:
    """Insert the row, or overwrite the one with the same ``unique`` columns."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=unique, set_=dict(row)))
