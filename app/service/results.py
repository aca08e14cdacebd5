"""What an experiment has found, made of what is stored."""

import json
from collections.abc import Hashable
from threading import Condition

from cachetools import LRUCache, cached

from app.judge.noise import build_noise_keys, combine_noise
from app.judge.results import Results, build_results
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.store import experiments, trials
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId
from app.store.noise import read_noise_under

_MOST_KEPT = 16


def _key_version(db: Database, experiment_id: ExperimentId, version: str) -> Hashable:
    del db
    return experiment_id, version


@cached(LRUCache(_MOST_KEPT), key=_key_version, condition=Condition())
def read_document(db: Database, experiment_id: ExperimentId, version: str) -> bytes:
    """The results document as JSON, made once for all who have not got this `version` of it (an entity tag)."""
    del version
    row = experiments.get(db, experiment_id)
    if row.results is not None:
        return json.dumps(row.results, separators=(",", ":")).encode()
    return make_results(db, row).model_dump_json().encode()


def make_results(db: Database, row: ExperimentRow) -> Results:
    """What the current attempt has found so far."""
    item = row.item
    resolved = resolve(row.spec)
    stored = trials.read_arms(db, item.id, item.attempt)
    started = {arm.resolved.arm: arm.resolved for arm in stored}
    keys = [
        build_noise_keys(row.spec, arm, started[arm.name]).fingerprint for arm in resolved.arms if arm.name in started
    ]
    current = row.attempts[-1] if row.attempts else None
    return build_results(
        item.id,
        spec=row.spec,
        resolved=resolved,
        plan=plan_trials(row.spec, resolved),
        status=item.status,
        arms=[arm.resolved for arm in stored],
        trials=trials.read_trials(db, item.id, item.attempt),
        failure=item.failure,
        noise=None if row.spec.calibrate else combine_noise(read_noise_under(db, keys)),
        continuation=None if current is None else current.continuation,
        workload_sha256=None if current is None else current.workload_sha256,
    )
