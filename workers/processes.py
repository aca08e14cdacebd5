"""Finding and ending the processes of engines for certain.

Every process of an engine carries two marks in its environment, which its children inherit: the worker it belongs to
and the engine it is part of. So they are found whatever became of Ray, of the actor, or of the worker itself: a raylet
that is killed leaves its actors alive, and a killed actor may leave its engine core.
"""

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

WORKER_MARK = "ROLLOUT_LAB_WORKER"  # host:pid:birth of the worker process
ENGINE_MARK = "ROLLOUT_LAB_ENGINE"  # a name no other engine has
ENGINE_TITLE = "VLLM::"  # what vLLM calls its engine core and workers; helpers it also starts may come and go
_SOCKET = re.compile(r"/.*/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of vLLM's `get_open_zmq_ipc_path`
# Ray and vLLM give their processes titles, for which setproctitle would overwrite the environment seen from outside.
KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}


def make_worker_mark() -> str:
    """The mark of this worker process."""
    return _make_mark(psutil.Process())


def find_marked(mark: str, matches: Callable[[str], bool]) -> tuple[psutil.Process, ...]:
    """Running processes of this host whose mark matches, this one excepted."""
    return tuple(
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and (value := read_mark(process, mark)) is not None and matches(value)
    )


def read_mark(process: psutil.Process, mark: str) -> str | None:
    """The value of its mark; None where it has none, or is gone."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def find_orphans() -> tuple[psutil.Process, ...]:
    """Processes of engines whose worker ran on this host and is gone."""
    host = socket.gethostname()
    living: dict[str, bool] = {}

    def is_orphan(mark: str) -> bool:
        if mark not in living:
            try:
                living[mark] = _make_mark(psutil.Process(int(mark.rsplit(":", 2)[1]))) == mark
            except (psutil.NoSuchProcess, ValueError, IndexError):
                living[mark] = False
        return mark.startswith(f"{host}:") and not living[mark]

    return find_marked(WORKER_MARK, is_orphan)


def end(targets: tuple[psutil.Process, ...], grace_s: float) -> tuple[int, ...]:
    """Wait for processes that should be going, then kill the rest; the pids of those that had to be killed."""
    _, stubborn = psutil.wait_procs(targets, timeout=grace_s)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=5.0)
    return tuple(process.pid for process in stubborn)


def find_held_files(targets: Iterable[psutil.Process]) -> frozenset[Path]:
    """Shared memory that any of these has mapped, and its sockets of vLLM's; who is killed cannot remove its own."""
    return frozenset(path for process in targets for path in (*_read_mapped(process.pid), *_read_sockets(process)))


def free(files: frozenset[Path]) -> None:
    """Remove what nobody holds any more."""
    if files:
        held = find_held_files(psutil.process_iter())
        for path in files - held:
            path.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """True for a process that runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def list_family(pid: int) -> tuple[int, ...]:
    """A process and all its descendants."""
    return (pid, *(child.pid for child in psutil.Process(pid).children(recursive=True)))


def read_title(pid: int) -> str:
    """What a process calls itself; empty for one that is gone."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def _read_mapped(pid: int) -> Iterator[Path]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:  # it is gone, or somebody else's
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/dev/shm/") and not fields[5].endswith("(deleted)"):  # noqa: S108
            yield Path(fields[5])


def _read_sockets(process: psutil.Process) -> Iterator[Path]:
    try:
        connections = process.net_connections(kind="unix")
    except (psutil.Error, OSError):  # it is gone, or somebody else's
        return
    for connection in connections:
        if isinstance(connection.laddr, str) and _SOCKET.fullmatch(connection.laddr):
            yield Path(connection.laddr)


def _make_mark(process: psutil.Process) -> str:
    return f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"
