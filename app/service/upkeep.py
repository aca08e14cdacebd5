"""What the service does by itself: it takes attempts from workers that are lost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from app.errors import DatabaseUnavailable
from app.store import workers
from app.store.database import Database
from app.store.reaper import Reaper

_log = structlog.get_logger(__name__)
_FORGET_AFTER_S = 3600.0
_LEAST_PAUSE_S = 0.1


@contextmanager
def upkeep(database: Database, lease_s: float) -> Iterator[threading.Thread]:
    """A thread that reaps while the block lasts."""
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(database, lease_s, stop), name="upkeep", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def _run(database: Database, lease_s: float, stop: threading.Event) -> None:
    reaper = Reaper(database, lease_s)
    away = False
    while not stop.is_set():
        try:
            for lost in reaper.reap():
                _log.warning("worker lost", experiment_id=lost)
            workers.forget_silent(database, max(_FORGET_AFTER_S, lease_s))
            away = False
        except DatabaseUnavailable as error:
            if not away:  # once per outage
                _log.warning("database unavailable", detail=error.detail)
            away = True
        except Exception:  # noqa: BLE001 - a later round may succeed, and the service must not lose its reaper
            _log.exception("upkeep failed")
        stop.wait(max(_LEAST_PAUSE_S, lease_s / 3.0))
