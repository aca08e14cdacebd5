"""The whole service as its user starts it: `rollout-lab serve`, with its worker, its Ray and its engines."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from app.launch import find_free_port
from app.settings import Settings
from benchmarks.support.service import eventually, log_of, serving_all
from workers.processes import WORKER_MARK, find_marked, read_title

_POLL_S = 0.3  # the engines under test share two cores with the service that is asked
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True)
class Lab:
    """A running service."""

    http: httpx.Client
    url: str
    data_dir: Path
    log: Path

    def submit(self, **spec: Any) -> str:
        """Queue an experiment; its id."""
        response = self.http.post("/v1/experiments", json=spec)
        assert response.status_code == 201, response.text
        found: str = response.json()["id"]
        return found

    def experiment(self, experiment_id: str) -> dict[str, Any]:
        """What the service says of it."""
        found: dict[str, Any] = self.http.get(f"/v1/experiments/{experiment_id}").json()
        return found

    def results(self, experiment_id: str) -> dict[str, Any]:
        """Its results so far."""
        found: dict[str, Any] = self.http.get(f"/v1/experiments/{experiment_id}/results").json()
        return found

    def ended(self, experiment_id: str, within_s: float = 240.0) -> dict[str, Any]:
        """The experiment, once it has ended."""

        def look() -> dict[str, Any] | None:
            experiment = self.experiment(experiment_id)
            return experiment if experiment["status"] in ("succeeded", "failed", "cancelled") else None

        return eventually(look, within_s, _POLL_S)

    def measuring(self, experiment_id: str, trials_done: int = 0, within_s: float = 240.0) -> dict[str, Any]:
        """The experiment, while it measures and has finished so many trials."""

        def look() -> dict[str, Any] | None:
            experiment = self.experiment(experiment_id)
            assert experiment["status"] in ("queued", "running"), experiment
            progress = experiment["progress"] or {"step": None}
            far_enough = progress["step"] == "measuring" and progress["trials_done"] >= trials_done
            return experiment if far_enough else None

        return eventually(look, within_s, _POLL_S)

    def engine_processes(self, called: str = "") -> tuple[psutil.Process, ...]:
        """Processes of this service's engines: `VLLM::EngineCore`, `VLLM::Worker`, or all."""
        ours = str(self.data_dir)
        of_this_service = {process.pid for process in find_marked("ROLLOUT_LAB_DATA_DIR", ours.__eq__)}
        engines = find_marked(WORKER_MARK, lambda _: True)
        return tuple(p for p in engines if p.pid in of_this_service and called in read_title(p.pid))

    def no_engine_is_left(self, within_s: float = 20.0) -> bool:
        """Whether every process of every engine ends in time."""
        deadline = time.monotonic() + within_s
        while self.engine_processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def worker(self) -> psutil.Process:
        """The worker's process, once there is one."""

        def look() -> psutil.Process | None:
            workers = self.http.get("/v1/workers").json()["items"]
            living = [worker["pid"] for worker in workers if psutil.pid_exists(worker["pid"])]
            return psutil.Process(living[-1]) if living else None

        return eventually(look)


@contextmanager
def running_lab(data_dir: Path, lease_s: float = 6.0, database_url: str | None = None) -> Iterator[Lab]:
    """`rollout-lab serve`, on SQLite if no database is named; everything it started is gone afterwards."""
    settings = Settings(
        data_dir=data_dir,
        port=find_free_port("127.0.0.1", 0),
        lease_s=lease_s,
        database_url=database_url,
        environments={"missing": Path("/no/such/python"), "true": Path("/bin/true"), "made": data_dir / "python"},
    )
    url = f"http://127.0.0.1:{settings.port}"
    with serving_all(settings, **OFFLINE):
        eventually(lambda: httpx.get(f"{url}/readyz", timeout=60.0).json()["status"] == "ready", 120.0, _POLL_S)
        with httpx.Client(base_url=url, timeout=60.0, trust_env=False) as http:
            yield Lab(http, url, data_dir, log_of(settings))
