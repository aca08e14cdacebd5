"""What a worker can do once its attempt is somebody else's: nothing."""

from collections.abc import Callable

import pytest

from app.errors import LeaseLost
from app.judge.continuation import Continuation
from app.spec.lifecycle import Status
from app.store import continuation, experiments, queue, trials
from app.store.database import Database
from app.store.queue import Lease
from tests.support.builders import a_resolved_arm, a_result, a_trial
from tests.support.store import A_FAILURE, LEASE_S, claim, expire, start

WRITES: dict[str, Callable[[Database, Lease], object]] = {
    "beat": lambda db, lease: queue.beat(db, lease, LEASE_S),
    "succeed": lambda db, lease: queue.finish(db, lease, Status.SUCCEEDED, results={}, reason="stale"),
    "fail": lambda db, lease: queue.finish(db, lease, Status.FAILED, failure=A_FAILURE, reason="stale"),
    "cancel": lambda db, lease: queue.finish(db, lease, Status.CANCELLED, reason="stale"),
    "lose": lambda db, lease: queue.lose(db, lease, A_FAILURE),
    "hand back": lambda db, lease: queue.hand_back(db, lease, "stale"),
    "save an arm": lambda db, lease: trials.save_arm(db, lease, a_resolved_arm()),
    "save a trial": lambda db, lease: trials.save_trial(db, lease, a_result(), a_trial()),
    "keep the workload": lambda db, lease: continuation.keep_workload(db, lease, "0" * 64),
    "take over": lambda db, lease: continuation.take_over(db, lease, Continuation()),
}


def everything(db: Database, lease: Lease) -> object:
    return (
        experiments.get(db, lease.experiment_id),
        experiments.list_events_after(db, lease.experiment_id),
        trials.read_arms(db, lease.experiment_id),
        trials.read_trials(db, lease.experiment_id),
    )


def lost_and_claimed_by_another(db: Database) -> Lease:
    lease = start(db, limits={"retry_on_loss": True})
    expire(db, lease.experiment_id)
    queue.reap(db)
    assert claim(db, "worker-2").attempt == 2
    return lease


def lost_and_claimed_again_by_itself(db: Database) -> Lease:
    lease = start(db, limits={"retry_on_loss": True})
    expire(db, lease.experiment_id)
    queue.reap(db)
    assert claim(db, lease.owner).attempt == 2
    return lease


def lost_and_waiting(db: Database) -> Lease:
    lease = start(db, limits={"retry_on_loss": True})
    expire(db, lease.experiment_id)
    queue.reap(db)
    return lease


def lost_and_failed(db: Database) -> Lease:
    lease = start(db)
    expire(db, lease.experiment_id)
    queue.reap(db)
    return lease


def lost_and_cancelled(db: Database) -> Lease:
    lease = start(db)
    queue.request_cancel(db, lease.experiment_id)
    expire(db, lease.experiment_id)
    queue.reap(db)
    return lease


def never_held(db: Database) -> Lease:
    lease = start(db)
    return Lease(lease.experiment_id, lease.attempt, "worker-2")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "stale",
    [
        lost_and_claimed_by_another,
        lost_and_claimed_again_by_itself,
        lost_and_waiting,
        lost_and_failed,
        lost_and_cancelled,
        never_held,
    ],
)
def test_a_stale_worker_changes_nothing(db: Database, stale: Callable[[Database], Lease], write: str) -> None:
    lease = stale(db)
    before = everything(db, lease)

    with pytest.raises(LeaseLost, match=lease.experiment_id):
        WRITES[write](db, lease)

    assert everything(db, lease) == before


@pytest.mark.parametrize("write", WRITES)
def test_the_owner_can_do_all_of_it(db: Database, write: str) -> None:
    WRITES[write](db, start(db))


def test_every_change_makes_the_version_grow(db: Database) -> None:
    lease = start(db)
    versions = [experiments.get_item(db, lease.experiment_id).version]

    for write in ("beat", "save an arm", "save a trial", "succeed"):
        WRITES[write](db, lease)
        versions.append(experiments.get_item(db, lease.experiment_id).version)

    assert versions == sorted(set(versions))
