"""What the commands share."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated

import typer

from app.printable import printable
from app.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from app.client import Client
    from app.store.database import Database

_PLAIN_WIDTH = 120
_ANYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - recognised, not bound


class Exit(IntEnum):
    """What the exit code says."""

    DONE = 0
    TROUBLE = 1
    USAGE = 2
    VERDICT = 3
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 all went as hoped; 1 trouble, such as an experiment that failed or of which no block counts, or a "
    "service that does not answer; 2 wrong usage or an invalid spec; 3 a verdict named by --fail-on."
)

Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="ROLLOUT_LAB_URL", help="Address of the service; host and port of the settings if absent."
    ),
]
ExperimentId = Annotated[str, typer.Argument(metavar="ID", help="An experiment's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's JSON instead.")]


def find_service_url(url: str) -> str:
    """The address given, or that of a service with these settings."""
    if url:
        return url
    settings = Settings()
    host = "127.0.0.1" if settings.host in _ANYWHERE else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def connect(url: str, *, timeout_s: float = 120.0) -> "Client":
    """A connection to the service at this address, or that of the settings; with the settings' token."""
    from app.client import Client

    return Client(find_service_url(url), token=Settings().token.get_secret_value(), timeout_s=timeout_s)


@contextmanager
def database() -> Iterator["Database"]:
    """The database of the settings."""
    from app.store.database import Database

    opened = Database(Settings().url)
    try:
        yield opened
    finally:
        opened.dispose()


def say(text: str) -> None:
    """To stderr: what is no result. Names in it may be anybody's, and a terminal obeys what it is sent."""
    typer.echo(printable(text, lines=True), err=True)


def tell(text: str) -> None:
    """To stdout: results as text."""
    typer.echo(printable(text, lines=True))


def escape(text: str) -> str:
    """Text of any origin as `console()` shows it, whatever it holds of rich's markup or a terminal's commands."""
    from rich.markup import escape as without_markup

    return without_markup(printable(text, lines=True))


def console() -> "Console":
    """For results: as wide as the terminal, and wide enough for the tables where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
