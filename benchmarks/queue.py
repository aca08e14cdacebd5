"""What the queue costs: `python -m benchmarks.queue`, a minute on two cores.

Claims from a short and from a long queue take turns, so that whatever else the machine does slows both. The goal is a
ratio of at most 2. Postgres comes from the wheel the tests use, with fsync off.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from app.store import queue
from app.store.database import Database
from benchmarks.support.crowd import SIMULATED, crowd_in
from benchmarks.support.databases import opened, running_postgres

SHORT, LONG, CLAIMS, SUBMISSIONS = 1_000, 100_000, 200, 500


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one database, all in milliseconds but the last."""

    database: str
    claim_short_ms: float
    claim_long_ms: float
    enqueue_per_s: float

    @property
    def ratio(self) -> float:
        """How much dearer a claim is from the long queue."""
        return self.claim_long_ms / self.claim_short_ms


def measure(database: str, urls: Iterator[str]) -> Cost:
    """Fill one queue each with few and with many experiments, then claim from them in turns."""
    with opened(next(urls)) as short, opened(next(urls)) as long:
        for db, rows in ((short, SHORT), (long, LONG)):
            db.upgrade()
            crowd_in(db, rows)
        times: dict[Database, list[float]] = {short: [], long: []}
        for _ in range(CLAIMS):
            for db, taken in times.items():
                taken.append(_seconds(partial(queue.claim, db, "worker-1", 600)))
        enqueueing = _seconds(lambda: [queue.enqueue(short, SIMULATED) for _ in range(SUBMISSIONS)])
    return Cost(database, 1e3 * median(times[short]), 1e3 * median(times[long]), SUBMISSIONS / enqueueing)


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


@contextmanager
def sqlite_urls() -> Iterator[Iterator[str]]:
    """New SQLite databases."""
    with tempfile.TemporaryDirectory() as directory:
        yield (f"sqlite:///{Path(directory) / str(number)}.sqlite" for number in range(99))


@contextmanager
def postgres_urls() -> Iterator[Iterator[str]]:
    """New Postgres databases."""
    with running_postgres() as server, ExitStack() as stack:
        yield (stack.enter_context(server.empty()) for _ in range(99))


def main() -> None:
    """Print one line per database."""
    print(f"{'':10}{'claim of 1,000':>18}{'of 100,000':>14}{'ratio':>8}{'enqueue':>14}")
    for database, new_urls in (("SQLite", sqlite_urls), ("Postgres", postgres_urls)):
        with new_urls() as urls:
            cost = measure(database, urls)
        print(
            f"{cost.database:10}{cost.claim_short_ms:15.2f} ms{cost.claim_long_ms:11.2f} ms"
            f"{cost.ratio:8.2f}{cost.enqueue_per_s:12.0f}/s"
        )


if __name__ == "__main__":
    main()
