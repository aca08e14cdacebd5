"""`rollout-lab serve`: processes that are kept running, and none that is left behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.launch import find_free_port
from app.settings import Settings
from app.store import queue
from app.store.database import Database
from app.supervisor import API_NICENESS, children, listen
from benchmarks.support.service import ROOT, environment, eventually
from tests.support.builders import a_simulated_spec


class Running:
    """A supervisor and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self.directory = directory

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def said(self, name: str) -> list[str]:
        """Lines a child has written."""
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def pids(self, name: str) -> list[tuple[int, int]]:
        """A child's processes so far, each with its own child."""
        pairs = (line.split() for line in self.said(name) if line[0].isdigit())
        return [(int(pid), int(below)) for pid, below in pairs]

    def started(self, name: str) -> list[int]:
        """A child's processes so far, as the supervisor says."""
        return [int(pid) for pid in re.findall(rf"process started .*name={name} pid=(\d+)", self.log)]

    def everybody(self) -> list[int]:
        return [self.process.pid, *self.started("api"), *self.started("worker")]


@contextmanager
def running(directory: Path, command: list[str], variables: dict[str, str]) -> Iterator[Running]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=log, stderr=log)
    found = Running(process, directory)
    try:
        yield found
    finally:
        for pid in found.everybody():
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL) if pid != process.pid else process.kill()
        process.wait()


@contextmanager
def supervised(directory: Path, **variables: str) -> Iterator[Running]:
    """A supervisor of two cheap children."""
    command = [sys.executable, "-m", "tests.supervised", str(directory)]
    with running(directory, command, environment(Settings()) | variables) as found:
        eventually(lambda: found.pids("api") and found.pids("worker"))
        yield found


def is_gone(pid: int) -> bool:
    """Ended; one that nobody has collected yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_child_comes_back_alone_and_without_its_children(tmp_path: Path) -> None:
    with supervised(tmp_path) as found:
        ((worker, below),) = found.pids("worker")
        os.kill(worker, signal.SIGKILL)
        _, (second, _) = eventually(lambda: found.pids("worker") if len(found.pids("worker")) == 2 else None)
        assert is_gone(below)
        assert not is_gone(second)
        assert len(found.started("api")) == 1
        assert "code=-9 name=worker" in found.log


def test_a_child_that_always_dies_is_started_ever_more_slowly(tmp_path: Path) -> None:
    with supervised(tmp_path, DIES="yes") as found:
        eventually(lambda: len(found.pids("worker")) == 3)
        assert re.findall(r"code=3 name=worker restart_in_s=([\d.]+)", found.log)[:2] == ["0.5", "1.0"]
        assert len(found.started("api")) == 1


def test_a_stopped_supervisor_lets_the_worker_drain_first(tmp_path: Path) -> None:
    with supervised(tmp_path, DRAIN_S="0.5") as found:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(30) == 0
        assert found.said("worker")[-1] == found.said("api")[-1] == "drained"
        assert re.findall(r"process stopped .*name=(\w+)", found.log) == ["worker", "api"]
        assert all(is_gone(pid) for name in ("api", "worker") for pair in found.pids(name) for pid in pair)


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with supervised(tmp_path, DRAIN_S="600") as found:
        found.process.send_signal(signal.SIGINT)
        eventually(lambda: "stopping" in found.log)
        found.process.send_signal(signal.SIGINT)
        assert found.process.wait(30) == 0
        assert "process killed" in found.log
        assert all(is_gone(pid) for pid in found.pids("worker")[0])


def test_a_killed_supervisor_leaves_nobody_behind(tmp_path: Path) -> None:
    with supervised(tmp_path) as found:
        children = [found.pids("api")[0][0], found.pids("worker")[0][0]]
        found.process.kill()
        eventually(lambda: all(map(is_gone, children)))


def commands(settings: Settings, *, with_worker: bool) -> dict[str, Sequence[str]]:
    with listen("127.0.0.1", 0) as listener:
        return {child.name: child.command for child in children(settings, listener, with_worker=with_worker)}


def test_the_worker_runs_by_the_command_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLOUT_LAB_WORKER_COMMAND", raising=False)
    assert commands(Settings(), with_worker=True)["worker"] == [sys.executable, "-m", "workers"]
    monkeypatch.setenv("ROLLOUT_LAB_WORKER_COMMAND", "'/opt/my gpu/bin/python' -m workers")
    assert commands(Settings(), with_worker=True)["worker"] == ["/opt/my gpu/bin/python", "-m", "workers"]
    assert list(commands(Settings(), with_worker=False)) == ["api"]


@pytest.mark.parametrize(("with_worker", "niceness"), [(True, API_NICENESS), (False, 0)])
def test_the_api_gives_way_where_there_are_engines_beside_it(with_worker: bool, niceness: int) -> None:
    assert commands(Settings(), with_worker=with_worker)["api"][-2:] == ["--niceness", str(niceness)]


def test_the_service_outlives_its_api_process_and_keeps_nobody_out(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, port=find_free_port("127.0.0.1", 0))
    command = [sys.executable, "-m", "app.cli", "serve", "--no-worker"]
    http = httpx.Client(base_url=f"http://127.0.0.1:{settings.port}", timeout=60.0, trust_env=False)
    with running(tmp_path, command, environment(settings)) as found, http:
        eventually(lambda: http.get("/healthz").is_success)
        second = subprocess.run(
            command, env=environment(settings), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert second.returncode == 1
        assert f"cannot listen on 127.0.0.1:{settings.port}: Address already in use" in second.stderr

        db = Database(settings.url)
        queued = queue.enqueue(db, a_simulated_spec()).experiment_id
        db.dispose()
        (first,) = found.started("api")
        os.kill(first, signal.SIGKILL)
        eventually(lambda: is_gone(first))
        with httpx.Client(base_url=http.base_url, timeout=60.0, trust_env=False) as newcomer:
            # Nobody answers now; the connection waits for the next process.
            assert newcomer.get(f"/v1/experiments/{queued}").json()["status"] == "queued"
        assert len(found.started("api")) == 2

        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(30) == 0
        assert all(map(is_gone, found.everybody()))
