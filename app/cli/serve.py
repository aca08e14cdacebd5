"""rollout-lab serve"""

import os
from typing import Annotated

import typer

from app.cli.common import Exit, find_service_url, say
from app.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; the settings' if absent.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on.")] = None,
    worker: Annotated[bool, typer.Option(help="Run a worker beside the API.")] = True,
    worker_command: Annotated[
        str | None, typer.Option(help="Command that runs the worker; the settings' if absent.")
    ] = None,
    migrate: Annotated[bool, typer.Option(help="Bring the database's schema up to date first.")] = True,
) -> None:
    """Run the service until Ctrl-C: the API and one worker, each restarted when it dies."""
    from app.logging import configure_logging
    from app.supervisor import Supervisor, children, listen

    given = {"host": host, "port": port, "worker_command": worker_command}
    settings = Settings().model_copy(update={key: value for key, value in given.items() if value is not None})
    configure_logging(settings)
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        say(f"error: cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno or 0)}")
        say("Is the service running already? `rollout-lab doctor` looks; `--port` takes another port.")
        raise typer.Exit(Exit.TROUBLE) from None
    with listener:
        _prepare(settings, migrate=migrate)
        url = find_service_url(f"http://{settings.host}:{settings.port}")
        say(f"Rollout Lab on {url} (Ctrl-C stops it)")
        Supervisor(children(settings, listener, with_worker=worker)).run()


def _prepare(settings: Settings, *, migrate: bool) -> None:
    """Bring the schema up to date, and see that nobody is let in whom nobody meant to."""
    from app.service.access import require_tokens
    from app.store.database import Database

    database = Database(settings.url)
    try:
        if migrate:
            database.upgrade()
        require_tokens(database, settings)
    finally:
        database.dispose()
