"""Keeps the lease while an experiment runs, carries its progress out and a cancel request in."""

import contextvars
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Self

import structlog

from app.errors import DatabaseUnavailable, LeaseLost
from app.spec.lifecycle import Progress
from app.store import queue
from app.store.database import Database
from workers.watch import Watch

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class Heartbeat(AbstractContextManager["Heartbeat"]):
    """A thread that beats three times per lease; it outlives trials that keep the main thread busy for hours."""

    def __init__(
        self, db: Database, lease: queue.Lease, lease_s: float, progress: Callable[[], Progress], watch: Watch
    ) -> None:
        self._db = db
        self._lease = lease
        self._lease_s = lease_s
        self._progress = progress
        self._watch = watch
        self._done = threading.Event()
        here = contextvars.copy_context()  # a thread would log without the attempt's ids
        self._thread = threading.Thread(target=here.run, args=(self._run,), name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        told: Progress | None = None
        due = time.monotonic()
        while not self._watch.lost.is_set():
            progress = self._progress()
            # New progress is told within a second; without any, a beat in time is enough.
            if progress != told or time.monotonic() >= due:
                if not self._beat(progress):
                    due = time.monotonic() + _RETRY_S
                else:
                    told = progress
                    due = time.monotonic() + self._lease_s / 3.0
            if self._done.wait(min(1.0, self._lease_s / 3.0)):
                return

    def _beat(self, progress: Progress) -> bool:
        try:
            beat = queue.beat(self._db, self._lease, self._lease_s, progress)
        except LeaseLost as error:
            log.error("lease lost", detail=error.detail)
            self._watch.lost.set()
            return False
        except DatabaseUnavailable as error:
            # The trial goes on: nobody else can take the lease from a database that does not answer.
            log.warning("heartbeat failed", detail=error.detail)
            return False
        if beat.cancel_requested:
            self._watch.cancelled.set()
        return True
