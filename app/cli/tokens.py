"""rollout-lab tokens …"""

import getpass
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import database, say
from app.store.tokens import Scope

if TYPE_CHECKING:
    from app.store.actors import Actor

app = typer.Typer(help="Who may use the service: tokens, in the database of the settings.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; it stands beside what they submit.")]
_DAY_S = 86_400.0


@app.command()
def create(
    name: Name,
    *,
    scope: Annotated[
        Scope,
        typer.Option(help="read: look; submit: queue, retry, cancel what is theirs; admin: cancel anybody's too."),
    ] = Scope.SUBMIT,
    expires_days: Annotated[
        float | None, typer.Option("--expires-days", min=0.001, max=36_500.0, help="When it ends; never if absent.")
    ] = None,
) -> None:
    """Make a token and print it, this once. From then on every request to the service needs one."""
    from app.store import tokens

    with database() as opened:
        opened.upgrade()
        expires_in_s = None if expires_days is None else expires_days * _DAY_S
        secret = tokens.create(opened, name, scope, expires_in_s, _name_actor())
    typer.echo(secret)
    say("Keep it: it is not shown again. The command line takes it from ROLLOUT_LAB_TOKEN, pages at /login.")


@app.command("list")
def list_tokens() -> None:
    """Every token there ever was."""
    from app.cli.common import console, escape
    from app.cli.render import make_table
    from app.store import tokens

    with database() as opened:
        found = tokens.list_tokens(opened)
    if not found:
        typer.echo("No tokens: on loopback everybody may do everything.")
        return
    shown = make_table("name", "scope", "state", "made", "ends", left=5)
    for token in found:
        ends = "never" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d %H:%M}"
        shown.add_row(escape(token.name), token.scope, token.state, f"{token.created_at:%Y-%m-%d %H:%M}", ends)
    console().print(shown)


@app.command()
def revoke(name: Name) -> None:
    """Let a token open nothing any more, nor the browsers that have logged in with it."""
    from app.store import tokens

    with database() as opened:
        tokens.revoke(opened, name, _name_actor())
    typer.echo(f"{name} opens nothing any more.")


def _name_actor() -> "Actor":
    from app.store.actors import Actor

    return Actor(getpass.getuser(), socket.gethostname())
