"""A worker's life beside its experiments: it says that it is there, and takes leases from workers that are not."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import structlog

from app.errors import DatabaseUnavailable
from app.store import workers
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.reaper import Reaper

log = structlog.get_logger(__name__)

_LONGEST_PERIOD_S = 2.0
Info = Callable[[], dict[str, Any]]


class Presence(AbstractContextManager["Presence"]):
    """A thread that keeps the worker's row fresh and reaps."""

    def __init__(
        self, db: Database, owner: str, lease_s: float, doing: Callable[[], ExperimentId | None], info: Info
    ) -> None:
        self._db = db
        self._owner = owner
        self._doing = doing
        self._info = info
        self._reaper = Reaper(db, lease_s)
        self._period_s = min(_LONGEST_PERIOD_S, lease_s / 3.0)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        try:
            workers.forget(self._db, self._owner)
        except DatabaseUnavailable as error:
            log.warning("worker not signed off", detail=error.detail)

    def _run(self) -> None:
        told: dict[str, Any] = {}
        while not self._done.is_set():
            try:
                info = self._info()
                news = None if info == told else info
                if not workers.heartbeat(self._db, self._owner, experiment_id=self._doing(), info=news):
                    workers.announce(self._db, self._owner, host=socket.gethostname(), pid=os.getpid(), info=info)
                told = info
                for experiment in self._reaper.reap():
                    log.warning("worker lost", experiment_id=experiment)
            except DatabaseUnavailable as error:
                log.warning("database away", detail=error.detail)
            self._done.wait(self._period_s)
