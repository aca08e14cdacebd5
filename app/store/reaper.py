"""Who takes expired leases away, and when not to."""

import time
from collections.abc import Callable

from app.errors import DatabaseUnavailable
from app.store.engine import Database
from app.store.ids import ExperimentId
from app.store.queue import reap


class Reaper:
    """Reaps only after it has reached the database for a whole lease without a gap.

    While the database is away no worker can send a heartbeat, and all leases run out together. So after an outage,
    and at the start, since it may follow one, workers get the time to send their next heartbeat first.
    """

    def __init__(self, db: Database, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._lease_s = lease_s
        self._clock = clock
        self._reachable_since: float | None = None

    def reap(self) -> tuple[ExperimentId, ...]:
        """Experiments whose attempt was taken from a lost worker; call it often. Raises DatabaseUnavailable."""
        try:
            if self._reachable_since is None or self._clock() - self._reachable_since < self._lease_s:
                self._db.now()
                self._reachable_since = self._reachable_since or self._clock()
                return ()
            return reap(self._db)
        except DatabaseUnavailable:
            self._reachable_since = None
            raise
