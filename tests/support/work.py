"""A worker's work without Ray: the real store, the real trials, simulated engines."""

from collections.abc import Iterator

from app.judge.results import TrialSummary, build_results
from app.measure.metrics import summarise
from app.spec.lifecycle import Current, Progress, Status, Step
from app.spec.plan import Phase
from app.store import queue, trials
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import Claim
from tests.support.builders import a_resolved_arm
from tests.support.engines import Run, a_run
from workers.trials import run_trials

LEASE_S = 30.0
OWNER = "worker-1"


def claim(db: Database) -> Claim:
    """Take what is first in the queue."""
    claimed = queue.claim(db, OWNER, LEASE_S)
    assert claimed is not None
    return claimed


def run_steps(db: Database, claimed: Claim, *, disturbed: bool = False) -> Iterator[TrialSummary]:
    """Run a claimed experiment, a stored trial at a time; the caller may stop in between.

    `disturbed`: other processes take 90 % of the CPUs meanwhile.
    """
    run = a_run(claimed.spec)
    run.pool.disturbed_slots = set(range(1000)) if disturbed else set()
    lease = claimed.lease
    for arm in run.resolved.arms:
        trials.save_arm(db, lease, a_resolved_arm(arm.name, {"driver.api": "simulated"}, simulated=True, start_s=1.5))
    done = 0
    for result in run_trials(run.plan, run.pool, run.workload, run.rules, run.watch):
        summary = summarise(result, lease.attempt, gpus=0, service_levels=claimed.spec.decision.service_levels)
        trials.save_trial(db, lease, result, summary)
        done += result.planned.phase is Phase.MEASURED
        progress = Progress(
            step=Step.MEASURING,
            trials_done=done,
            trials_total=len(run.plan.measured),
            current=Current(arm=result.planned.arm, block=result.planned.block),
            eta_s=1.0,
        )
        queue.beat(db, lease, LEASE_S, progress)
        yield summary


def finish(db: Database, claimed: Claim, status: Status = Status.SUCCEEDED) -> None:
    """End a claimed experiment with the results of its trials."""
    run: Run = a_run(claimed.spec)
    lease = claimed.lease
    results = build_results(
        lease.experiment_id,
        spec=run.spec,
        resolved=run.resolved,
        plan=run.plan,
        status=status,
        arms=[stored.resolved for stored in trials.read_arms(db, lease.experiment_id, lease.attempt)],
        trials=trials.read_trials(db, lease.experiment_id, lease.attempt),
    )
    queue.finish(db, lease, status, results=results, verdicts=results.verdicts, reason="all blocks done")


def work_off(db: Database) -> ExperimentId:
    """Claim what is first in the queue and run it to its end."""
    claimed = claim(db)
    for _ in run_steps(db, claimed):
        pass
    finish(db, claimed)
    return claimed.lease.experiment_id
