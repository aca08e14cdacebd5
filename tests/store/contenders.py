"""What other processes do in tests: functions a fresh interpreter can import."""

import os
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from app.errors import LeaseLost
from app.spec.lifecycle import Status
from app.store import queue
from app.store.database import Database


def claim_everything(url: str, owner: str, go: Event, report: Connection) -> None:
    """Claim until the queue is empty; report what was claimed."""
    db = Database(url)
    db.check()
    report.send("ready")
    go.wait()
    claimed: list[str] = []
    while (found := queue.claim(db, owner, 600)) is not None:
        claimed.append(found.lease.experiment_id)
    db.dispose()
    report.send(claimed)


def work_until_told_otherwise(url: str, owner: str, lease_s: float, stops: bool, report: Connection) -> None:
    """Claim one experiment and send heartbeats; on losing the lease, try to finish all the same.

    ``stops``: stop after the claim, as by SIGSTOP from outside, but surely between two transactions.
    """
    db = Database(url)
    claimed = queue.claim(db, owner, lease_s)
    assert claimed is not None
    report.send(claimed.lease)
    if stops:
        os.kill(os.getpid(), signal.SIGSTOP)
    outcomes: list[str] = []
    while not outcomes:
        try:
            queue.beat(db, claimed.lease, lease_s)
            time.sleep(lease_s / 10)
        except LeaseLost:
            outcomes.append("heartbeat refused")
    try:
        queue.finish(db, claimed.lease, Status.SUCCEEDED, results={"by": owner}, reason="woke up")
    except LeaseLost:
        outcomes.append("finish refused")
    db.dispose()
    report.send(outcomes)
