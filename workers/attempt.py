"""One experiment from claim to verdict."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import structlog

from app.errors import (
    AllBlocksDropped,
    Cancelled,
    DatabaseUnavailable,
    Draining,
    ExperimentFailure,
    LeaseLost,
    ParityRefused,
    RayLost,
)
from app.judge.comparison import should_stop_early
from app.judge.continuation import Continuation, continuation_of
from app.judge.fingerprint import gpus_of
from app.judge.noise import NoiseKeys, floor_of, noise_keys, noise_of
from app.judge.parity import check_parity
from app.judge.results import NoiseFloor, Results, TrialSummary, build_results
from app.measure.metrics import summarise
from app.measure.records import StartedArm, TrialResult, TrialState
from app.service.permits import permits_of
from app.settings import Settings
from app.spec.experiment import Experiment, Parity
from app.spec.lifecycle import Current, Failure, Progress, Status, Step
from app.spec.plan import Phase, TrialPlan, plan_trials
from app.spec.resolution import ResolvedArm, ResolvedExperiment, resolve
from app.store import queue, trials
from app.store.continuation import earlier_attempts, keep_workload, take_over
from app.store.database import Database
from app.store.noise import keep_noise, noise_under
from workers.arms import Engine
from workers.cluster import Cluster, Place
from workers.engines import Engines
from workers.heartbeat import Heartbeat
from workers.interpreters import ASK_S, ask_interpreter, check_interpreters
from workers.permits import located
from workers.prompts import read_prompts
from workers.trials import TrialRules, run_trials
from workers.unsplit import arms_on_cpu
from workers.watch import Watch
from workers.workload import Workload

log = structlog.get_logger(__name__)

T = TypeVar("T")

_DATABASE_RETRY_S = 1.0
_ANSWER_S = ASK_S + 60.0  # Ray first starts a process to ask in


class Attempt:
    """One attempt at one experiment: what is known of it, and where it is stored."""

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
            self._stored(partial(trials.save_arm, self._db, self.lease, arm))
        undeclared = check_parity(self.resolved.arms, arms).undeclared
        if undeclared and self.spec.decision.parity is Parity.STRICT:
            keys = ", ".join(difference.key for difference in undeclared)
            raise ParityRefused(f"the arms differ in what nobody declared: {keys}")

    def keep_workload(self, sha256: str | None) -> None:
        """Store what tells this workload from another that the same spec could draw."""
        self.workload_sha256 = sha256
        if sha256 is not None:
            self._stored(lambda: keep_workload(self._db, self.lease, sha256))

    def take_over(self) -> None:
        """Make blocks that earlier attempts finished under the same fingerprint part of this one."""
        earlier = self._stored(lambda: earlier_attempts(self._db, self.lease, self._retry_of))
        found = continuation_of(
            self.spec, self.resolved, self.plan, self.arms, earlier, workload_sha256=self.workload_sha256
        )
        if found is None:
            return
        self._stored(lambda: take_over(self._db, self.lease, found))
        self.continuation = found
        self.summaries += self._stored(lambda: trials.trials_of(self._db, self.lease.experiment_id, self.lease.attempt))
        log.info("blocks taken over", blocks=sorted(found.blocks), run_again=len(found.run_again))

    @property
    def decided(self) -> bool:
        """Whether the plan lets it end here."""
        return should_stop_early(self.spec, self.resolved, self.plan, self.summaries, self.noise)

    def keep_trial(self, result: TrialResult) -> None:
        """Store a trial as soon as it exists."""
        summary = summarise(
            result,
            self.lease.attempt,
            gpus=next((gpus_of(arm) for arm in self.arms if arm.arm == result.planned.arm), 0),
            service_levels=self.spec.decision.service_levels,
        )
        self.summaries.append(summary)
        self._stored(lambda: trials.save_trial(self._db, self.lease, result, summary))

    def finish(self, status: Status, reason: str, failure: Failure | None = None) -> None:
        """End the experiment with everything that was found."""
        self._step = Step.FINISHING
        results = self._results(status, failure)
        if self.spec.calibrate and status is Status.SUCCEEDED:
            self._keep_noise(results)
        self._stored(
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

    def _results(self, status: Status, failure: Failure | None) -> Results:
        return build_results(
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

    def _keep_noise(self, results: Results) -> None:
        """After an A/A experiment: what later results of its arm are judged beside."""
        found = noise_of(results)
        if found is not None:
            keys = self._noise_keys()[0]
            self._stored(lambda: keep_noise(self._db, self.lease, keys, found))

    @cached_property
    def noise(self) -> NoiseFloor | None:
        """What A/A experiments found of these arms, once they have started; nothing for one that is to find it."""
        if self.spec.calibrate:
            return None
        fingerprints = [keys.fingerprint for keys in self._noise_keys()]
        return floor_of(self._stored(lambda: noise_under(self._db, fingerprints)))

    def _noise_keys(self) -> tuple[NoiseKeys, ...]:
        started = {arm.arm: arm for arm in self.arms}
        return tuple(noise_keys(self.spec, arm, started.get(arm.name)) for arm in self.resolved.arms)

    def hand_back(self, reason: str) -> None:
        """Give the experiment to another worker."""
        self._stored(lambda: queue.hand_back(self._db, self.lease, reason))

    def fail(self, error: ExperimentFailure) -> None:
        """End the experiment; where Ray was lost and the spec wants it, queue it again instead."""
        failure = Failure(code=error.code, detail=error.detail, arm=error.arm, log_tail=error.log_tail)
        if isinstance(error, RayLost) and self._stored(lambda: queue.lose(self._db, self.lease, failure)):
            return
        self.finish(Status.FAILED, error.detail, failure)

    def progress(self) -> Progress:
        """How far the attempt has come; called by the heartbeat."""
        current = self.watch.current
        step = self._step
        if current is not None and step is Step.STARTING_ENGINES:
            step = Step.WARMING_UP if current.phase is Phase.WARMUP else Step.MEASURING
        measured = [s for s in tuple(self.summaries) if s.planned.phase is Phase.MEASURED]
        total = max(len(self.plan.measured), len(measured))  # a disturbed block is run again, beyond the plan
        return Progress(
            step=step,
            trials_done=len(measured),
            trials_total=total,
            current=None if current is None else Current(arm=current.arm, block=current.block),
            eta_s=_eta_s(measured, total),
        )

    def _stored(self, write: Callable[[], T]) -> T:
        """Write, and wait for the database where it is away: a finished trial is not lost to a restart of it."""
        while True:
            try:
                return write()
            except DatabaseUnavailable as error:
                log.warning("waiting for the database", detail=error.detail)
                if self.watch.lost.wait(_DATABASE_RETRY_S):
                    raise LeaseLost("the lease was lost while the database was away") from None


def run_experiment(db: Database, cluster: Cluster, settings: Settings, claim: queue.Claim, watch: Watch) -> None:
    """Run a claimed experiment to its end: engines, trials, verdict. Raises nothing an experiment can cause."""
    attempt = Attempt(db, claim, watch)
    with Heartbeat(db, claim.lease, settings.lease_s, attempt.progress, watch):
        try:
            _run_to_its_end(attempt, cluster, settings)
        except LeaseLost as error:
            log.error("attempt abandoned", detail=error.detail)


def _run_to_its_end(attempt: Attempt, cluster: Cluster, settings: Settings) -> None:
    try:
        _measure(attempt, cluster, settings)
        attempt.finish(Status.SUCCEEDED, "all blocks done")
    except Cancelled as error:
        attempt.finish(Status.CANCELLED, error.detail)
    except Draining as error:
        attempt.hand_back(error.detail)
    except ExperimentFailure as error:
        attempt.fail(error)


def _measure(attempt: Attempt, cluster: Cluster, settings: Settings) -> None:
    spec, plan, watch = attempt.spec, attempt.plan, attempt.watch
    permits = permits_of(settings)
    resolved = located(spec, attempt.resolved, permits)
    arms = resolved.arms
    prompts = read_prompts(spec, resolved, permits.data_roots, watch.check)
    cluster.connect()
    gpus = _gpus(arms) if cluster.has_gpus else 0
    as_started = {arm.name: arm for arm in arms} if gpus else arms_on_cpu(spec, resolved, prompts)
    logs_dir = settings.data_dir.absolute() / "engine-logs"
    with (
        cluster.reserve(gpus, watch.check) as place,
        Engines(plan, arms, _starter(place, as_started, spec.plan.seed, logs_dir), gpus > 0, watch) as engines,
    ):
        check_interpreters(arms, lambda python: place.ask(ask_interpreter, python, within_s=_ANSWER_S))
        attempt.keep_arms(engines.start_all())
        workload = Workload(
            spec, attempt.resolved, attempt.arms[0].vocab_size, engines.encode, from_file=prompts, check=watch.check
        )
        attempt.keep_workload(workload.sha256)
        attempt.take_over()
        rules = TrialRules(
            drivers={arm.name: arm.driver for arm in arms},
            reset_prefix_cache=spec.plan.reset_prefix_cache,
            cancel_grace_s=settings.cancel_grace_s,
            done=frozenset() if attempt.continuation is None else attempt.continuation.blocks,
        )
        if not attempt.decided:
            for result in run_trials(plan, engines, workload, rules, watch):
                attempt.keep_trial(result)
                if attempt.decided:
                    break
    if not any(_succeeded(summary) for summary in attempt.summaries):
        raise AllBlocksDropped("every measured trial failed: " + "; ".join(_errors(attempt.summaries)))


def _starter(
    place: Place, as_started: Mapping[str, ResolvedArm], seed: int, logs_dir: Path
) -> Callable[[ResolvedArm, bool], Engine]:
    return lambda arm, sleep_mode: Engine(as_started[arm.name], place, sleep_mode, seed, logs_dir)


def _gpus(arms: tuple[ResolvedArm, ...]) -> int:
    """GPUs the largest engine takes; simulated ones take none."""
    return max((arm.engine.tensor_parallel_size or 1 for arm in arms if not arm.simulated), default=0)


def _succeeded(summary: TrialSummary) -> bool:
    return summary.planned.phase is Phase.MEASURED and summary.state is TrialState.SUCCEEDED


def _errors(summaries: list[TrialSummary]) -> list[str]:
    return list(dict.fromkeys(summary.error for summary in summaries if summary.error is not None))


def _eta_s(measured: list[TrialSummary], total: int) -> float | None:
    if not measured:
        return None
    return round((total - len(measured)) * sum(s.wall_s for s in measured) / len(measured), 1)
