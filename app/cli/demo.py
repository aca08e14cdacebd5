"""rollout-lab demo"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from app.cli.common import Exit, find_service_url, say
from app.errors import InvalidInput, Unreachable
from app.settings import Settings

_LOG_LINES = 30
_LOOK_EVERY_S = 0.1
_Process = subprocess.Popen[bytes]


def demo(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Spec to run, in YAML or JSON.")],
) -> None:
    """Start a service, run a spec on it and print the comparison; on a terminal the service stays up until Ctrl-C."""
    from app.launch import build_environment, find_free_port, launched, wait_until_ready

    settings = Settings()
    try:
        port = find_free_port(settings.host, settings.port)
    except OSError as error:
        raise InvalidInput(str(error)) from None
    settings = Settings(port=port)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    log = settings.data_dir / "serve.log"
    url = find_service_url(f"http://{settings.host}:{port}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    say(f"Starting the service on {url} (log: {log})")
    try:
        with launched(build_environment(settings), log) as service:
            wait_until_ready(service, url)
            code = _submit(file, url, service)
            if sys.stdout.isatty():
                say("The service stays up until Ctrl-C.")
                with suppress(KeyboardInterrupt):
                    service.wait()
                    raise Unreachable("the service ended by itself")
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except Unreachable as error:
        say(f"demo: {error.detail}; the last lines of {log}:")
        say("\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
        code = Exit.TROUBLE
    raise typer.Exit(code)


def _submit(file: Path, url: str, service: _Process) -> int:
    """`rollout-lab submit --wait`, in a process of its own so that the service's end is noticed meanwhile."""
    with _run_command([sys.executable, "-m", "app.cli", "submit", str(file), "--wait", "--url", url]) as submit:
        while (code := submit.poll()) is None:
            if service.poll() is not None:
                raise Unreachable("the service ended by itself")
            time.sleep(_LOOK_EVERY_S)
    return code


@contextmanager
def _run_command(command: list[str]) -> Iterator[_Process]:
    from app.supervisor import die_with_parent

    parent = os.getpid()
    process = subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - nothing else runs here yet
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    sys.exit(128 + number)
