"""python -m workers: claim experiments and run them, one at a time."""

import os
import signal
import socket
import threading
import time
import traceback
from types import FrameType

import structlog

from app.errors import DatabaseUnavailable, FailureCode, LeaseLost
from app.logging import configure_logging
from app.redaction import hide
from app.settings import Settings
from app.spec.lifecycle import Failure, Status
from app.store import queue
from app.store.database import Database
from app.store.ids import ExperimentId
from workers import processes
from workers.actor import RemoteEngine
from workers.attempt import run_experiment
from workers.cluster import Cluster
from workers.engine_config import read_versions
from workers.presence import Presence
from workers.watch import Watch

log = structlog.get_logger(__name__)


class Worker:
    """Claims, runs, and goes when asked to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._db = Database(settings.url)
        self._cluster = Cluster(settings.ray_address)
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{int(time.time())}"
        self._stop = threading.Event()
        self._watch: Watch | None = None
        self._experiment: ExperimentId | None = None

    def run(self) -> None:
        """Until SIGTERM or SIGINT: the experiment that runs finishes its trial, or is handed back."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._drain)
        self._end_orphans()
        self._wait_for_database()
        self._cluster.connect()
        versions = read_versions()
        with Presence(
            self._db,
            self._owner,
            self._settings.lease_s,
            lambda: self._experiment,
            lambda: {"versions": versions, **self._cluster.report()},
        ):
            log.info("worker ready", owner=self._owner)
            while not self._stop.is_set():
                claim = self._claim()
                if claim is None:
                    self._cluster.connect()  # where Ray is gone, it is back before somebody waits for it
                    self._stop.wait(self._settings.poll_s)
                else:
                    self._run(claim)
        self._cluster.disconnect()

    def _wait_for_database(self) -> None:
        """Until it answers and has this version's schema (`rollout-lab serve` and `db upgrade` see to that)."""
        while not self._stop.is_set() and not (health := self._db.check()).ready:
            log.warning("waiting for the database", detail=health.detail)
            self._stop.wait(self._settings.poll_s)

    @staticmethod
    def _end_orphans() -> None:
        """Engines a killed worker left behind hold the memory the next ones need."""
        orphans = processes.find_orphans()
        shared = processes.find_held_files(orphans)
        killed = processes.end(orphans, grace_s=0.0)
        processes.free(shared)
        if killed:
            log.warning("orphaned engine processes killed", pids=killed)

    def _claim(self) -> queue.Claim | None:
        try:
            return queue.claim(self._db, self._owner, self._settings.lease_s)
        except DatabaseUnavailable as error:
            log.warning("no claim", detail=error.detail)
            return None

    def _run(self, claim: queue.Claim) -> None:
        structlog.contextvars.bind_contextvars(experiment_id=claim.lease.experiment_id, attempt=claim.lease.attempt)
        self._watch = Watch(claim.spec.limits)
        self._experiment = claim.lease.experiment_id
        if self._stop.is_set():
            self._watch.drain()
        log.info("experiment claimed", name=claim.spec.name)
        try:
            run_experiment(self._db, self._cluster, self._settings, claim, self._watch, make_engine=RemoteEngine)
        except Exception as error:
            log.exception("experiment broke the worker's code")
            self._fail(claim, error)
        finally:
            self._watch = self._experiment = None
            structlog.contextvars.clear_contextvars()

    def _fail(self, claim: queue.Claim, error: Exception) -> None:
        detail = hide("".join(traceback.format_exception_only(error)).strip())
        failure = Failure(code=FailureCode.INTERNAL, detail=detail, log_tail=hide(traceback.format_exc()))
        try:
            queue.finish(self._db, claim.lease, Status.FAILED, failure=failure, reason=detail)
        except (LeaseLost, DatabaseUnavailable) as lost:
            # The reaper will say that the worker was lost, which is then true.
            log.error("failure not stored", detail=lost.detail)

    def _drain(self, number: int, frame: FrameType | None) -> None:
        del frame
        log.info("draining", signal=signal.Signals(number).name)
        self._stop.set()
        if self._watch is not None:
            self._watch.drain()


def main() -> None:
    """Entry point."""
    settings = Settings()
    configure_logging(settings)
    Worker(settings).run()


if __name__ == "__main__":
    main()
