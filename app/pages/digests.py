"""A trial's request records and timeline, small enough to draw.

A stored trial never changes, so what was made of it is kept: a page of a million records is read once.
"""

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING

import numpy as np
from cachetools import LRUCache, cached

from app.measure.columns import Columns, Floats, Integers
from app.measure.formulas import Basis, NoValue
from app.measure.metrics import METRICS
from app.pages.charts.shape import MOST_LINES, Strip
from app.pages.charts.state import MOST_POINTS, State
from app.spec.experiment import ServiceLevels
from app.spec.plan import PlannedTrial
from app.store import trials
from app.store.database import Database
from app.store.experiments import ExperimentItem

if TYPE_CHECKING:
    import pyarrow as pa

LATENCIES = ("e2el_ms", "ttft_ms", "tpot_ms", "queue_ms")
MOST_VALUES = 4096  # sorted values kept of one trial and metric: a quantile of them is off by 0.03 % of the samples
_MOST_KEPT = 512  # trials


@dataclass(frozen=True, slots=True, eq=False)
class Digest:
    """What charts need of one trial."""

    slot: int
    block: int
    arm: str
    samples: int
    latencies: dict[str, tuple[Floats, int]]  # metric -> sorted values, and how many samples they stand for
    strips: tuple[Strip, ...]


def _identify_trial(db: Database, item: ExperimentItem, slot: int) -> Hashable:
    del db
    return item.id, item.attempt, slot


# Whoever asks for a trial that is being worked out waits for it; other trials go on.
@cached(LRUCache(_MOST_KEPT), key=_identify_trial, condition=Condition())
def digest_records(db: Database, item: ExperimentItem, slot: int) -> Digest | None:
    """One measured trial's requests; None where it left none or `db prune` has dropped them."""
    for trial, table in trials.read_records(db, item.id, slot=slot, attempt=item.attempt):
        if len(table):
            return make_digest(trial.planned, table)
    return None


def make_digest(planned: PlannedTrial, table: "pa.Table") -> Digest:
    """What charts need of a trial's request records."""
    columns = Columns.read(lambda name: table[name].to_numpy(zero_copy_only=False))
    basis = Basis(columns, (), None, 0, ServiceLevels())
    latencies: dict[str, tuple[Floats, int]] = {}
    for key in LATENCIES:
        with suppress(NoValue):
            latencies[key] = sort_values(np.asarray(METRICS[key].measure(basis)))
    replicas = table["replica"].to_numpy()
    return Digest(
        slot=planned.slot,
        block=planned.block,
        arm=planned.arm,
        samples=len(table),
        latencies=latencies,
        strips=tuple(make_strip(columns, replicas, int(replica)) for replica in np.unique(replicas)),
    )


@cached(LRUCache(_MOST_KEPT), key=_identify_trial, condition=Condition())
def digest_timeline(db: Database, item: ExperimentItem, slot: int) -> State | None:
    """One measured trial's engine; None where it was not watched."""
    for _, table in trials.read_timelines(db, item.id, slot=slot, attempt=item.attempt):
        if len(table):
            return make_state(table)
    return None


def sort_values(values: Floats) -> tuple[Floats, int]:
    """The values, sorted; of many, those at equal steps, the smallest and the largest among them."""
    values = np.sort(values)
    at = np.linspace(0, len(values) - 1, min(MOST_VALUES, len(values))).round().astype(np.int64)
    return values[at], len(values)


def make_strip(columns: Columns, replicas: Integers, replica: int) -> Strip:
    """One replica's requests, by their end; a sample of them where there are many."""
    own = replicas == replica
    ends = np.where(np.isnan(columns.last_token_s), columns.delivered_s, columns.last_token_s)[own]
    order = np.argsort(ends, kind="stable")
    tokens = np.cumsum(columns.output_tokens[own][order])
    most_out = float(ends[order][np.searchsorted(tokens, 0.9 * tokens[-1])]) if tokens[-1] else None
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(MOST_LINES, len(order))).round().astype(np.int64))]
    return Strip(
        replica=replica,
        requests=len(order),
        arrived_s=columns.arrived_s[own][chosen],
        first_token_s=columns.first_token_s[own][chosen],
        last_token_s=columns.last_token_s[own][chosen],
        delivered_s=columns.delivered_s[own][chosen],
        most_out_s=most_out,
    )


def make_state(table: "pa.Table") -> State:
    """What charts need of a trial's timeline; a sample of it where it is long."""
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
