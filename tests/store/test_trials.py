"""What attempts leave behind."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, func, select, update

from app.errors import Conflict
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, HarnessUse, ProcessTreatment, Unseen
from app.spec.plan import Phase
from app.store import queue, trials
from app.store.database import Database
from app.store.parquet import list_records, list_samples
from app.store.queue import Lease
from app.store.tables import trial_records
from app.store.tables import trials as trials_table
from tests.support.builders import a_gpu, a_neighbour, a_record, a_resolved_arm, a_result, a_trial, an_engine_sample
from tests.support.store import claim, expire, start

CONDITIONS = Conditions(
    load_before=0.5,
    engine_processes=(ProcessTreatment("VLLM::Worker", 0, "0-7"),),
    gpus=(a_gpu(a_neighbour(memory_mib=None), unseen={Unseen.SHARES: "Insufficient Permissions"}),),
)


def save(db: Database, lease: Lease, summary: TrialSummary) -> TrialSummary:
    """Store a trial with one record that names it."""
    summary = replace(summary, attempt=lease.attempt)
    name = f"{summary.planned.phase} {summary.planned.arm} {summary.planned.block}"
    result = a_result(a_record(request_id=name), planned=summary.planned, timeline=(an_engine_sample(at=0.5),))
    trials.save_trial(db, lease, result, summary)
    return summary


def request_ids(db: Database, lease: Lease, arm: str | None = None, slot: int | None = None) -> list[str]:
    """The records found, by the names `save` gave them."""
    return [
        record.request_id
        for _, table in trials.read_records(db, lease.experiment_id, arm, slot)
        for record in list_records(table)
    ]


def test_a_resolved_arm_comes_back_as_it_was(db: Database) -> None:
    lease = start(db)
    arms = [
        a_resolved_arm("sync", {"engine.a": None, "engine.b": [1, "x"]}, pids=(1, 2), start_s=1.25, can_sleep=True),
        a_resolved_arm("async", simulated=True),
    ]

    for arm in arms:
        trials.save_arm(db, lease, arm)

    assert trials.read_arms(db, lease.experiment_id) == (
        trials.StoredArm(1, arms[1]),
        trials.StoredArm(1, arms[0]),
    )


def test_an_engine_that_starts_anew_replaces_what_was_known_of_it(db: Database) -> None:
    lease = start(db)

    for pid in (1, 2):
        trials.save_arm(db, lease, a_resolved_arm("sync", pids=(pid,)))

    (stored,) = trials.read_arms(db, lease.experiment_id)
    assert stored.resolved.pids == (2,)


def test_every_attempt_keeps_its_arms(db: Database) -> None:
    first = start(db)
    trials.save_arm(db, first, a_resolved_arm("sync", pids=(1,)))
    queue.hand_back(db, first, "draining")
    second = claim(db)
    trials.save_arm(db, second, a_resolved_arm("sync", pids=(2,)))

    assert [arm.attempt for arm in trials.read_arms(db, first.experiment_id)] == [1, 2]
    assert [arm.resolved.pids for arm in trials.read_arms(db, first.experiment_id, attempt=2)] == [(2,)]


@pytest.mark.parametrize(
    "summary",
    [
        a_trial(),
        a_trial(error="the engine died\0"),
        a_trial(phase=Phase.WARMUP),
        a_trial(harness=None, conditions=None, work=None),
        a_trial(
            harness=HarnessUse(cpu_s=0.25, event_loop_lag_ms=1.5, outputs=7),
            conditions=CONDITIONS,
            metrics={"ttft_ms.p50": None},
            missing={"ttft_ms.p50": "the driver cannot see it"},
        ),
    ],
    ids=["plain", "failed", "warm-up", "bare", "full"],
)
def test_a_trial_comes_back_as_it_was(db: Database, summary: TrialSummary) -> None:
    lease = start(db)

    save(db, lease, summary)

    (stored,) = trials.read_trials(db, lease.experiment_id)
    error = None if summary.error is None else summary.error.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert stored == replace(summary, error=error)


def test_conditions_that_an_earlier_version_wrote_are_read(db: Database) -> None:
    lease = start(db)
    save(db, lease, a_trial())
    earlier = {"load_before": 0.5, "other_cpu_pct": 12.0, "power_w": 560.0, "throttled": True}
    with db.write() as connection:
        connection.execute(update(trials_table).values(conditions=earlier))

    (stored,) = trials.read_trials(db, lease.experiment_id)
    assert stored.conditions == Conditions(load_before=0.5, other_cpu_pct=12.0, power_w=560.0)


def test_trials_are_listed_in_the_order_they_ran(db: Database) -> None:
    lease = start(db)
    ran = [
        save(db, lease, replace(summary, started_at=1_700_000_000.0 + second))
        for second, summary in enumerate(
            [
                a_trial("sync", phase=Phase.WARMUP),
                a_trial("async", phase=Phase.WARMUP, position=1),
                a_trial("sync"),
                a_trial("async", position=1),
                a_trial("async", block=1),
                a_trial("sync", block=1, position=1),
            ]
        )
    ]

    assert trials.read_trials(db, lease.experiment_id) == tuple(ran)


def test_saving_twice_after_a_lost_acknowledgement_stores_once(db: Database) -> None:
    lease = start(db)

    for _ in range(2):
        save(db, lease, a_trial())

    assert len(trials.read_trials(db, lease.experiment_id)) == 1
    with db.read() as connection:
        assert connection.execute(select(func.count()).select_from(trial_records)).scalar_one() == 1


def test_another_result_of_the_same_trial_is_refused(db: Database) -> None:
    lease = start(db)
    save(db, lease, a_trial())

    with pytest.raises(Conflict, match="block 0, arm 'sync'"):
        save(db, lease, replace(a_trial(), wall_s=9.0))


def test_a_lost_attempt_keeps_its_finished_trials(db: Database) -> None:
    first = start(db, limits={"retry_on_loss": True})
    save(db, first, a_trial("sync"))
    expire(db, first.experiment_id)
    queue.reap(db)
    second = claim(db)
    save(db, second, a_trial("sync"))

    assert [trial.attempt for trial in trials.read_trials(db, first.experiment_id)] == [1, 2]
    assert [trial.attempt for trial in trials.read_trials(db, first.experiment_id, attempt=2)] == [2]


def test_request_records_of_measured_trials_can_be_picked(db: Database) -> None:
    lease = start(db)
    save(db, lease, a_trial("sync", phase=Phase.WARMUP))
    for block in range(2):
        for position, arm in enumerate(["sync", "async"]):
            save(db, lease, a_trial(arm, block, position))

    assert request_ids(db, lease) == ["measured sync 0", "measured async 0", "measured sync 1", "measured async 1"]
    assert request_ids(db, lease, arm="async") == ["measured async 0", "measured async 1"]
    assert request_ids(db, lease, slot=2) == ["measured sync 1"]
    assert request_ids(db, lease, arm="async", slot=2) == []
    assert request_ids(db, lease, arm="\0", slot=2**80) == []
    ((trial, table),) = trials.read_timelines(db, lease.experiment_id, slot=3)
    assert (trial.attempt, trial.planned) == (1, a_trial("async", 1, 1).planned)
    assert list_samples(table) == (an_engine_sample(at=0.5),)


def test_no_transaction_stays_open_while_records_are_read(db: Database) -> None:
    lease = start(db)
    for block in range(2):
        save(db, lease, a_trial(block=block))

    for _ in trials.read_records(db, lease.experiment_id):
        save(db, lease, a_trial("async", block=7))

    assert len(request_ids(db, lease)) == 3


def test_where_records_were_deleted_summaries_stay(db: Database) -> None:
    lease = start(db)
    for block in range(6):
        trials.save_trial(db, lease, a_result(planned=a_trial(block=block).planned), a_trial(block=block))
    before = trials.read_trials(db, lease.experiment_id)
    with db.write() as connection:
        ids = connection.execute(select(trial_records.c.id).order_by(trial_records.c.id)).scalars().all()
        connection.execute(delete(trial_records).where(trial_records.c.id.in_(ids[:5])))

    assert trials.read_trials(db, lease.experiment_id) == before
    assert [trial.planned.block for trial, _ in trials.read_records(db, lease.experiment_id)] == [5]
