"""./demo, with a rollout-lab that only pretends."""

import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Checkout:
    """A copy of ./demo whose environment is set up already."""

    directory: Path
    port: int

    @property
    def data(self) -> Path:
        return self.directory / ".rollout-lab"

    def start(self, output: int, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            # What starts tests in the background may have them ignore SIGINT, which bash could not undo.
            ["env", "--default-signal=INT", self.directory / "demo"],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "ROLLOUT_LAB_PORT": str(self.port), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )

    def demo(self, **environment: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, output, errors."""
        process = self.start(subprocess.PIPE, **environment)
        output, errors = process.communicate()
        return process.returncode, output, errors

    def survivors(self) -> list[int]:
        """Processes of the demonstration that are still there."""
        pids = (self.data / "pids").read_text().split()
        return [int(pid) for pid in pids if runs(int(pid))]

    def wait_for_submit(self) -> None:
        deadline = time.monotonic() + 60
        while not (self.data / "pids").exists() or len((self.data / "pids").read_text().split()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def runs(pid: int) -> bool:
    """Whether it is there and more than a zombie that its new parent has not collected."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def provide(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/usr/bin/env bash\n{line}\n")
    file.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    directory = tmp_path / "a checkout"
    fake = ROOT / "tests" / "scripts" / "fake_rollout_lab.py"
    provide(directory / "scripts" / "setup", f"echo '{directory}/venv'")
    provide(directory / "venv" / "bin" / "python", f"exec '{sys.executable}' -IS \"$@\"")
    provide(directory / "venv" / "bin" / "rollout-lab", f"exec '{sys.executable}' -IS '{fake}' \"$@\"")
    shutil.copy(ROOT / "demo", directory)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Checkout(directory, port)


@pytest.mark.parametrize("code", [0, 3])
def test_off_a_terminal_it_submits_the_example_and_ends_with_its_exit_code(checkout: Checkout, code: int) -> None:
    found, output, errors = checkout.demo(FAKE_CODE=str(code))
    assert found == code, errors
    example = checkout.directory / "examples" / "sync-vs-async.yaml"
    assert output == f"{example} --wait to http://127.0.0.1:{checkout.port}\n"
    assert checkout.survivors() == []


def test_a_port_in_use_is_left_alone(checkout: Checkout) -> None:
    with socket.create_server(("127.0.0.1", checkout.port)):
        code, output, errors = checkout.demo()
    assert code == 0, errors
    assert f"127.0.0.1:{checkout.port}" not in output + errors


def test_a_service_that_does_not_start_shows_the_end_of_its_log(checkout: Checkout) -> None:
    code, output, errors = checkout.demo(FAKE_MODE="crash")
    assert (code, output) == (1, "")
    assert "the service ended while starting" in errors
    assert "no such database" in errors


def test_a_service_that_ends_is_not_waited_for(checkout: Checkout) -> None:
    code, _, errors = checkout.demo(FAKE_MODE="dies", FAKE_SUBMIT_S="600")
    assert code == 1
    assert "the service ended by itself" in errors
    assert checkout.survivors() == []


def test_what_the_service_leaves_behind_is_ended_too(checkout: Checkout) -> None:
    code, _, errors = checkout.demo(FAKE_MODE="forgetful")
    assert code == 0, errors
    assert checkout.survivors() == []


def test_a_signal_ends_everything_at_once(checkout: Checkout) -> None:
    process = checkout.start(subprocess.PIPE, FAKE_SUBMIT_S="600")
    checkout.wait_for_submit()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped waiting" in output
    assert checkout.survivors() == []


def test_a_killed_script_takes_its_service_along(checkout: Checkout) -> None:
    process = checkout.start(subprocess.DEVNULL, FAKE_SUBMIT_S="1")
    checkout.wait_for_submit()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while checkout.survivors():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_on_a_terminal_the_service_stays_until_ctrl_c(checkout: Checkout) -> None:
    terminal, theirs = pty.openpty()
    process = checkout.start(theirs, FAKE_CODE="3")
    os.close(theirs)
    assert process.stderr is not None
    said = iter(process.stderr.readline, "")
    assert any("stays up until Ctrl-C" in line for line in said)
    assert checkout.survivors() != []
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    os.close(terminal)
    assert process.returncode == 3
    assert checkout.survivors() == []
