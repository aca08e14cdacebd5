"""The real service, as its user starts it, and experiments on it."""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.client import Client
from app.errors import Refused, Unreachable
from app.launch import find_free_port
from app.settings import Settings
from app.spec.lifecycle import Status
from app.store import trials
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.parquet import list_records, list_samples
from benchmarks.gpu.budget import Deadline
from benchmarks.gpu.digest import Evidence
from benchmarks.gpu.telemetry import parse_smi
from benchmarks.support.service import environment, serving_all

Object = dict[str, Any]

CLOSING_S = 25.0  # until a cancelled experiment has ended, results are written and the service is gone
_POLL_S = 1.0
_READY_S = 120.0


@dataclass(frozen=True)
class Lab:
    """A running service, and the database it keeps."""

    client: Client
    db: Database
    settings: Settings

    def run(self, spec: Object, deadline: Deadline, logs: Path) -> Object:
        """Submit a spec and wait for its end, which is brought about where the deadline comes first.

        What its engines print stays in ``logs``; the service removes the log of an engine that ended well.
        """
        submitted = self.client.submit(spec, idempotency_key=secrets.token_hex(16))
        cancelled = False
        while True:
            for log in (self.settings.data_dir / "engine-logs").glob("*.log"):
                with suppress(FileExistsError, FileNotFoundError):
                    (logs / log.name).hardlink_to(log)
            with suppress(Unreachable):
                experiment = self.client.experiment(submitted["id"])
                if Status(experiment["status"]).terminal:
                    return experiment
                if not cancelled and deadline.left_s < CLOSING_S:
                    self.client.cancel(submitted["id"])
                    cancelled = True
            if deadline.left_s < 0:
                raise Unreachable(f"experiment {submitted['id']} has not ended by the deadline")
            time.sleep(_POLL_S)

    def save(self, experiment: Object, folder: Path) -> None:
        """The report for people, and the request records."""
        url = self.client.url
        subprocess.run(
            [
                sys.executable,
                "-m",
                "app.cli",
                "export",
                experiment["id"],
                "--html",
                folder / "report.html",
                "--url",
                url,
            ],
            env=environment(self.settings),
            check=True,
        )
        records = httpx.get(
            f"{url}/v1/experiments/{experiment['id']}/requests",
            params={"format": "parquet"},
            timeout=60.0,
            trust_env=False,
        )
        (folder / "requests.parquet").write_bytes(records.raise_for_status().content)

    def evidence(self, experiment: Object, logs: Path, smi: Path) -> Evidence:
        """All that is known of an experiment that has ended."""
        key, attempt = ExperimentId(experiment["id"]), experiment["attempt"]
        timelines = {t.planned: table for t, table in trials.read_timelines(self.db, key, attempt=attempt)}
        return Evidence(
            experiment=experiment,
            results=self.client.results(experiment["id"]),
            trials=trials.read_trials(self.db, key, attempt),
            arms=[stored.resolved for stored in trials.read_arms(self.db, key, attempt)],
            rollouts=[
                (list_records(table), list_samples(timelines[trial.planned]))
                for trial, table in trials.read_records(self.db, key, attempt=attempt)
            ],
            engine_logs=[log.read_text(errors="replace") for log in sorted(logs.glob("*.log"))],
            smi=parse_smi(smi.read_text()) if smi.exists() else (),
        )


@contextmanager
def serving(folder: Path) -> Iterator[Lab]:
    """`rollout-lab serve` on SQLite in the folder, with a worker and a Ray of its own; ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(data_dir=folder.absolute(), port=find_free_port("127.0.0.1", 0))
    with serving_all(settings) as process, Client(f"http://127.0.0.1:{settings.port}") as client:
        _wait_until_ready(client, process)
        _cancel_leftovers(client)
        db = Database(settings.url)
        try:
            yield Lab(client, db, settings)
        finally:
            db.dispose()


def _wait_until_ready(client: Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        with suppress(Unreachable):
            if client.readiness().get("status") == "ready":
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unreachable("the service did not start; serve.log says why")
        time.sleep(0.2)


def _cancel_leftovers(client: Client) -> None:
    """Of a run that was ended before its experiments were."""
    for experiment in list(client.experiments(200, status=[Status.QUEUED, Status.RUNNING])):
        with suppress(Refused):
            client.cancel(experiment["id"])
