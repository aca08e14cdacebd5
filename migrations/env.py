"""Runs the migrations on the connection it is given; `alembic` from a checkout on the settings' database."""

from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection

from app.settings import Settings
from app.store.clock import Moment
from app.store.database import Database
from app.store.tables import SafeText, metadata


def render(kind: str, obj: Any, _autogen: Any) -> str | Literal[False]:
    """A revision outlives the code that made it: name the database's types, not ours."""
    if kind != "type" or not isinstance(obj, SafeText | Moment):
        return False
    return "sa.Text()" if isinstance(obj, SafeText) else "sa.BigInteger()"


def migrate(connection: Connection) -> None:
    """Run what was asked for."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        render_item=render,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    database = Database(Settings().url)
    with database.migrating() as opened:
        migrate(opened)
    database.dispose()
