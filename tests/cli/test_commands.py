"""list, show, cancel, retry, db, doctor, help."""

import json
import socket
from pathlib import Path

import pytest

from app.cli import doctor
from app.settings import Settings
from app.store import queue
from app.store.database import Database
from benchmarks.support.service import Service
from tests.cli.conftest import Run
from tests.support.builders import a_simulated_spec
from tests.support.store import expire, fail
from tests.support.work import claim, run_steps, work_off


def test_help_explains_the_exit_codes(run: Run) -> None:
    for arguments in (["--help"], ["submit", "--help"], ["watch", "-h"]):
        outcome = run(*arguments)
        assert outcome.code == 0
        assert "3 a verdict named by --fail-on" in " ".join(outcome.out.split())


def test_wrong_usage_has_its_own_exit_code(run: Run) -> None:
    assert run("submit").code == 2
    assert run("nonsense").code == 2
    assert run("serve", "--port", "0").code == 2


def test_experiments_are_listed(served: Run, service: Service) -> None:
    experiment = queue.enqueue(service.db, a_simulated_spec(name="a [bold]name", labels={"x": "list"})).experiment_id
    outcome = served("list", "--label", "x:list", "--status", "queued")
    assert outcome.code == 0
    assert experiment in outcome.out
    assert "a [bold]name" in outcome.out
    assert [item["id"] for item in json.loads(served("list", "--label", "x:list", "--json").out)] == [experiment]
    assert served("list", "--label", "x:none").out == "No experiments.\n"
    assert served("list", "--label", "nonsense").code == 2
    another = queue.enqueue(service.db, a_simulated_spec(name="Another", labels={"x": "list"})).experiment_id

    def ids(*options: str) -> list[str]:
        return [item["id"] for item in json.loads(served("list", "--label", "x:list", "--json", *options).out)]

    assert ids() == [another, experiment]
    assert ids("--order", "asc") == [experiment, another]
    assert ids("--sort", "name") == [another, experiment]
    assert ids("--sort", "name", "--order", "desc", "--limit", "1") == [experiment]
    assert ids("--created-after", "2020-01-01", "--created-before", "2999-12-31T00:00:00Z") == [another, experiment]
    refused = served("list", "--created-after", "yesterday")
    assert refused.code == 2
    assert "neither a date, like 2026-01-31" in refused.err
    queue.request_cancel(service.db, another)
    queue.request_cancel(service.db, experiment)


def test_a_finished_experiment_is_shown(served: Run, service: Service) -> None:
    queue.enqueue(service.db, a_simulated_spec(name="shown"))
    experiment = work_off(service.db)
    outcome = served("show", experiment)
    assert outcome.code == 0
    assert outcome.out.startswith(f"{experiment}  shown (succeeded, attempt 1)")
    assert "async against sync" in outcome.out
    assert json.loads(served("show", experiment, "--json").out)["experiment"]["id"] == experiment


def test_a_running_experiment_is_shown_too(served: Run, service: Service) -> None:
    experiment = queue.enqueue(service.db, a_simulated_spec()).experiment_id
    assert "In the queue: place 1" in served("show", experiment).out
    claimed = claim(service.db)
    next(run_steps(service.db, claimed))
    assert served("show", experiment).code == 0
    assert served("cancel", experiment).out == "Asked its worker to stop.\n"
    queue.hand_back(service.db, claimed.lease, "over")
    assert served("cancel", experiment).out == "The experiment is cancelled.\n"


def test_what_is_not_there_is_trouble(served: Run) -> None:
    for command in ("show", "cancel", "retry", "watch"):
        outcome = served(command, "nobody")
        assert (outcome.code, outcome.err) == (1, "error: there is no experiment nobody\n")


def test_a_failed_experiment_is_retried_and_says_what_went_wrong_before(served: Run, service: Service) -> None:
    experiment = queue.enqueue(service.db, a_simulated_spec(limits={"retry_on_loss": True})).experiment_id
    lost = claim(service.db).lease
    expire(service.db, lost.experiment_id)
    queue.reap(service.db)
    fail(service.db, claim(service.db).lease)
    shown = served("show", experiment).out
    assert "Failed: engine_died (arm sync): the engine core is gone" in shown
    assert f"Attempt 1 on {lost.owner}:\nFailed: worker_lost: the worker stopped sending heartbeats" in shown

    outcome = served("retry", experiment)
    assert outcome.code == 0
    retried = outcome.out.strip()
    assert f"Retries: {experiment}" in served("show", retried).out
    refused = served("retry", retried)
    assert refused.code == 1
    assert "only a failed or cancelled one can be retried" in refused.err
    assert work_off(service.db) == retried
    assert served("watch", retried).code == 0


# --- db ------------------------------------------------------------------------------------------------------------


def test_a_database_is_migrated_backed_up_and_restored(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path))
    saved = tmp_path / "saved.sqlite"
    assert run("db", "upgrade").out == "The schema is up to date.\n"
    db = Database(Settings().url)
    queue.enqueue(db, a_simulated_spec())
    assert run("db", "backup", str(saved)).out.startswith(f"Wrote {saved} (")
    assert run("db", "backup", str(saved)).code == 1
    queue.enqueue(db, a_simulated_spec())
    db.dispose()
    assert run("db", "restore", str(saved), stdin="n\n").code == 1
    assert run("db", "restore", str(saved), "--yes").out == f"Restored {saved}.\n"
    restored = Database(Settings().url)
    assert queue.claim(restored, "w", 30.0) is not None
    assert queue.claim(restored, "w", 30.0) is None
    restored.dispose()
    assert run("db", "restore", str(tmp_path / "nothing"), "--yes").code == 2


# --- doctor --------------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_everything(served: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path / "not" / "there"))
    outcome = served("doctor")
    names = [line[9:].partition(":")[0] for line in outcome.out.splitlines() if line[:1] != " "]
    assert names == ["Python", "GPU", "vLLM", "Ray", "database", "service", "disk", "/dev/shm"]  # noqa: S108
    assert "does not exist yet\n         `rollout-lab serve` creates it." in outcome.out
    assert "service: answers at" in outcome.out
    assert outcome.code == 0
    assert not (tmp_path / "not").exists()


def test_the_doctor_names_what_is_missing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ROLLOUT_LAB_DATABASE_URL", "postgresql+psycopg://me:secret@127.0.0.1:1/none")
    monkeypatch.setattr(doctor, "_VERSIONS", "print('{}')")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("ROLLOUT_LAB_PORT", str(taken.getsockname()[1]))
        taken.settimeout(0)
        outcome = run("doctor", "--url", "http://127.0.0.1:1")
    assert outcome.code == 1
    assert "missing  vLLM: not installed" in outcome.out
    assert "pip install 'rollout-lab[gpu]'" in outcome.out
    assert "missing  Ray: not installed" in outcome.out
    assert "missing  database: postgresql+psycopg://me:***@127.0.0.1:1/none" in outcome.out
    assert "secret" not in outcome.out
    assert "missing  service: 127.0.0.1:" in outcome.out
    assert "Set ROLLOUT_LAB_PORT to a free port." in outcome.out


def test_the_doctor_looks_where_the_worker_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_LAB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ROLLOUT_LAB_WORKER_COMMAND", "/nowhere/python -m workers")
    assert "missing  worker's Python: /nowhere/python does not run" in run("doctor").out
    outcome = run("doctor", "--worker-command", "/elsewhere/python -m workers")
    assert "missing  worker's Python: /elsewhere/python does not run" in outcome.out


def test_a_terminal_is_not_told_what_to_do_by_a_name(served: Run, service: Service) -> None:
    hostile = "\x1b]0;owned\x07\x1b[31mred\x9b2J"
    experiment = queue.enqueue(service.db, a_simulated_spec(name=hostile, labels={"x": "hostile"})).experiment_id
    for command in (
        ["list", "--label", "x:hostile"],
        ["list", "--label", "x:hostile", "--json"],
        ["show", experiment],
        ["show", experiment, "--json"],
        ["show", hostile],
        ["tokens", "revoke", hostile],
    ):
        outcome = served(*command)
        assert not set("\x1b\x07\x9b") & set(outcome.out + outcome.err), command
    queue.request_cancel(service.db, experiment)
