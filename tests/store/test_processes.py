"""The queue among real processes."""

import os
import signal
from collections.abc import Iterator
from multiprocessing import Pipe, Process, get_context
from multiprocessing.connection import Connection
from typing import Any

import psutil
import pytest
from sqlalchemy import insert

from app.spec.lifecycle import Status
from app.store import experiments, queue
from app.store.database import Database
from app.store.submission import build_row
from app.store.tables import experiments as table
from benchmarks.support.service import eventually
from tests.store import contenders
from tests.support.builders import a_simulated_spec
from tests.support.store import changes_of, claim, status, submit

JOBS, PROCESSES = 2_000, 8

# Children of a server that has imported everything start at once and hold none of our connections.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload([contenders.__name__])


def spawn(target: Any, *arguments: Any) -> tuple[Any, Connection]:
    here, there = Pipe()
    process = CONTEXT.Process(target=target, args=(*arguments, there), daemon=True)
    process.start()
    there.close()
    return process, here


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Processes that do not outlive the test."""
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()
        process.join()


@pytest.mark.timeout(900)  # half a minute, unless the machine has other work
def test_a_storm_of_claims_gives_every_experiment_to_one_worker(
    db: Database, url: str, processes: list[Process]
) -> None:
    rows = [build_row(a_simulated_spec(), None, None) for _ in range(JOBS)]
    with db.write() as connection:
        connection.execute(insert(table), [row | {"created_at": db.now(), "queued_at": db.now()} for row in rows])
    go = CONTEXT.Event()
    reports = []
    for number in range(PROCESSES):
        process, report = spawn(contenders.claim_everything, url, f"worker-{number}", go)
        processes.append(process)
        reports.append(report)
    for report in reports:
        assert report.recv() == "ready"

    go.set()
    claimed = [report.recv() for report in reports]

    everything = [experiment_id for share in claimed for experiment_id in share]
    assert len(everything) == JOBS
    assert set(everything) == {row["id"] for row in rows}
    assert sum(map(bool, claimed)) > 1, "several took part, though no database promises all of them a turn"
    assert experiments.counts(db)[Status.RUNNING] == JOBS


def test_a_stopped_worker_that_wakes_up_finds_its_lease_gone(db: Database, url: str, processes: list[Process]) -> None:
    experiment_id = submit(db, limits={"retry_on_loss": True})
    process, report = spawn(contenders.work_until_told_otherwise, url, "zombie", 0.5, True)
    processes.append(process)
    assert report.recv() == queue.Lease(experiment_id, 1, "zombie")

    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    eventually(lambda: queue.reap(db))
    heir = claim(db, "heir")
    os.kill(process.pid, signal.SIGCONT)

    assert report.recv() == ["heartbeat refused", "finish refused"]
    queue.finish(db, heir, Status.SUCCEEDED, results={"by": "heir"}, reason="all blocks done")
    assert experiments.get(db, experiment_id).results == {"by": "heir"}


def test_a_killed_worker_leaves_its_experiment_to_the_reaper(db: Database, url: str, processes: list[Process]) -> None:
    experiment_id = submit(db)
    process, report = spawn(contenders.work_until_told_otherwise, url, "victim", 0.5, False)
    processes.append(process)
    report.recv()

    process.kill()
    eventually(lambda: queue.reap(db))

    assert status(db, experiment_id) is Status.FAILED
    assert changes_of(db, experiment_id) == [
        (None, Status.QUEUED),
        (Status.QUEUED, Status.RUNNING),
        (Status.RUNNING, Status.FAILED),
    ]
