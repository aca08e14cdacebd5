"""`rollout-lab demo`, with a service and a worker command that is cheap to start."""

import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from app.launch import find_free_port
from app.settings import Settings
from benchmarks.support.service import ROOT, environment, eventually

SPEC = ROOT / "examples" / "simulated.yaml"
# Its child has a process group of its own, so that the supervisor does not know it.
FORGETFUL = "bash -c 'set -m; sleep 600 & wait'"


@dataclass(frozen=True)
class Demo:
    """A demonstration that runs."""

    process: subprocess.Popen[str]
    settings: Settings

    @property
    def log(self) -> Path:
        return self.settings.data_dir / "serve.log"

    def pid_of(self, name: str) -> int:
        """A process that the service has started."""
        return int(
            eventually(lambda: re.findall(rf"process started .*name={name} pid=(\d+)", self.log.read_text()))[-1]
        )

    def wait_for_submit(self) -> None:
        url = f"http://127.0.0.1:{self.settings.port}/v1/experiments"
        eventually(lambda: httpx.get(url, trust_env=False).json()["items"])

    def everybody(self) -> list[psutil.Process]:
        """The service, the processes below it, and what waits for the experiment."""
        return psutil.Process(self.process.pid).children(recursive=True)


def survivors(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are there and more than zombies that their new parent has not collected."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def start(
    directory: Path, spec: Path = SPEC, output: int = subprocess.PIPE, port: int | None = None, **more: str
) -> Demo:
    settings = Settings(data_dir=directory, port=port or find_free_port("127.0.0.1", 0))
    process = subprocess.Popen(
        # What starts tests in the background may have them ignore SIGINT.
        ["env", "--default-signal=INT", sys.executable, "-m", "app.cli", "demo", str(spec)],
        env=environment(settings) | {"ROLLOUT_LAB_WORKER_COMMAND": "sleep 600", **more},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Demo(process, settings)


def finish(demo: Demo) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    output, errors = demo.process.communicate(timeout=90)
    return demo.process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_at_once(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path, ROLLOUT_LAB_WORKER_COMMAND=FORGETFUL)
    demo.wait_for_submit()
    worker = demo.pid_of("worker")
    everybody = demo.everybody()
    assert worker in {one.pid for one in everybody}
    demo.process.send_signal(number)
    code, _, errors = finish(demo)
    assert code == 128 + number
    assert "Traceback" not in errors
    assert survivors(everybody) == []


def test_its_exit_code_is_that_of_submit(tmp_path: Path) -> None:
    spec = tmp_path / "wrong.yaml"
    spec.write_text("arms: []\n")
    code, output, errors = finish(start(tmp_path, spec))
    assert (code, output) == (2, "")
    assert "wrong.yaml" in errors


def test_a_spec_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    demo = start(tmp_path, tmp_path / "nowhere.yaml")
    code, _, errors = finish(demo)
    assert code == 2
    assert "nowhere.yaml" in errors
    assert not demo.log.exists()


def test_a_port_in_use_is_left_alone(tmp_path: Path) -> None:
    from app.supervisor import listen

    spec = tmp_path / "wrong.yaml"
    spec.write_text("arms: []\n")
    port = find_free_port("127.0.0.1", 0)
    with listen("127.0.0.1", port):
        _, _, errors = finish(start(tmp_path, spec, port=port))
    assert "Starting the service on http://127.0.0.1:" in errors
    assert f"127.0.0.1:{port} " not in errors


def test_a_service_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    code, output, errors = finish(start(tmp_path, ROLLOUT_LAB_DATABASE_URL="sqlite:////proc/nowhere/lab.sqlite"))
    assert (code, output) == (1, "")
    assert "the service ended while starting" in errors
    assert "/proc/nowhere" in errors


def test_a_service_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    demo = start(tmp_path)
    demo.wait_for_submit()
    everybody = demo.everybody()
    service = next(one for one in everybody if "serve" in one.cmdline())
    service.terminate()
    code, _, errors = finish(demo)
    assert code == 1
    assert "the service ended by itself" in errors
    assert survivors(everybody) == []


def test_a_killed_demo_takes_all_it_has_started_along(tmp_path: Path) -> None:
    demo = start(tmp_path)
    demo.wait_for_submit()
    everybody = demo.everybody()
    demo.process.kill()
    finish(demo)
    eventually(lambda: not survivors(everybody))


def test_on_a_terminal_the_service_stays_until_ctrl_c(tmp_path: Path) -> None:
    spec = tmp_path / "wrong.yaml"
    spec.write_text("arms: []\n")
    terminal, theirs = pty.openpty()
    demo = start(tmp_path, spec, output=theirs)
    os.close(theirs)
    assert demo.process.stderr is not None
    said = iter(demo.process.stderr.readline, "")
    assert any("stays up until Ctrl-C" in line for line in said)
    everybody = demo.everybody()
    assert survivors(everybody) != []
    demo.process.send_signal(signal.SIGINT)
    demo.process.communicate(timeout=90)
    os.close(terminal)
    assert demo.process.returncode == 2
    assert survivors(everybody) == []
