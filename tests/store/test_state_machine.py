"""Whatever happens in whatever order, the queue does what a few lines of Python say it should."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import select

from app.errors import LeaseLost
from app.spec.lifecycle import TRANSITIONS, Failure, Status
from app.store import queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import Lease
from app.store.tables import events, experiments, metadata
from tests.support.store import A_FAILURE, LEASE_S, expire, submit

ENDS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)

any_lease = st.integers(0, 1000)  # counted back from the newest
any_experiment = st.integers(0, 1000)


@dataclass
class Model:
    """What should be true of one experiment."""

    priority: int
    retry_on_loss: bool
    status: Status = Status.QUEUED
    attempt: int = 0
    owner: str | None = None
    cancel_requested: bool = False
    losses: int = 0
    history: list[Status] = field(default_factory=lambda: [Status.QUEUED])

    @property
    def may_lose(self) -> bool:
        """Whether one more loss is no end."""
        return self.retry_on_loss and self.losses + 1 < queue.MAX_LOSSES

    def becomes(self, status: Status, owner: str | None = None) -> None:
        self.status = status
        self.owner = owner
        self.history.append(status)


class Queue(RuleBasedStateMachine):
    """Users, workers and a reaper, one step at a time."""

    db: Database

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[ExperimentId, Model] = {}
        self.leases: list[Lease] = []  # every one ever granted
        self.ended: dict[Lease, tuple[Status, Failure | None]] = {}  # by its own worker
        with self.db.write() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())

    @rule(priority=st.integers(-1, 1), retry_on_loss=st.booleans())
    def submit(self, priority: int, retry_on_loss: bool) -> None:
        experiment_id = submit(self.db, limits={"priority": priority, "retry_on_loss": retry_on_loss})
        self.models[experiment_id] = Model(priority, retry_on_loss)

    @rule(owner=st.sampled_from(["worker-1", "worker-2"]))
    def claim(self, owner: str) -> None:
        expected = self._first_in_queue()
        claimed = queue.claim(self.db, owner, LEASE_S)
        if claimed is None:
            assert expected is None
            return
        assert claimed.lease.experiment_id == expected
        model = self.models[expected]
        model.attempt += 1
        model.becomes(Status.RUNNING, owner)
        assert claimed.lease == Lease(expected, model.attempt, owner)
        self.leases.append(claimed.lease)

    @precondition(lambda self: self.leases)
    @rule(which=any_lease)
    def beat(self, which: int) -> None:
        lease = self._lease(which)
        if self._holds(lease):
            beat = queue.beat(self.db, lease, LEASE_S)
            assert beat.cancel_requested == self.models[lease.experiment_id].cancel_requested
        else:
            self._is_refused(lambda: queue.beat(self.db, lease, LEASE_S))

    @precondition(lambda self: self.leases)
    @rule(which=any_lease, end=st.sampled_from(ENDS))
    def finish(self, which: int, end: Status) -> None:
        lease = self._lease(which)
        failure = A_FAILURE if end is Status.FAILED else None

        def act() -> None:
            queue.finish(self.db, lease, end, failure=failure, reason="over")

        if self._holds(lease):
            act()
            self.models[lease.experiment_id].becomes(end)
            self.ended[lease] = (end, failure)
        elif self.ended.get(lease) == (end, failure):
            act()  # a repetition
        else:
            self._is_refused(act)

    @precondition(lambda self: self.leases)
    @rule(which=any_lease)
    def hand_back(self, which: int) -> None:
        lease = self._lease(which)
        if self._holds(lease):
            model = self.models[lease.experiment_id]
            target = Status.CANCELLED if model.cancel_requested else Status.QUEUED
            assert queue.hand_back(self.db, lease, "draining") is target
            model.becomes(target)
            self.ended[lease] = (target, None)
        elif self.ended.get(lease) in {(Status.CANCELLED, None), (Status.QUEUED, None)}:
            assert queue.hand_back(self.db, lease, "draining") is self.ended[lease][0]  # a repetition
        else:
            self._is_refused(lambda: queue.hand_back(self.db, lease, "draining"))

    @precondition(lambda self: self.models)
    @rule(which=any_experiment)
    def cancel(self, which: int) -> None:
        experiment_id, model = list(self.models.items())[-1 - which % len(self.models)]
        if model.status is Status.QUEUED:
            model.becomes(Status.CANCELLED)
        elif model.status is Status.RUNNING and not model.cancel_requested:
            model.cancel_requested = True
            model.history.append(Status.RUNNING)  # who asked it to stop, once
        assert queue.request_cancel(self.db, experiment_id) is model.status

    @precondition(lambda self: self.leases)
    @rule(which=any_lease)
    def be_lost(self, which: int) -> None:
        lease = self._lease(which)
        if not self._holds(lease):
            return
        expire(self.db, lease.experiment_id)
        assert queue.reap(self.db) == (lease.experiment_id,)
        model = self.models[lease.experiment_id]
        again = model.may_lose
        model.losses += 1
        if model.cancel_requested:
            model.becomes(Status.CANCELLED)
        else:
            model.becomes(Status.QUEUED if again else Status.FAILED)

    @precondition(lambda self: self.leases)
    @rule(which=any_lease)
    def lose(self, which: int) -> None:
        lease = self._lease(which)
        if self._holds(lease):
            model = self.models[lease.experiment_id]
            again = model.may_lose and not model.cancel_requested
            assert queue.lose(self.db, lease, A_FAILURE) is again
            if again:
                model.losses += 1
                model.becomes(Status.QUEUED)
                self.ended[lease] = (Status.QUEUED, A_FAILURE)
        elif self.ended.get(lease) == (Status.QUEUED, A_FAILURE):
            assert queue.lose(self.db, lease, A_FAILURE)  # a repetition
        else:
            self._is_refused(lambda: queue.lose(self.db, lease, A_FAILURE))

    @invariant()
    def the_database_agrees(self) -> None:
        c = experiments.c
        with self.db.read() as connection:
            stored = {row[0]: tuple(row[1:]) for row in connection.execute(select(c.id, c.status, c.attempt, c.owner))}
        assert stored == {
            experiment_id: (model.status, model.attempt, model.owner) for experiment_id, model in self.models.items()
        }

    def teardown(self) -> None:
        """The events tell the whole story, and every chapter of it was allowed."""
        with self.db.read() as connection:
            told = connection.execute(select(events).order_by(events.c.experiment_id, events.c.seq)).all()
        for experiment_id, model in self.models.items():
            mine = [event for event in told if event.experiment_id == experiment_id]
            assert [event.seq for event in mine] == list(range(1, len(mine) + 1))
            assert [event.to_status for event in mine] == model.history
            assert [event.from_status for event in mine] == [None, *model.history[:-1]]
            assert all(
                later in TRANSITIONS[earlier] or (earlier is later is Status.RUNNING)  # asked to stop
                for earlier, later in pairwise(model.history)
            )

    def _lease(self, which: int) -> Lease:
        return self.leases[-1 - which % len(self.leases)]

    def _holds(self, lease: Lease) -> bool:
        model = self.models[lease.experiment_id]
        return (model.attempt, model.owner) == (lease.attempt, lease.owner)

    def _is_refused(self, act: Callable[[], object]) -> None:
        with pytest.raises(LeaseLost):
            act()

    def _first_in_queue(self) -> ExperimentId | None:
        # Only the database knows when something was queued; that the first of them goes first is what is tested.
        c = experiments.c
        with self.db.read() as connection:
            queued_at: dict[str, Any] = {row.id: row.queued_at for row in connection.execute(select(c.id, c.queued_at))}
        waiting = [each for each, model in self.models.items() if model.status is Status.QUEUED]
        return min(waiting, key=lambda each: (-self.models[each].priority, queued_at[each], each), default=None)


def test_the_queue_keeps_its_promises_in_any_order_of_events(db: Database) -> None:
    machine = type("QueueOnDatabase", (Queue,), {"db": db})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
