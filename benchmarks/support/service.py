"""The service as processes of its own: the API alone, or all of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

from app.launch import build_environment, launched
from app.settings import Anonymous, Settings
from app.store.database import Database
from app.supervisor import listen

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """A running API, and its database."""

    url: str
    db: Database
    http: httpx.Client
    process: subprocess.Popen[bytes]
    log: Path


def environment(settings: Settings) -> dict[str, str]:
    """What a child needs to have these settings and no others, and this tree's code."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    as_delivered = {"allowed_hosts": "", "anonymous": Anonymous.AUTO}  # tests/conftest.py opens what is in this process
    return build_environment(settings.model_copy(update=as_delivered)) | {"PYTHONPATH": path}


@contextmanager
def serving(settings: Settings, niceness: int = 0) -> Iterator[Service]:
    """A process that answers; its log goes to the settings' directory."""
    db = Database(settings.url)
    with listen("127.0.0.1", 0) as listener, (settings.data_dir / "server.log").open("wb") as log:
        fd = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "app.server", "--fd", str(fd), "--niceness", str(niceness)],
            env=environment(settings),
            cwd=settings.data_dir,
            pass_fds=(fd,),
            stdout=log,
            stderr=log,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        eventually(lambda: httpx.get(f"{url}/healthz", timeout=60.0).is_success)
        with httpx.Client(base_url=url, timeout=30.0, limits=httpx.Limits(), trust_env=False) as http:
            yield Service(url, db, http, process, settings.data_dir / "server.log")
    finally:
        db.dispose()
        _end(process, 15.0)


@contextmanager
def serving_all(settings: Settings, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`rollout-lab serve`, with a worker and a Ray of its own; its log goes to the settings' directory."""
    with launched(environment(settings) | more, log_of(settings), cwd=settings.data_dir) as process:
        yield process


def log_of(settings: Settings) -> Path:
    """What `serving_all` prints."""
    return settings.data_dir / "serve.log"


def _end(process: subprocess.Popen[bytes], within_s: float) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(within_s)
    finally:
        process.kill()
        process.wait()


def eventually(look: Callable[[], T | None], within_s: float = 60.0, every_s: float = 0.05) -> T:
    """What ``look`` finds, once it finds anything; errors of the network are nothing."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            found = look()
        except (httpx.HTTPError, OSError):
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(every_s)
