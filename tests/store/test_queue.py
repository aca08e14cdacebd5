"""The queue's promises, one by one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update
from sqlalchemy.exc import StatementError

from app.errors import Conflict, FailureCode, IdempotencyMismatch, InvalidInput, NotFound, TooManyRequests
from app.spec.lifecycle import Current, Progress, Status, Step
from app.spec.workload import Fixed, SyntheticPrompts, Workload
from app.store import catalogue, experiments, queue
from app.store.actors import Actor
from app.store.database import Database
from app.store.tables import experiments as table
from tests.support.builders import a_simulated_spec, a_spec
from tests.support.store import A_FAILURE, LEASE_S, NOBODY, changes_of, claim, expire, fail, start, status, submit

# --- submitting ----------------------------------------------------------------------------------------------------


def test_an_experiment_waits_in_the_queue_as_it_was_submitted(db: Database) -> None:
    spec = a_simulated_spec(name="sync against async", labels={"suite": "demo"}, engine={"max_num_seqs": None})

    enqueued = queue.enqueue(db, spec)

    row = experiments.get(db, enqueued.experiment_id)
    assert enqueued.created
    assert len(enqueued.experiment_id) == 16
    assert row.spec == spec
    assert row.submitted["engine"] == {"max_num_seqs": None}, "an explicit null is not the same as nothing"
    assert "workload" not in row.submitted
    assert (row.item.status, row.item.attempt, row.queue_position) == (Status.QUEUED, 0, 1)
    assert (row.item.name, row.item.labels, row.item.model) == (spec.name, spec.labels, "tiny-qwen2")
    assert row.item.simulated
    assert changes_of(db, enqueued.experiment_id) == [(None, Status.QUEUED)]


def test_an_experiment_with_engines_is_not_simulated(db: Database) -> None:
    enqueued = queue.enqueue(db, a_spec())

    assert not experiments.get_item(db, enqueued.experiment_id).simulated


def test_an_experiment_that_contradicts_itself_is_not_queued(db: Database) -> None:
    with pytest.raises(InvalidInput):
        queue.enqueue(db, a_simulated_spec(baseline="nobody"))

    assert catalogue.page(db).items == ()


def test_a_spec_that_would_be_read_differently_is_not_queued(db: Database) -> None:
    spec = a_simulated_spec()
    never_validated = spec.plan.model_copy(update={"seed": -1})

    with pytest.raises(ValueError, match="does not survive"):
        queue.enqueue(db, spec.model_copy(update={"plan": never_validated}))


def test_a_spec_whose_parts_were_built_without_their_tags_is_queued(db: Database) -> None:
    untagged = Workload(prompts=SyntheticPrompts(tokens=Fixed(value=5)))

    queued = queue.enqueue(db, a_simulated_spec().model_copy(update={"workload": untagged}))

    assert experiments.get(db, queued.experiment_id).spec.workload == untagged


@pytest.mark.parametrize("text", ["a\0b", "half a pair \ud800", "\N{SNOWMAN}"])
def test_any_text_can_be_stored(db: Database, text: str) -> None:
    experiment_id = submit(db, name="any text")
    with db.write() as connection:
        connection.execute(update(table).values(labels={text: text}, name=text))

    item = experiments.get_item(db, experiment_id)
    assert item.labels == {text: text}
    assert item.name == text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\ud800", "?")


def test_the_same_key_and_body_give_the_first_experiment_again(db: Database) -> None:
    first = queue.enqueue(db, a_simulated_spec(), idempotency_key="a")
    again = queue.enqueue(db, a_simulated_spec(), idempotency_key="a")
    other = queue.enqueue(db, a_simulated_spec(), idempotency_key="b")

    assert (first.created, again.created, other.created) == (True, False, True)
    assert again.experiment_id == first.experiment_id != other.experiment_id
    assert len(catalogue.page(db).items) == 2


def test_the_same_key_and_another_body_are_refused(db: Database) -> None:
    queue.enqueue(db, a_simulated_spec(), idempotency_key="a")

    with pytest.raises(IdempotencyMismatch):
        queue.enqueue(db, a_simulated_spec(name="another"), idempotency_key="a")


def test_a_key_is_remembered_after_the_experiment_has_ended(db: Database) -> None:
    first = queue.enqueue(db, a_simulated_spec(), idempotency_key="a")
    fail(db, claim(db))

    assert queue.enqueue(db, a_simulated_spec(), idempotency_key="a").experiment_id == first.experiment_id


def test_one_of_two_simultaneous_submissions_with_one_key_wins(db: Database) -> None:
    for round_ in range(10):
        barrier = threading.Barrier(2)

        def submit_at_once(_: int, key: str = str(round_), barrier: threading.Barrier = barrier) -> queue.Enqueued:
            barrier.wait()
            return queue.enqueue(db, a_simulated_spec(), idempotency_key=key)

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(submit_at_once, range(2))
        assert first.experiment_id == second.experiment_id
        assert first.created != second.created


def test_one_of_two_simultaneous_bodies_with_one_key_is_refused(db: Database) -> None:
    barrier = threading.Barrier(2)

    def submit_at_once(name: str) -> bool:
        barrier.wait()
        try:
            return queue.enqueue(db, a_simulated_spec(name=name), idempotency_key="a").created
        except IdempotencyMismatch:
            return False

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(submit_at_once, ["this", "that"])) == [False, True]


# --- claiming ------------------------------------------------------------------------------------------------------


def test_an_empty_queue_has_nothing_to_claim(db: Database) -> None:
    assert queue.claim(db, "worker-1", LEASE_S) is None


def test_a_claim_carries_the_spec_and_the_lease(db: Database) -> None:
    enqueued = queue.enqueue(db, a_simulated_spec(plan={"blocks": 3}))

    claimed = queue.claim(db, "worker-1", LEASE_S)

    assert claimed is not None
    assert claimed.lease == queue.Lease(enqueued.experiment_id, 1, "worker-1")
    assert claimed.spec == a_simulated_spec(plan={"blocks": 3})
    assert claimed.retry_of is None
    row = experiments.get(db, enqueued.experiment_id)
    assert (row.item.status, row.item.attempt, row.owner, row.queue_position) == (Status.RUNNING, 1, "worker-1", None)
    assert row.item.started_at is not None
    assert row.heartbeat_at is not None
    assert row.lease_expires_at is not None
    assert (row.lease_expires_at - row.heartbeat_at).total_seconds() == LEASE_S


def test_what_is_claimed_is_not_claimed_again(db: Database) -> None:
    start(db)

    assert queue.claim(db, "worker-2", LEASE_S) is None


def test_higher_priority_goes_first_and_then_whoever_came_first(db: Database) -> None:
    low = submit(db, limits={"priority": -1})
    first, second = submit(db), submit(db)
    high = submit(db, limits={"priority": 7})

    positions = [experiments.get(db, each).queue_position for each in (high, first, second, low)]
    claimed = [claim(db).experiment_id for _ in range(4)]

    assert positions == [1, 2, 3, 4]
    assert claimed == [high, first, second, low]


def test_equal_times_are_ordered_the_same_way_everywhere(db: Database) -> None:
    waiting = [submit(db) for _ in range(5)]
    with db.write() as connection:
        connection.execute(update(table).values(queued_at=db.now()))

    by_position = sorted(waiting, key=lambda each: experiments.get(db, each).queue_position or 0)

    assert [experiments.get(db, each).queue_position for each in by_position] == [1, 2, 3, 4, 5]
    assert [claim(db).experiment_id for _ in waiting] == by_position == sorted(waiting)


def test_a_spec_that_this_version_cannot_read_fails_and_spares_the_worker(db: Database) -> None:
    unreadable = submit(db)
    with db.write() as connection:
        connection.execute(update(table).values(spec={"arms": "of an older version"}))
    readable = submit(db)

    assert queue.claim(db, "worker-1", LEASE_S) is None
    assert claim(db).experiment_id == readable
    failure = experiments.get_item(db, unreadable).failure
    assert failure is not None
    assert failure.code is FailureCode.INTERNAL
    assert changes_of(db, unreadable)[-1] == (Status.RUNNING, Status.FAILED)


# --- the heartbeat -------------------------------------------------------------------------------------------------


def test_a_beat_extends_the_lease_and_tells_progress(db: Database) -> None:
    lease = start(db)
    progress = Progress(
        step=Step.MEASURING, trials_done=3, trials_total=12, current=Current(arm="sync", block=1), eta_s=40.5
    )
    before = experiments.get(db, lease.experiment_id).lease_expires_at

    assert not queue.beat(db, lease, 2 * LEASE_S, progress).cancel_requested
    queue.beat(db, lease, 2 * LEASE_S)

    row = experiments.get(db, lease.experiment_id)
    assert row.item.progress == progress
    assert before is not None
    assert row.lease_expires_at is not None
    assert (row.lease_expires_at - before).total_seconds() >= LEASE_S


def test_a_beat_in_time_saves_an_expired_lease(db: Database) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)

    queue.beat(db, lease, LEASE_S)

    assert queue.reap(db) == ()


# --- cancelling ----------------------------------------------------------------------------------------------------


def test_a_queued_experiment_is_cancelled_at_once(db: Database) -> None:
    experiment_id = submit(db)

    assert queue.request_cancel(db, experiment_id) is Status.CANCELLED

    assert queue.claim(db, "worker-1", LEASE_S) is None
    assert changes_of(db, experiment_id) == [(None, Status.QUEUED), (Status.QUEUED, Status.CANCELLED)]
    assert experiments.get_item(db, experiment_id).finished_at is not None


def test_the_worker_of_a_running_experiment_is_asked_to_stop(db: Database) -> None:
    lease = start(db)

    assert queue.request_cancel(db, lease.experiment_id) is Status.RUNNING
    assert queue.request_cancel(db, lease.experiment_id) is Status.RUNNING

    assert experiments.get_item(db, lease.experiment_id).cancel_requested
    assert queue.beat(db, lease, LEASE_S).cancel_requested
    queue.finish(db, lease, Status.CANCELLED, results={"complete": False}, reason="cancelled")
    assert experiments.get(db, lease.experiment_id).results == {"complete": False}


@pytest.mark.parametrize("end", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_an_experiment_that_has_ended_stays_as_it_is(db: Database, end: Status) -> None:
    lease = start(db)
    queue.finish(db, lease, end, failure=A_FAILURE if end is Status.FAILED else None, reason="over")
    before = experiments.get(db, lease.experiment_id)

    assert queue.request_cancel(db, lease.experiment_id) is end
    assert queue.reap(db) == ()
    assert queue.claim(db, "worker-2", LEASE_S) is None

    assert experiments.get(db, lease.experiment_id) == before


def test_what_does_not_exist_cannot_be_cancelled(db: Database) -> None:
    with pytest.raises(NotFound):
        queue.request_cancel(db, NOBODY)


def test_a_cancel_request_is_not_lost_between_a_claim_and_a_hand_back(db: Database) -> None:
    experiment_id = submit(db)
    stop = threading.Event()

    def claim_and_hand_back() -> None:
        while not stop.is_set():
            claimed = queue.claim(db, "worker-1", LEASE_S)
            if claimed is not None:
                queue.hand_back(db, claimed.lease, "draining")

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(claim_and_hand_back) for _ in range(2)]
        try:
            while not experiments.get_item(db, experiment_id).attempt:
                pass
            told = queue.request_cancel(db, experiment_id)
        finally:
            stop.set()
        for worker in workers:
            worker.result()

    assert told in {Status.CANCELLED, Status.RUNNING}
    assert status(db, experiment_id) is Status.CANCELLED


# --- ending --------------------------------------------------------------------------------------------------------


def test_a_finished_experiment_has_results_and_a_verdict(db: Database) -> None:
    lease = start(db)

    queue.finish(db, lease, Status.SUCCEEDED, results={"summary": "same"}, verdicts=["same"], reason="done")

    row = experiments.get(db, lease.experiment_id)
    assert (row.item.status, row.item.verdict, row.results) == (Status.SUCCEEDED, "same", {"summary": "same"})
    assert (row.owner, row.lease_expires_at, row.item.failure) == (None, None, None)
    assert row.item.finished_at is not None
    (attempt,) = row.attempts
    assert (attempt.owner, attempt.outcome, attempt.failure) == ("worker-1", Status.SUCCEEDED, None)
    assert [event.seq for event in experiments.list_events_after(db, lease.experiment_id)] == [1, 2, 3]


def test_what_has_ended_is_on_its_way_no_more(db: Database) -> None:
    lease = start(db)
    queue.beat(db, lease, LEASE_S, Progress(step=Step.MEASURING, trials_done=1, trials_total=2, eta_s=1.0))

    queue.finish(db, lease, Status.SUCCEEDED, reason="all blocks done")

    assert experiments.get_item(db, lease.experiment_id).progress is None


def test_results_may_be_a_model(db: Database) -> None:
    lease = start(db)
    progress = Progress(step=Step.FINISHING, trials_done=1, trials_total=1, current=None, eta_s=None)

    queue.finish(db, lease, Status.SUCCEEDED, results=progress, reason="all blocks done")

    assert experiments.get(db, lease.experiment_id).results == progress.model_dump(mode="json")


def test_a_failed_experiment_says_why(db: Database) -> None:
    lease = start(db)

    fail(db, lease)

    row = experiments.get(db, lease.experiment_id)
    event = experiments.list_events_after(db, lease.experiment_id)[-1]
    assert row.item.failure == A_FAILURE == row.attempts[0].failure
    assert (event.reason, event.owner, event.attempt) == ("it broke", "worker-1", 1)
    assert event.detail == A_FAILURE.model_dump(mode="json")


@pytest.mark.parametrize("end", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_finishing_twice_after_a_lost_acknowledgement_is_no_error(db: Database, end: Status) -> None:
    lease = start(db)

    for _ in range(2):
        queue.finish(db, lease, end, failure=A_FAILURE if end is Status.FAILED else None, reason="over")

    assert len(changes_of(db, lease.experiment_id)) == 3


@pytest.mark.parametrize("end", [Status.QUEUED, Status.RUNNING])
def test_finishing_is_no_way_to_a_state_that_is_no_end(db: Database, end: Status) -> None:
    with pytest.raises(ValueError, match="cannot end"):
        queue.finish(db, start(db), end, reason="over")


def test_a_failure_and_only_a_failure_has_a_cause(db: Database) -> None:
    lease = start(db)

    with pytest.raises(ValueError, match="cannot end"):
        queue.finish(db, lease, Status.FAILED, reason="over")
    with pytest.raises(ValueError, match="cannot end"):
        queue.finish(db, lease, Status.SUCCEEDED, failure=A_FAILURE, reason="over")


def test_results_that_are_not_json_are_refused(db: Database) -> None:
    lease = start(db)

    with pytest.raises((StatementError, ValueError), match="not JSON compliant"):
        queue.finish(db, lease, Status.SUCCEEDED, results={"mean": float("nan")}, reason="over")

    assert status(db, lease.experiment_id) is Status.RUNNING


# --- handing back and retrying -------------------------------------------------------------------------------------


def test_a_draining_worker_hands_its_experiment_back_to_its_old_place(db: Database) -> None:
    lease = start(db)
    later = submit(db)

    assert queue.hand_back(db, lease, "draining") is Status.QUEUED
    assert queue.hand_back(db, lease, "draining") is Status.QUEUED, "the first acknowledgement may be lost"

    assert experiments.get_item(db, lease.experiment_id).progress is None
    again = claim(db, "worker-2")
    assert again == queue.Lease(lease.experiment_id, 2, "worker-2")
    assert claim(db).experiment_id == later
    first, second = experiments.get(db, lease.experiment_id).attempts
    assert (first.outcome, first.failure, second.outcome) == (Status.QUEUED, None, None)


def test_a_cancelled_experiment_is_not_handed_to_another_worker(db: Database) -> None:
    lease = start(db)
    queue.request_cancel(db, lease.experiment_id)

    assert queue.hand_back(db, lease, "draining") is Status.CANCELLED
    assert queue.hand_back(db, lease, "draining") is Status.CANCELLED


def test_a_retry_is_a_new_experiment_that_names_the_old_one(db: Database) -> None:
    lease = start(db, name="nightly", labels={"suite": "nightly"})
    fail(db, lease)

    retried = queue.retry(db, lease.experiment_id)

    old, new = experiments.get(db, lease.experiment_id), experiments.get(db, retried.experiment_id)
    assert old.item.status is Status.FAILED
    assert old.retries == (retried.experiment_id,)
    assert new.item.retry_of == lease.experiment_id
    assert new.submitted == old.submitted
    claimed = queue.claim(db, "worker-2", LEASE_S)
    assert claimed is not None
    assert claimed.retry_of == lease.experiment_id


def test_a_repeated_retry_with_one_key_queues_once(db: Database) -> None:
    lease = start(db)
    fail(db, lease)

    first = queue.retry(db, lease.experiment_id, idempotency_key="again")
    second = queue.retry(db, lease.experiment_id, idempotency_key="again")

    assert (first.experiment_id, second.created) == (second.experiment_id, False)
    with pytest.raises(IdempotencyMismatch):
        queue.enqueue(db, a_simulated_spec(), idempotency_key="again")


def test_only_what_failed_or_was_cancelled_can_be_retried(db: Database) -> None:
    lease = start(db)
    with pytest.raises(Conflict, match="running"):
        queue.retry(db, lease.experiment_id)
    queue.finish(db, lease, Status.SUCCEEDED, reason="all blocks done")
    with pytest.raises(Conflict, match="succeeded"):
        queue.retry(db, lease.experiment_id)
    with pytest.raises(NotFound):
        queue.retry(db, NOBODY)
    cancelled = submit(db)
    queue.request_cancel(db, cancelled)
    assert queue.retry(db, cancelled).created


# --- lost workers --------------------------------------------------------------------------------------------------


def test_a_living_lease_is_not_reaped(db: Database) -> None:
    start(db)

    assert queue.reap(db) == ()


def test_an_experiment_whose_worker_is_lost_fails(db: Database) -> None:
    lease = start(db)
    expire(db, lease.experiment_id)

    assert queue.reap(db) == (lease.experiment_id,)
    assert queue.reap(db) == ()

    row = experiments.get(db, lease.experiment_id)
    event = experiments.list_events_after(db, lease.experiment_id)[-1]
    assert row.item.status is Status.FAILED
    assert row.item.failure is not None
    assert row.item.failure.code is FailureCode.WORKER_LOST
    assert (event.to_status, event.owner, event.attempt) == (Status.FAILED, "worker-1", 1)


def test_an_experiment_that_wants_it_is_queued_again_behind_the_others(db: Database) -> None:
    lease = start(db, limits={"retry_on_loss": True})
    other = submit(db)
    expire(db, lease.experiment_id)

    assert queue.reap(db) == (lease.experiment_id,)

    assert status(db, lease.experiment_id) is Status.QUEUED
    assert claim(db).experiment_id == other
    assert claim(db) == queue.Lease(lease.experiment_id, 2, "worker-1")
    lost = experiments.get(db, lease.experiment_id).attempts[0]
    assert lost.outcome is Status.QUEUED
    assert lost.failure is not None
    assert lost.failure.code is FailureCode.WORKER_LOST


def test_an_attempt_that_lost_its_ray_is_queued_again_where_its_spec_wants_it(db: Database) -> None:
    lease = start(db, limits={"retry_on_loss": True})
    other = submit(db)

    assert queue.lose(db, lease, A_FAILURE)
    assert queue.lose(db, lease, A_FAILURE), "the acknowledgement was lost"

    assert claim(db).experiment_id == other
    assert claim(db) == queue.Lease(lease.experiment_id, 2, "worker-1")
    first = experiments.get(db, lease.experiment_id).attempts[0]
    assert (first.outcome, first.failure) == (Status.QUEUED, A_FAILURE)


@pytest.mark.parametrize(("wanted", "cancelled"), [(False, False), (True, True)])
def test_an_attempt_that_lost_its_ray_is_else_its_worker_s_to_end(db: Database, wanted: bool, cancelled: bool) -> None:
    lease = start(db, limits={"retry_on_loss": wanted})
    if cancelled:
        queue.request_cancel(db, lease.experiment_id)

    assert not queue.lose(db, lease, A_FAILURE)

    queue.finish(db, lease, Status.FAILED, failure=A_FAILURE, reason="lost")
    assert experiments.get(db, lease.experiment_id).item.failure == A_FAILURE


def test_an_experiment_that_kills_every_worker_is_given_up(db: Database) -> None:
    experiment_id = submit(db, limits={"retry_on_loss": True})

    for _ in range(queue.MAX_LOSSES):
        assert claim(db).experiment_id == experiment_id
        expire(db, experiment_id)
        queue.reap(db)

    row = experiments.get(db, experiment_id)
    assert row.item.status is Status.FAILED
    assert [attempt.outcome for attempt in row.attempts] == [Status.QUEUED, Status.QUEUED, Status.FAILED]


def test_an_experiment_somebody_gave_up_is_cancelled_when_its_worker_is_lost(db: Database) -> None:
    lease = start(db, limits={"retry_on_loss": True})
    queue.request_cancel(db, lease.experiment_id)
    expire(db, lease.experiment_id)

    queue.reap(db)

    row = experiments.get(db, lease.experiment_id)
    assert (row.item.status, row.item.failure) == (Status.CANCELLED, None)
    assert row.attempts[0].failure is not None


def test_two_reapers_reap_once(db: Database) -> None:
    leases = [start(db) for _ in range(8)]
    for lease in leases:
        expire(db, lease.experiment_id)

    with ThreadPoolExecutor(4) as pool:
        reaped = [found for batch in pool.map(lambda _: queue.reap(db), range(4)) for found in batch]

    assert sorted(reaped) == sorted(lease.experiment_id for lease in leases)
    assert all(len(changes_of(db, lease.experiment_id)) == 3 for lease in leases)


def test_one_submitter_cannot_fill_the_queue(db: Database) -> None:
    mine, other = Actor("mine"), Actor("other")
    for _ in range(2):
        queue.enqueue(db, a_simulated_spec(), by=mine, most_queued=2)
    with pytest.raises(TooManyRequests, match="mine has 2 experiments in the queue"):
        queue.enqueue(db, a_simulated_spec(), by=mine, most_queued=2)
    assert queue.enqueue(db, a_simulated_spec(), by=other, most_queued=2).created
    assert queue.enqueue(db, a_simulated_spec(), by=mine).created
    assert experiments.counts(db)[Status.QUEUED] == 4
