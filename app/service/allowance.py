"""What one client may ask of the service at a time, so that no client can keep others from it."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import TooManyRequests

_MOST_CLIENTS = 10_000
_BURST_S = 2.0  # what a client has saved up after so long without a request


class Allowance:
    """Requests a second, by token buckets, and streams at once."""

    def __init__(self, requests_per_s: float, streams: int) -> None:
        self._rate = requests_per_s
        self._burst = max(1.0, requests_per_s * _BURST_S)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, and when that was
        self._most_streams = streams
        self._streams: Counter[str] = Counter()

    def spend(self, client: str) -> None:
        """Count a request; TooManyRequests where the client has none left."""
        now = time.monotonic()
        level, at = self._buckets.get(client, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        if level < 1.0:
            self._buckets[client] = (level, now)
            raise TooManyRequests(
                f"more than {self._rate:g} requests a second, for longer than a moment", (1.0 - level) / self._rate
            )
        self._buckets[client] = (level - 1.0, now)
        self._buckets.move_to_end(client)
        while len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)

    def require_stream(self, client: str) -> None:
        """TooManyRequests where the client has as many streams open as it may."""
        if self._streams[client] >= self._most_streams:
            raise TooManyRequests(f"{self._most_streams} event streams are open already; close one first", 5.0)

    @contextmanager
    def stream(self, client: str) -> Iterator[None]:
        """While a stream is open."""
        self._streams[client] += 1
        try:
            yield
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]
