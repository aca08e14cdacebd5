"""Workers, as they announce themselves."""

from datetime import timedelta

from sqlalchemy import update

from app.store import workers
from app.store.database import Database
from app.store.tables import workers as table
from tests.support.store import submit


def silence(db: Database, worker_id: str, hours: int) -> None:
    """Let a worker have been silent for some time."""
    with db.write() as connection:
        last = db.now() - timedelta(hours=hours)
        connection.execute(update(table).where(table.c.id == worker_id).values(last_seen_at=last))


def test_a_worker_is_listed_with_what_it_has_and_does(db: Database) -> None:
    experiment_id = submit(db)
    workers.announce(db, "b", host="gpu-1", pid=7, info={"gpus": ["H200"]})
    workers.announce(db, "a", host="gpu-0", pid=9, info={})

    assert workers.heartbeat(db, "b", experiment_id=experiment_id)

    first, second = workers.list_workers(db)
    assert (first.id, first.host, first.pid, first.experiment_id) == ("a", "gpu-0", 9, None)
    assert (second.id, second.experiment_id, second.info) == ("b", experiment_id, {"gpus": ["H200"]})
    assert 0 <= second.silent_s < 60
    assert workers.heartbeat(db, "b", experiment_id=None, info={"gpus": []})
    assert [(w.experiment_id, w.info) for w in workers.list_workers(db)] == [(None, {}), (None, {"gpus": []})]


def test_a_silent_worker_is_seen_to_be_silent(db: Database) -> None:
    workers.announce(db, "a", host="gpu-0", pid=1, info={})
    silence(db, "a", hours=1)

    (worker,) = workers.list_workers(db)

    assert 3600 <= worker.silent_s < 3700


def test_announcing_again_starts_afresh(db: Database) -> None:
    workers.announce(db, "a", host="gpu-0", pid=1, info={})
    workers.announce(db, "a", host="gpu-0", pid=2, info={"gpus": 1})

    assert [(worker.pid, worker.info) for worker in workers.list_workers(db)] == [(2, {"gpus": 1})]


def test_a_forgotten_worker_is_told_to_announce_itself(db: Database) -> None:
    workers.announce(db, "a", host="gpu-0", pid=1, info={})
    workers.forget(db, "a")

    assert workers.list_workers(db) == ()
    assert not workers.heartbeat(db, "a", experiment_id=None)


def test_workers_that_fell_silent_long_ago_are_forgotten(db: Database) -> None:
    for name in ("a", "b"):
        workers.announce(db, name, host="gpu-0", pid=1, info={})
    silence(db, "a", hours=48)

    assert workers.forget_silent(db, silent_s=86_400) == 1

    assert [worker.id for worker in workers.list_workers(db)] == ["b"]
