"""What is known of an attempt, kept in the database as it becomes known."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import TypeVar

import structlog

from app.errors import (
    DatabaseUnavailable,
    ExperimentFailure,
    LeaseLost,
    ParityRefused,
    RayLost,
)
from app.judge.comparison import should_stop_early
from app.judge.continuation import Continuation, find_continuation
from app.judge.fingerprint import count_gpus
from app.judge.noise import NoiseKeys, build_noise_keys, combine_noise, measure_noise
from app.judge.parity import check_parity
from app.judge.results import NoiseFloor, TrialSummary, build_results
from app.measure.metrics import summarise
from app.measure.records import StartedArm, TrialResult
from app.redaction import hide
from app.spec.experiment import Experiment, Parity
from app.spec.lifecycle import Current, Failure, Progress, Status, Step
from app.spec.plan import Phase, TrialPlan, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from app.store import queue, trials
from app.store.continuation import keep_workload, read_earlier_attempts, take_over
from app.store.database import Database
from app.store.noise import keep_noise, read_noise_under
from workers.watch import Watch

log = structlog.get_logger(__name__)

T = TypeVar("T")

_DATABASE_RETRY_S = 1.0


class Journal:
    """One attempt at one experiment: what is known of it, stored as it becomes known."""

    def __init__(self, db: Database, claim: queue.Claim, watch: Watch) -> None:
        self.spec: Experiment = claim.spec
        self.resolved: ResolvedExperiment = resolve(claim.spec)
        self.plan: TrialPlan = plan_trials(self.spec, self.resolved)
        self.lease = claim.lease
        self.watch = watch
        self.arms: tuple[StartedArm, ...] = ()
        self.summaries: list[TrialSummary] = []
        self.workload_sha256: str | None = None
        self.continuation: Continuation | None = None
        self._db = db
        self._retry_of = claim.retry_of
        self._step = Step.STARTING_ENGINES

    def keep_arms(self, arms: tuple[StartedArm, ...]) -> None:
        """Store what the arms' engines resolved to; ParityRefused if the spec is strict and they differ unasked."""
        self.arms = arms
        for arm in arms:
            self._store(partial(trials.save_arm, self._db, self.lease, arm))
        undeclared = check_parity(self.resolved.arms, arms).undeclared
        if undeclared and self.spec.decision.parity is Parity.STRICT:
            keys = ", ".join(difference.key for difference in undeclared)
            raise ParityRefused(f"the arms differ in what nobody declared: {keys}")

    def keep_workload(self, sha256: str | None) -> None:
        """Store what tells this workload from another that the same spec could draw."""
        self.workload_sha256 = sha256
        if sha256 is not None:
            self._store(lambda: keep_workload(self._db, self.lease, sha256))

    def take_over(self) -> None:
        """Make blocks that earlier attempts finished under the same fingerprint part of this one."""
        earlier = self._store(lambda: read_earlier_attempts(self._db, self.lease, self._retry_of))
        found = find_continuation(
            self.spec, self.resolved, self.plan, self.arms, earlier, workload_sha256=self.workload_sha256
        )
        if found is None:
            return
        self._store(lambda: take_over(self._db, self.lease, found))
        self.continuation = found
        self.summaries += self._store(
            lambda: trials.read_trials(self._db, self.lease.experiment_id, self.lease.attempt)
        )
        log.info("blocks taken over", blocks=sorted(found.blocks), run_again=len(found.run_again))

    @property
    def decided(self) -> bool:
        """Whether the plan lets it end here."""
        read = () if self.continuation is None else self.continuation.looks_read
        return should_stop_early(self.spec, self.resolved, self.plan, self.summaries, self.noise, read=read)

    def keep_trial(self, result: TrialResult) -> None:
        """Store a trial as soon as it exists."""
        summary = summarise(
            result,
            self.lease.attempt,
            gpus=next((count_gpus(arm) for arm in self.arms if arm.arm == result.planned.arm), 0),
            service_levels=self.spec.decision.service_levels,
        )
        self.summaries.append(summary)
        self._store(lambda: trials.save_trial(self._db, self.lease, result, summary))

    def finish(self, status: Status, reason: str, failure: Failure | None = None) -> None:
        """End the experiment with everything that was found; an A/A one also leaves what its arm is judged beside."""
        self._step = Step.FINISHING
        results = build_results(
            self.lease.experiment_id,
            spec=self.spec,
            resolved=self.resolved,
            plan=self.plan,
            status=status,
            arms=self.arms,
            trials=self.summaries,
            failure=failure,
            noise=self.noise,
            continuation=self.continuation,
            workload_sha256=self.workload_sha256,
        )
        found = measure_noise(results) if self.spec.calibrate and status is Status.SUCCEEDED else None
        if found is not None:
            keys = self._make_noise_keys()[0]
            self._store(lambda: keep_noise(self._db, self.lease, keys, found))
        self._store(
            lambda: queue.finish(
                self._db,
                self.lease,
                status,
                results=results,
                verdicts=results.verdicts,
                failure=failure,
                reason=reason,
            )
        )

    @cached_property
    def noise(self) -> NoiseFloor | None:
        """What A/A experiments found of these arms, once they have started; nothing for one that is to find it."""
        if self.spec.calibrate:
            return None
        fingerprints = [keys.fingerprint for keys in self._make_noise_keys()]
        return combine_noise(self._store(lambda: read_noise_under(self._db, fingerprints)))

    def _make_noise_keys(self) -> tuple[NoiseKeys, ...]:
        started = {arm.arm: arm for arm in self.arms}
        return tuple(build_noise_keys(self.spec, arm, started.get(arm.name)) for arm in self.resolved.arms)

    def hand_back(self, reason: str) -> None:
        """Give the experiment to another worker."""
        self._store(lambda: queue.hand_back(self._db, self.lease, reason))

    def fail(self, error: ExperimentFailure) -> None:
        """End the experiment; where Ray was lost and the spec wants it, queue it again instead."""
        tail = None if error.log_tail is None else hide(error.log_tail)
        failure = Failure(code=error.code, detail=hide(error.detail), arm=error.arm, log_tail=tail)
        if isinstance(error, RayLost) and self._store(lambda: queue.lose(self._db, self.lease, failure)):
            return
        self.finish(Status.FAILED, failure.detail, failure)

    def progress(self) -> Progress:
        """How far the attempt has come; called by the heartbeat."""
        current = self.watch.current
        step = self._step
        if current is not None and step is Step.STARTING_ENGINES:
            step = Step.WARMING_UP if current.phase is Phase.WARMUP else Step.MEASURING
        measured = [s for s in tuple(self.summaries) if s.planned.phase is Phase.MEASURED]
        done, total = (
            len(measured),
            max(len(self.plan.measured), len(measured)),
        )  # a disturbed block is run again, beyond the plan
        return Progress(
            step=step,
            trials_done=done,
            trials_total=total,
            current=None if current is None else Current(arm=current.arm, block=current.block),
            eta_s=round((total - done) * sum(s.wall_s for s in measured) / done, 1) if measured else None,
        )

    def _store(self, write: Callable[[], T]) -> T:
        """Write, and wait for the database where it is away: a finished trial is not lost to a restart of it."""
        while True:
            try:
                return write()
            except DatabaseUnavailable as error:
                log.warning("waiting for the database", detail=error.detail)
                if self.watch.lost.wait(_DATABASE_RETRY_S):
                    raise LeaseLost("the lease was lost while the database was away") from None
