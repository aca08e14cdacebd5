"""rollout-lab tokens, and commands that need one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.launch import find_free_port
from app.settings import Settings
from app.store.database import Database
from benchmarks.support.service import ROOT, Service, environment, serving
from tests.cli.conftest import Run
from tests.support.store import history_of


@pytest.fixture
def closed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, Service]]:
    """A service of its own, and commands that have its database and address."""
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path))
    run("db", "upgrade")
    with serving(Settings(data_dir=tmp_path)) as service:
        monkeypatch.setenv("ROLLOUT_LAB_URL", service.url)
        yield run, service


def test_the_first_token_closes_the_service_and_opens_it_to_who_has_it(
    closed: tuple[Run, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, service = closed
    monkeypatch.setenv("ROLLOUT_LAB_TOKEN", "")
    assert run("list").code == 0
    made = run("tokens", "create", "anna", "--scope", "read", "--expires-days", "7")
    secret = made.out.strip()
    assert made.code == 0
    assert "not shown again" in made.err
    while httpx.get(f"{service.url}/v1/experiments").status_code != 401:
        pass
    refused = run("list")
    assert (refused.code, "needs a token" in refused.err) == (1, True)

    monkeypatch.setenv("ROLLOUT_LAB_TOKEN", secret)
    assert run("list").out == "No experiments.\n"
    assert "service: answers at" in run("doctor").out
    examples = ROOT / "examples" / "simulated.yaml"
    refused = run("submit", str(examples))
    assert (refused.code, "a token with the scope submit" in refused.err) == (1, True)

    monkeypatch.setenv("ROLLOUT_LAB_TOKEN", run("tokens", "create", "ben").out.strip())
    experiment = run("submit", str(examples)).out.strip()
    assert "Submitted by ben\n" in run("show", experiment).out
    assert "ben" in run("list").out
    assert run("export", experiment, "--html", str(tmp_path / "report.html")).code == 0

    listed = run("tokens", "list").out
    assert secret not in listed
    assert [line.split()[:3] for line in listed.splitlines() if "valid" in line] == [
        ["anna", "read", "valid"],
        ["ben", "submit", "valid"],
    ]
    assert run("tokens", "revoke", "anna").out == "anna opens nothing any more.\n"
    assert "revoked" in run("tokens", "list").out
    assert [action for action, _by, _from in history_of(service.db, "anna")] == ["created", "revoked"]
    assert secret not in service.log.read_text()


def test_tokens_are_wrong_usage_where_they_are_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path))
    assert run("tokens", "create", "a b").code == 2
    assert run("tokens", "create", "a", "--expires-days", "0").code == 2
    assert run("tokens", "create", "a", "--scope", "root").code == 2
    assert "everybody may do everything" in run("tokens", "list").out
    assert run("tokens", "revoke", "nobody").code == 1


def started(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A service that is expected not to start."""
    settings = Settings(data_dir=tmp_path, host="0.0.0.0", port=find_free_port("127.0.0.1", 0))  # noqa: S104 - what is refused
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment(settings) | more,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [["app.cli", "serve", "--no-worker"], ["app.server"]])
def test_nothing_listens_beyond_loopback_before_there_is_a_token(tmp_path: Path, command: list[str]) -> None:
    db = Database(Settings(data_dir=tmp_path).url)
    db.upgrade()
    db.dispose()
    refused = started(tmp_path, *command)
    assert refused.returncode == 1
    assert "rollout-lab tokens create NAME" in refused.stderr
    assert "ROLLOUT_LAB_ANONYMOUS" in refused.stderr


@pytest.mark.parametrize("command", [["serve", "--no-worker"], ["doctor"], ["list"], ["tokens", "list"]])
def test_a_setting_that_makes_no_sense_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_PORT", "abc")
    outcome = run(*command)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ROLLOUT_LAB_PORT: ")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:abc", "http://127.0.0.1:99999", "http://[::1", "ftp://x", "8321"])
def test_an_address_that_is_none_is_named(run: Run, url: str) -> None:
    for command in ("doctor", "list"):
        outcome = run(command, "--url", url)
        assert (outcome.code, "is not the address of a service" in outcome.err) == (2, True)
