"""What engines print: a file each, in a directory that stays small.

The log of an engine that ended well is removed with it; those of failures are kept for whoever looks into them.
"""

import os
import sys
import tempfile
from pathlib import Path

from app.redaction import hide

_MOST_FILES = 20
_MOST_BYTES = 64 << 20
_TAIL_BYTES = 1 << 20


class OwnLog:
    """Where this process and its children print from now on."""

    def __init__(self, wanted: Path) -> None:
        """In ``wanted``; where that cannot be (a worker's directory may not exist on this host) in a temporary one."""
        try:
            self.path = _create(wanted)
        except OSError:
            self.path = _create(Path(tempfile.gettempdir()) / "rollout-lab-logs" / wanted.name)
        prune(self.path.parent)
        sys.stdout.flush()
        sys.stderr.flush()
        # Stays open for reading, so that another process may remove the file.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)
        self._begin = 0

    def begin(self) -> None:
        """What was printed so far does not explain what goes wrong from here on."""
        self._begin = os.fstat(self._descriptor).st_size

    def read(self) -> str:
        """What was printed since ``begin``, the last MiB of it."""
        sys.stdout.flush()
        sys.stderr.flush()
        return _read_end(self._descriptor, self._begin)


def read_size(log: Path) -> int:
    """Bytes of a log of this host, so far; 0 if it is elsewhere."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def read(log: Path, begin: int) -> str | None:
    """What was printed from this byte on, the last MiB of it; None if the log is not on this host."""
    try:
        descriptor = os.open(log, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _read_end(descriptor, begin)
    finally:
        os.close(descriptor)


def prune(directory: Path) -> None:
    """Remove the oldest logs until the directory is small; one that is in use loses its name only."""
    kept = 0
    found = sorted(directory.glob("*.log"), key=_read_mtime, reverse=True)
    for number, log in enumerate(found):
        kept += read_size(log)
        if number >= _MOST_FILES or kept > _MOST_BYTES:
            log.unlink(missing_ok=True)


def _read_mtime(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except FileNotFoundError:  # another worker has just removed it
        return 0.0


def _create(log: Path) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch(mode=0o600)
    return log


def _read_end(descriptor: int, begin: int) -> str:
    whole = os.fstat(descriptor).st_size
    begin = max(begin, whole - _TAIL_BYTES)
    return hide(os.pread(descriptor, whole - begin, begin).decode(errors="replace")) if whole > begin else ""
