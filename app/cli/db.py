"""rollout-lab db …"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import database

app = typer.Typer(help="Look after the database of the settings.", no_args_is_help=True)


@app.command()
def upgrade() -> None:
    """Bring the schema up to date; does nothing if it is."""
    with database() as opened:
        opened.upgrade()
    typer.echo("The schema is up to date.")


@app.command()
def backup(file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")]) -> None:
    """Copy a SQLite database as it is now, while others go on using it."""
    from app.store.maintenance import backup as copy

    with database() as opened:
        copy(opened, file)
    typer.echo(f"Wrote {file} ({file.stat().st_size:,} bytes).")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Replace everything in a SQLite database with a backup. Stop the service first."""
    from app.store.maintenance import restore as replace

    with database() as opened:
        if not yes:
            typer.confirm(f"Replace everything in {opened.path} with {file}?", abort=True)
        replace(opened, file)
    typer.echo(f"Restored {file}.")
