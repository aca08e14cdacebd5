"""Folders of Ray's sessions: ours are removed, even those of a worker that was killed, and nobody else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.ray_sessions import OwnSession, remove_abandoned

HOLD = "import sys, pathlib; from workers.ray_sessions import OwnSession; s = OwnSession(pathlib.Path(sys.argv[1])); {}"


def a_session(root: Path, name: str) -> Path:
    folder = root / f"session_{name}"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "raylet.out").write_text("started")
    return folder


def test_the_session_of_our_own_ray_is_removed_with_it(tmp_path: Path) -> None:
    folder, other = a_session(tmp_path, "ours"), a_session(tmp_path, "other")
    OwnSession(folder).remove()
    assert not folder.exists()
    assert other.exists()


def test_the_session_of_a_killed_worker_is_removed_by_the_next_one(tmp_path: Path) -> None:
    killed = a_session(tmp_path, "killed")
    subprocess.run([sys.executable, "-c", HOLD.format("import os; os.kill(os.getpid(), 9)"), str(killed)], check=False)
    assert killed.exists()
    remove_abandoned(tmp_path)
    assert not killed.exists()


def test_sessions_of_others_and_of_workers_that_live_stay(tmp_path: Path) -> None:
    other, living = a_session(tmp_path, "other"), a_session(tmp_path, "living")
    (tmp_path / "session_latest").symlink_to(living)
    command = [sys.executable, "-c", HOLD.format("print(flush=True); input()"), str(living)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        remove_abandoned(tmp_path)
        assert other.exists()
        assert living.exists()
        process.communicate(b"\n")


@pytest.mark.timeout(10)
def test_a_mark_that_would_never_open_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(a_session(tmp_path, "trap") / "rollout-lab.lock")
    remove_abandoned(tmp_path)
    assert (tmp_path / "session_trap").exists()
