"""An experiment of a million requests, written as columns: as records it would take minutes."""

from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import insert

from app.judge.results import build_results
from app.spec.lifecycle import Status
from app.spec.plan import Phase, plan_trials
from app.spec.resolution import resolve
from app.store import queue, trials
from app.store.clock import now_us
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.parquet import RECORD_SCHEMA, SAMPLE_SCHEMA, write_parquet
from app.store.tables import trial_records
from app.store.tables import trials as table
from tests.support.builders import a_trial
from tests.support.stories import engine_of, rollout_spec, submitted

REQUESTS = 1_000_000


def a_million_requests(db: Database) -> ExperimentId:
    """Twelve trials of 83,334 requests each."""
    spec = rollout_spec(name="a million requests", plan={"blocks": 6})
    claimed = submitted(db, spec)
    lease, resolved = claimed.lease, resolve(claimed.spec)
    plan = plan_trials(claimed.spec, resolved)
    for arm in resolved.arms:
        trials.save_arm(db, lease, engine_of(arm.name, {}, arm.driver.model_dump(mode="json")))
    count = -(-REQUESTS // len(plan.measured))
    with db.write() as connection:
        for planned in plan.measured:
            blobs = {"records": write_parquet(_records(count, planned.slot)), "timeline": write_parquet(_timeline())}
            kept = connection.execute(
                insert(trial_records).values(stored_at=now_us(), **blobs).returning(trial_records.c.id)
            ).scalar_one()
            connection.execute(insert(table).values(_row(lease.experiment_id, lease.attempt, planned, kept)))
    stored = trials.read_trials(db, lease.experiment_id, lease.attempt)
    results = build_results(
        lease.experiment_id,
        spec=claimed.spec,
        resolved=resolved,
        plan=plan,
        status=Status.SUCCEEDED,
        arms=[one.resolved for one in trials.read_arms(db, lease.experiment_id, lease.attempt)],
        trials=stored,
    )
    queue.finish(db, lease, Status.SUCCEEDED, results=results, verdicts=("slower",), reason="all blocks done")
    return lease.experiment_id


def _row(experiment_id: ExperimentId, attempt: int, planned: Any, records_id: int) -> dict[str, Any]:
    speed = 6600.0 if planned.arm == "sync" else 5000.0
    trial = a_trial(planned.arm, planned.block, planned.position, throughput=speed + planned.block)
    return {
        "experiment_id": experiment_id,
        "attempt": attempt,
        **planned.model_dump(),
        "phase": Phase.MEASURED,
        "state": trial.state,
        "started_at": trial.started_at,
        "wall_s": trial.wall_s,
        "metrics": trial.metrics,
        "missing": trial.missing,
        "records_id": records_id,
    }


def _records(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    tokens = np.clip(rng.lognormal(np.log(320), 0.75, count), 1, 2048).astype(np.int32)
    sent = np.full(count, 0.001)
    first = 0.05 + rng.random(count)
    last = first + tokens * 0.008
    whole = np.arange(count, dtype=np.int32)
    zeros = np.zeros(count, dtype=np.int32)
    columns: dict[str, Any] = {
        "request_id": [f"m{seed}-{index}" for index in range(count)],
        "prompt_index": whole // 16,
        "sample_index": whole % 16,
        "replica": whole % 2,
        "turn": zeros,
        "prompt_tokens": np.full(count, 256, dtype=np.int32),
        "output_tokens": tokens,
        "cached_tokens": zeros,
        "finish_reason": ["length"] * count,
        "output_sha256": [f"{index:064x}" for index in range(count)],
        "arrived_s": np.zeros(count),
        "sent_s": sent,
        "received_s": pa.nulls(count, pa.float64()),
        "prepared_s": pa.nulls(count, pa.float64()),
        "queued_s": sent,
        "scheduled_s": sent + 0.001,
        "first_token_s": first,
        "last_token_s": last,
        "left_s": pa.nulls(count, pa.float64()),
        "delivered_s": last + 0.002,
        "agent_worker": pa.nulls(count, pa.int32()),
        "preemptions": zeros,
        "itl_ms": pa.nulls(count, pa.list_(pa.float32())),
    }
    return pa.table(columns, schema=RECORD_SCHEMA)


def _timeline() -> pa.Table:
    at = np.arange(0, 20, 0.008)
    running = np.linspace(256, 0, len(at)).astype(np.int32)
    zeros = np.zeros(len(at), dtype=np.int32)
    columns = {
        "at_s": at,
        "running": running,
        "waiting": zeros,
        "kv_cache_usage_pct": running / 8.0,
        "prompt_tokens": zeros,
        "output_tokens": running,
        "preemptions": zeros,
        **{name: pa.nulls(len(at), pa.int32()) for name in ("drafts", "draft_tokens", "accepted_tokens")},
    }
    return pa.table(columns, schema=SAMPLE_SCHEMA)
