"""Ending processes for certain."""

from contextlib import suppress

import psutil


def alive(pid: int) -> bool:
    """True for a process that runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def title(pid: int) -> str:
    """What a process calls itself; empty for one that is gone."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def family(pid: int) -> tuple[int, ...]:
    """A process and all its descendants."""
    try:
        root = psutil.Process(pid)
        return (pid, *(child.pid for child in root.children(recursive=True)))
    except psutil.NoSuchProcess:
        return ()


def end(pids: tuple[int, ...], born_before: float, grace_s: float = 5.0) -> tuple[int, ...]:
    """Wait ``grace_s`` for processes that should be going, then kill the rest; return those that had to be killed.

    ``born_before``: seconds since the epoch; a process born later got a used pid and is left alone.
    """
    targets = [process for pid in pids if (process := _born_before(pid, born_before)) is not None]
    _, stubborn = psutil.wait_procs(targets, timeout=grace_s)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=5.0)
    return tuple(process.pid for process in stubborn)


def _born_before(pid: int, moment: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        running = process.status() != psutil.STATUS_ZOMBIE
        return process if running and process.create_time() <= moment + 1.0 and pid > 1 else None
    except psutil.NoSuchProcess:
        return None
