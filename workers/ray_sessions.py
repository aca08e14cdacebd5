"""The folders that Ray makes for its sessions, and never removes."""

import fcntl
import os
import shutil
from pathlib import Path

_MARK = "rollout-lab.lock"


class OwnSession:
    """The session of a Ray that this process has started.

    A file in its folder stays locked while this process lives, whatever ends it: so the next worker knows which
    folders nobody will come back to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = (folder / _MARK).open("w")
        fcntl.flock(self._mark, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder, once its Ray has ended."""
        _remove(self._folder)
        self._mark.close()


def remove_abandoned(root: Path) -> None:
    """Remove the folders in ``root`` that workers of this user have left; no other session is touched."""
    for mark in root.glob(f"session_*/{_MARK}"):
        if mark.parent.is_symlink() or not mark.is_file() or mark.stat().st_uid != os.getuid():
            continue
        with mark.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(mark.parent)


def _remove(folder: Path) -> None:
    # A process of Ray's that is just ending may still write there; what it leaves has no mark, and holds nobody up.
    shutil.rmtree(folder, ignore_errors=True)
