"""A trial's request records and timeline, small enough to draw.

A stored trial never changes, so what was made of it is kept: a page of a million records is read once.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from app.measure.columns import Floats
from app.pages.charts.shape import MOST_LINES, Strip
from app.pages.charts.state import MOST_POINTS, State
from app.store import trials
from app.store.database import Database
from app.store.experiments import ExperimentItem

if TYPE_CHECKING:
    import pyarrow as pa

LATENCIES = ("e2el_ms", "ttft_ms", "tpot_ms", "queue_ms")
MOST_VALUES = 4096  # sorted values kept of one trial and metric: a quantile of them is off by 0.03 % of the samples
_MOST_KEPT = 512  # trials
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Digest:
    """What charts need of one trial."""

    slot: int
    block: int
    arm: str
    samples: int
    latencies: dict[str, tuple[Floats, int]]  # metric -> sorted values, and how many samples they stand for
    strips: tuple[Strip, ...]


@dataclass(slots=True)
class _Kept(Generic[V]):
    """The trials looked at last. One is worked out by one thread while others wait for it."""

    values: OrderedDict[tuple[str, int, int], V] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: tuple[str, int, int], make: Callable[[], V]) -> V:
        with self.lock:
            if key not in self.values:
                self.values[key] = make()
                while len(self.values) > _MOST_KEPT:
                    self.values.popitem(last=False)
            self.values.move_to_end(key)
            return self.values[key]


_digests: _Kept[Digest | None] = _Kept()
_states: _Kept[State | None] = _Kept()


def digest_of(db: Database, item: ExperimentItem, slot: int) -> Digest | None:
    """One measured trial's requests; None where it left none or retention has dropped them."""

    def make() -> Digest | None:
        for trial, table in trials.records_of(db, item.id, slot=slot, attempt=item.attempt):
            if len(table):
                planned = trial.planned
                columns = _columns(table)
                return Digest(
                    slot=planned.slot,
                    block=planned.block,
                    arm=planned.arm,
                    samples=len(table),
                    latencies=dict(_latencies(columns)),
                    strips=tuple(_strips(columns)),
                )
        return None

    return _digests.get((item.id, item.attempt, slot), make)


def state_of(db: Database, item: ExperimentItem, slot: int) -> State | None:
    """One measured trial's engine; None where it was not watched."""

    def make() -> State | None:
        for _, table in trials.timeline_of(db, item.id, slot=slot, attempt=item.attempt):
            if len(table):
                return _state(table)
        return None

    return _states.get((item.id, item.attempt, slot), make)


_Columns = dict[str, Floats]
_TIMES = ("arrived_s", "sent_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s", "delivered_s")


def _columns(table: "pa.Table") -> _Columns:
    names = ("replica", "output_tokens", *_TIMES)
    return {
        name: np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)
        for name in names
        if name in table.column_names
    }


def _latencies(columns: _Columns) -> list[tuple[str, tuple[Floats, int]]]:
    sent, tokens = columns["sent_s"], columns["output_tokens"]
    first, last = columns["first_token_s"], columns["last_token_s"]
    several = tokens > 1
    found = {
        "e2el_ms": 1000 * (columns["delivered_s"] - sent),
        "ttft_ms": 1000 * (first - sent),
        "tpot_ms": 1000 * (last - first)[several] / (tokens[several] - 1),
        "queue_ms": 1000 * (columns["scheduled_s"] - columns["queued_s"]),
    }
    return [(key, kept) for key, values in found.items() if (kept := _sorted(values)) is not None]


def _sorted(values: Floats) -> tuple[Floats, int] | None:
    """The values, sorted; of many, those at equal steps, the smallest and the largest among them."""
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return None
    at = np.linspace(0, len(values) - 1, min(MOST_VALUES, len(values))).round().astype(np.int64)
    return values[at], len(values)


def _strips(columns: _Columns) -> list[Strip]:
    return [_strip(columns, int(replica)) for replica in np.unique(columns["replica"])]


def _strip(columns: _Columns, replica: int) -> Strip:
    own = columns["replica"] == replica
    ends = np.where(np.isnan(columns["last_token_s"]), columns["delivered_s"], columns["last_token_s"])[own]
    order = np.argsort(ends, kind="stable")
    tokens = np.cumsum(columns["output_tokens"][own][order])
    most_out = float(ends[order][np.searchsorted(tokens, 0.9 * tokens[-1])]) if tokens[-1] else None
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(MOST_LINES, len(order))).round().astype(np.int64))]
    return Strip(
        replica=replica,
        requests=len(order),
        arrived_s=columns["arrived_s"][own][chosen],
        first_token_s=columns["first_token_s"][own][chosen],
        last_token_s=columns["last_token_s"][own][chosen],
        delivered_s=columns["delivered_s"][own][chosen],
        most_out_s=most_out,
    )


def _state(table: "pa.Table") -> State:
    at = np.asarray(table["at_s"].to_numpy(zero_copy_only=False), dtype=np.float64)
    order = np.argsort(at, kind="stable")
    chosen = np.unique(np.linspace(0, len(at) - 1, min(MOST_POINTS, len(at))).round().astype(np.int64))

    def column(name: str) -> Floats:
        values: Floats = np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)[order][chosen]
        return values

    return State(
        at_s=at[order][chosen],
        running=column("running"),
        waiting=column("waiting"),
        kv_cache_usage_pct=column("kv_cache_usage_pct"),
    )
