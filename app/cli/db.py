"""rollout-lab db …"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.settings import Settings

if TYPE_CHECKING:
    from app.store.database import Database

app = typer.Typer(help="Look after the database of the settings.", no_args_is_help=True)


@app.command()
def upgrade() -> None:
    """Bring the schema up to date; does nothing if it is."""
    with _database() as database:
        database.upgrade()
    typer.echo("The schema is up to date.")


@app.command()
def backup(file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")]) -> None:
    """Copy a SQLite database as it is now, while others go on using it."""
    from app.store.maintenance import backup as copy

    with _database() as database:
        copy(database, file)
    typer.echo(f"Wrote {file} ({file.stat().st_size:,} bytes).")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Replace everything in a SQLite database with a backup. Stop the service first."""
    from app.store.maintenance import restore as replace

    with _database() as database:
        if not yes:
            typer.confirm(f"Replace everything in {database.path} with {file}?", abort=True)
        replace(database, file)
    typer.echo(f"Restored {file}.")


@contextmanager
def _database() -> Iterator["Database"]:
    from app.store.database import Database

    database = Database(Settings().url)
    try:
        yield database
    finally:
        database.dispose()
