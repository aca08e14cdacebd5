"""What an attempt takes over from those before it."""

from sqlalchemy import func, select

from app.judge.continuation import Continuation, EarlierBlocks
from app.measure.records import TrialState
from app.store import continuation, experiments, queue, trials
from app.store.database import Database
from app.store.queue import Lease
from app.store.tables import trial_records
from tests.store.test_trials import request_ids, save
from tests.support.builders import a_resolved_arm, a_trial
from tests.support.store import claim, expire, fail, start

ARMS = ("sync", "async")


def run_blocks(db: Database, lease: Lease, *blocks: int) -> None:
    """Store what an attempt leaves behind."""
    for arm in ARMS:
        trials.save_arm(db, lease, a_resolved_arm(arm, pids=(lease.attempt,)))
    for block in blocks:
        for position, arm in enumerate(ARMS):
            save(db, lease, a_trial(arm, block, position))


def blocks_of(lease: Lease, *blocks: int) -> Continuation:
    return Continuation(
        taken_over=(EarlierBlocks(experiment_id=lease.experiment_id, attempt=lease.attempt, blocks=blocks),)
    )


def test_a_retry_takes_over_blocks_with_their_records(db: Database) -> None:
    old = start(db)
    run_blocks(db, old, 0, 1, 2)
    fail(db, old)
    retried = queue.retry(db, old.experiment_id)
    new = claim(db)
    assert new.experiment_id == retried.experiment_id
    own = save(db, new, a_trial("sync", 1, 0, throughput=50.0))

    taken = continuation.take_over(db, new, blocks_of(old, 0, 1))

    assert taken == 2, "the block it has begun by itself is left alone"
    assert continuation.take_over(db, new, blocks_of(old, 0, 1)) == 0
    stored = trials.read_trials(db, new.experiment_id)
    assert [(t.planned.arm, t.planned.block) for t in stored] == [("sync", 0), ("async", 0), ("sync", 1)]
    assert stored[2] == own
    assert request_ids(db, new) == ["measured sync 0", "measured async 0", "measured sync 1"]
    with db.read() as connection:
        stored_once = connection.execute(select(func.count()).select_from(trial_records)).scalar_one()
    assert stored_once == 7, "records are shared, not copied"


def test_a_second_attempt_takes_over_from_the_first_and_says_so(db: Database) -> None:
    first = start(db)
    run_blocks(db, first, 0)
    queue.hand_back(db, first, "draining")
    second = claim(db)

    assert continuation.take_over(db, second, blocks_of(first, 0)) == 2

    both = trials.read_trials(db, second.experiment_id, attempt=2)
    assert [trial.planned.arm for trial in both] == ["sync", "async"]
    assert all(trial.state is TrialState.SUCCEEDED for trial in both)
    told = [attempt.continuation for attempt in experiments.get(db, second.experiment_id).attempts]
    assert told == [None, blocks_of(first, 0)]


def test_earlier_attempts_are_found_newest_first_and_along_the_chain_of_retries(db: Database) -> None:
    first = start(db)
    run_blocks(db, first, 0)
    fail(db, first)
    queue.retry(db, first.experiment_id)
    second = claim(db)
    fail(db, second)
    third = queue.retry(db, second.experiment_id).experiment_id
    claimed = queue.claim(db, "worker-1", 30.0)
    assert claimed is not None
    assert claimed.lease.experiment_id == third
    run_blocks(db, claimed.lease, 1)
    continuation.keep_workload(db, claimed.lease, "f" * 64)
    queue.hand_back(db, claimed.lease, "draining")
    again = queue.claim(db, "worker-2", 30.0)
    assert again is not None

    found = continuation.read_earlier_attempts(db, again.lease, again.retry_of)

    assert [(one.experiment_id, one.attempt) for one in found] == [
        (third, 1),
        (second.experiment_id, 1),
        (first.experiment_id, 1),
    ]
    assert [len(one.trials) for one in found] == [2, 0, 2]
    assert [arm.pids for arm in found[0].arms] == [(1,), (1,)]
    assert [one.workload_sha256 for one in found] == ["f" * 64, None, None]


def test_a_later_attempt_is_no_earlier_one(db: Database) -> None:
    lost = start(db, limits={"retry_on_loss": True})
    expire(db, lost.experiment_id)
    queue.reap(db)
    second = claim(db, "worker-2")

    assert continuation.read_earlier_attempts(db, lost, None) == ()
    assert [one.attempt for one in continuation.read_earlier_attempts(db, second, None)] == [1]
