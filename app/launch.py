"""`rollout-lab serve` as a process of its own: started, waited for, and ended with all it has started."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from app.errors import Unreachable
from app.settings import Settings
from app.supervisor import die_with_parent

READY_WITHIN_S = 120.0
_DRAIN_S = 45.0  # the supervisor gives its worker 30 s
_LEFTOVERS_S = 5.0  # what outlives the service by a moment, such as Ray's daemons


def find_free_port(host: str, first: int) -> int:
    """`first`, or else the next port that nobody listens on, 0 for any; OSError where a hundred in a row are taken."""
    for port in range(first, min(first + 100, 65536)):
        with suppress(OSError), socket.create_server((host, port)) as found:
            return int(found.getsockname()[1])
    raise OSError(f"no free port from {first} on")


def build_environment(settings: Settings) -> dict[str, str]:
    """What a child needs to have these settings and no others."""
    named = Settings.model_fields.items()
    variables = {str(field.validation_alias or f"ROLLOUT_LAB_{name.upper()}"): name for name, field in named}
    kept = {key: value for key, value in os.environ.items() if key not in variables}
    # The token is for the command line; a service has no use for it.
    given = settings.model_dump(mode="json", exclude_unset=True, exclude_none=True, exclude={"token"})
    said = {key: given[name] for key, name in variables.items() if name in given}
    return kept | {key: json.dumps(value) if isinstance(value, dict) else str(value) for key, value in said.items()}


@contextmanager
def launched(environment: Mapping[str, str], log: Path, cwd: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A service in a session of its own, which a Ctrl-C here does not reach; leaving the block ends it in order.

    The kernel ends it should this process be killed.
    """
    parent = os.getpid()
    with log.open("ab") as output:
        service = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"],
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - nothing else runs here yet
        )
    try:
        yield service
    finally:
        service.terminate()
        _wait_while(lambda: service.poll() is None, _DRAIN_S)
        _wait_while(lambda: bool(_members_of(service.pid)), _LEFTOVERS_S)
        for pid in _members_of(service.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        service.wait()


def wait_until_ready(service: "subprocess.Popen[bytes]", url: str, within_s: float = READY_WITHIN_S) -> None:
    """Until it takes requests; Unreachable where it ends or takes longer."""
    deadline = time.monotonic() + within_s
    while service.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz", timeout=5.0, trust_env=False).is_success:
                return
        if time.monotonic() > deadline:
            raise Unreachable(f"the service was not ready within {within_s:g} s")
        time.sleep(0.3)
    raise Unreachable("the service ended while starting")


def _wait_while(goes_on: Callable[[], bool], at_most_s: float) -> None:
    deadline = time.monotonic() + at_most_s
    while goes_on() and time.monotonic() < deadline:
        time.sleep(0.1)


def _members_of(session: int) -> list[int]:
    """Processes of a session that run."""
    members: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, _group, own = stat.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                members.append(int(stat.parent.name))
    return members
