"""What `rollout-lab serve` does: keep the API and a worker running, each in a process of its own.

The API process dies: it is started again; connections wait meanwhile, because the socket is the supervisor's. The
worker dies: what is left of its process group is killed, then it is started again. The supervisor dies, however: the
kernel tells the children to end.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

import structlog

from app.settings import Settings

_log = structlog.get_logger(__name__)

BACKLOG = 2048
WORKER_DRAIN_S = 30.0
API_DRAIN_S = 10.0
_LOOK_EVERY_S = 0.2
_LONGEST_PAUSE_S = 30.0
_STABLE_AFTER_S = 60.0
# The API gives way to engines on the same host: at equal priority polls cost one a measurable share of its throughput.
# benchmarks/pollers.py measures it, docs/reliability.md has the readings.
API_NICENESS = 10
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections, whether or not anybody answers them yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


@dataclass(slots=True)
class Child:
    """A process that is kept running."""

    name: str
    command: Sequence[str]
    drain_s: float
    environment: Mapping[str, str]
    inherited_fds: tuple[int, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started_at: float = field(default=0.0, init=False)
    _due_at: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)

    def tend(self, now: float) -> None:
        """Start it if it is due; notice that it has ended."""
        if self._process is None:
            if now >= self._due_at:
                self._start(now)
        elif _has_ended(self._process):
            code = self._reap(self._process)
            self._failures = 0 if now - self._started_at > _STABLE_AFTER_S else self._failures + 1
            pause_s = min(_LONGEST_PAUSE_S, 0.25 * 2**self._failures)
            self._due_at = now + pause_s
            _log.error("process ended", name=self.name, code=code, restart_in_s=pause_s)

    def stop(self, hurry: threading.Event) -> None:
        """Ask it to end, and insist after its time to drain, or in a hurry at once."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.drain_s
        while not _has_ended(self._process) and time.monotonic() < deadline and not hurry.is_set():
            hurry.wait(0.05)
        if not _has_ended(self._process):
            _log.warning("process killed", name=self.name, pid=self._process.pid)
        code = self._reap(self._process)
        _log.info("process stopped", name=self.name, code=code)

    def _start(self, now: float) -> None:
        parent = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - the operator's command
            self.command,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            pass_fds=self.inherited_fds,
            process_group=0,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - the supervisor has one thread
        )
        self._started_at = now
        _log.info("process started", name=self.name, pid=self._process.pid)

    def _reap(self, process: subprocess.Popen[bytes]) -> int:
        """Kill what is left of its group, then collect it: until then nobody else can have its number."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._process = None
        return process.wait()


class Supervisor:
    """Keeps children running until it is told to stop."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children
        self._stop = threading.Event()
        self._hurry = threading.Event()

    def run(self) -> None:
        """Until SIGTERM or SIGINT; the second of them does not wait for anybody."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._stop.is_set():
            for child in self._children:
                child.tend(time.monotonic())
            self._stop.wait(_LOOK_EVERY_S)
        _log.info("stopping")
        for child in reversed(self._children):
            child.stop(self._hurry)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


def children(settings: Settings, listener: socket.socket, *, with_worker: bool) -> list[Child]:
    """The API, and the worker unless there is to be none."""
    environment = os.environ | {
        "ROLLOUT_LAB_HOST": settings.host,
        "ROLLOUT_LAB_PORT": str(settings.port),
        "PYTHONUNBUFFERED": "1",
    }
    fd = listener.fileno()
    niceness = API_NICENESS if with_worker else 0
    api = Child(
        name="api",
        command=[sys.executable, "-m", "app.server", "--fd", str(fd), "--niceness", str(niceness)],
        drain_s=API_DRAIN_S,
        environment=environment,
        inherited_fds=(fd,),
    )
    if not with_worker:
        return [api]
    return [api, Child(name="worker", command=settings.worker, drain_s=WORKER_DRAIN_S, environment=environment)]


def die_with_parent(parent: int) -> None:
    """Between fork and exec: get SIGTERM when the parent is gone."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it went before it could be asked for
            os._exit(1)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without collecting it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
