"""Who takes expired leases away, and when not to."""

from datetime import datetime, timedelta

from app.errors import DatabaseUnavailable
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import reap

_LONGEST_PAUSE_S = 5.0  # between two calls, where leases are even shorter


class Reaper:
    """Reaps only after it has watched the database's clock run for a whole lease without a gap.

    While the database is away no worker can send a heartbeat, and all leases run out together; likewise when the
    host was asleep, or when its clock was set. So after a gap, and at the start, since that may follow one, workers get
    the time to send their next heartbeat first. Call it at least three times per lease.
    """

    def __init__(self, db: Database, lease_s: float) -> None:
        self._db = db
        self._lease = timedelta(seconds=lease_s)
        self._longest_pause = timedelta(seconds=max(lease_s, _LONGEST_PAUSE_S))
        self._watching_since: datetime | None = None
        self._last_seen: datetime | None = None

    def reap(self) -> tuple[ExperimentId, ...]:
        """Experiments whose attempt was taken from a lost worker. Raises DatabaseUnavailable."""
        try:
            now = self._db.now()
            if self._watching_since is None or self._is_gap(now):
                self._watching_since = now
            self._last_seen = now
            return reap(self._db) if now - self._watching_since >= self._lease else ()
        except DatabaseUnavailable:
            self._watching_since = None
            raise

    def _is_gap(self, now: datetime) -> bool:
        return self._last_seen is None or not timedelta(0) <= now - self._last_seen <= self._longest_pause
