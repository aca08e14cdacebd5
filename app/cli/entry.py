"""The commands, and what becomes of errors."""

import sys

import typer
from pydantic import ValidationError

from app.cli import db, demo, doctor, experiments, export, serve, submit, tokens
from app.cli.common import EXIT_CODES, Exit, say
from app.errors import InvalidInput, Refused, RolloutLabError
from app.settings import Settings

app = typer.Typer(
    name="rollout-lab",
    help="Does the way you drive vLLM change how fast your rollouts are, by how much, and how sure can you be?",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("submit", epilog=EXIT_CODES)(submit.submit)
app.command("calibrate", epilog=EXIT_CODES)(submit.calibrate)
app.command("retry", epilog=EXIT_CODES)(submit.retry)
app.command("watch", epilog=EXIT_CODES)(submit.watch)
app.command("show")(experiments.show)
app.command("list")(experiments.list_experiments)
app.command("cancel")(experiments.cancel)
app.command("export")(export.export)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(db.app, name="db")
app.add_typer(tokens.app, name="tokens")


def main() -> None:
    """Entry point."""
    try:
        app()
    except InvalidInput as error:
        say(f"error: {error.detail}")
        sys.exit(Exit.USAGE)
    except ValidationError as error:
        if error.title != Settings.__name__:
            raise
        for found in error.errors():
            say(f"error: {Settings.variable_of(found['loc'])}: {found['msg']}, not {found['input']!r}")
        sys.exit(Exit.USAGE)
    except Refused as error:
        say(f"error: {error.detail}")
        sys.exit(Exit.USAGE if error.http_status == InvalidInput.status else Exit.TROUBLE)
    except RolloutLabError as error:
        say(f"error: {error.detail}")
        sys.exit(Exit.TROUBLE)
