"""The command line, in this process, against a service in another."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.cli import main, submit
from benchmarks.support.service import Service


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; nothing in the environment is for it."""
    for name in ("ROLLOUT_LAB_URL", "ROLLOUT_LAB_DATA_DIR", "ROLLOUT_LAB_DATABASE_URL", "ROLLOUT_LAB_WORKER_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(submit, "POLL_S", 0.05)

    def invoke(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rollout-lab", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        written = capsys.readouterr()
        code = left.value.code
        return Outcome(code if isinstance(code, int) else 0, written.out, written.err)

    return invoke


@pytest.fixture
def served(run: Run, service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command for the running service."""
    monkeypatch.setenv("ROLLOUT_LAB_URL", service.url)
    return run
