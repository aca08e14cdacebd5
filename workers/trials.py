"""From a plan to trial results: a generator without SQL, Ray or vLLM."""

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Protocol

from app.errors import EngineDied, EngineStalled
from app.judge.conditions import find_disturbance
from app.measure.records import TrialResult, TrialState
from app.spec.experiment import DriverSettings, Residency
from app.spec.plan import Phase, PlannedTrial, TrialPlan, remaining, repeat_block
from workers.drivers.base import Batch, Outcome
from workers.watch import Watch

_MOST_FAILURES = 2  # of one arm in a row: an engine that dies again and again has a cause to be mended first


class RunningEngine(Protocol):
    """What a trial needs of an engine."""

    def rollout(self, batch: Batch, settings: DriverSettings, reset: bool, watch: Watch, grace_s: float) -> Outcome:
        """Run the batch."""
        ...


class EnginePool(Protocol):
    """What a run of trials needs of the engines."""

    def prepare(self, arm: str, fresh: bool) -> tuple[RunningEngine, bool]:
        """The arm's engine, awake; and whether it has just been woken or started."""
        ...

    def find_changes(self, arm: str) -> tuple[str, ...]:
        """In what the arm's engine, if it was started anew, is not what it was at its first start."""
        ...

    def discard(self, arm: str) -> None:
        """End the arm's engine."""
        ...


class Batches(Protocol):
    """Where the requests of a trial come from."""

    def draw_batch(self, trial: PlannedTrial) -> Batch:
        """The requests of a trial."""
        ...

    def draw_settling(self, trial: PlannedTrial) -> Batch:
        """A short pass of the trial's shape that leaves nothing of use to it in the engine."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """How trials are run."""

    drivers: Mapping[str, DriverSettings]
    reset_prefix_cache: bool
    cancel_grace_s: float
    done: frozenset[int] = frozenset()  # blocks that an earlier attempt has finished


def run_trials(
    plan: TrialPlan, engines: EnginePool, workload: Batches, rules: Rules, watch: Watch
) -> Iterator[TrialResult]:
    """Run the plan, one result per trial as soon as it exists; then, within bounds, blocks that were disturbed again.

    A trial whose engine dies or stalls is a failed result; the engine is replaced and the plan goes on. Raises what
    the watch raises, and an arm's failure once it fails twice in a row.
    """
    failures: Counter[str] = Counter()
    repeats = _Repeats(plan, rules.done)
    for trial in repeats.order_trials():
        watch.check_between_trials()
        watch.current = trial
        started_at, began = time.time(), time.monotonic()
        try:
            outcome = _run_trial(trial, engines, workload, rules, watch)
        except (EngineDied, EngineStalled) as error:
            engines.discard(trial.arm)
            failures[trial.arm] += 1
            yield TrialResult(trial, TrialState.FAILED, started_at, time.monotonic() - began, error=error.detail)
            if failures[trial.arm] >= _MOST_FAILURES:
                raise
            continue
        failures[trial.arm] = 0
        repeats.note(trial, outcome)
        yield TrialResult(
            planned=trial,
            state=TrialState.SUCCEEDED,
            started_at=started_at,
            wall_s=time.monotonic() - began,
            records=outcome.rollout.records,
            timeline=outcome.rollout.timeline,
            harness=outcome.rollout.harness,
            conditions=outcome.conditions,
        )


class _Repeats:
    """Which blocks have to run again."""

    def __init__(self, plan: TrialPlan, done: frozenset[int]) -> None:
        self._plan = plan
        self._done = done
        self._disturbed: list[int] = []
        self._repeated = 0

    def order_trials(self) -> Iterator[PlannedTrial]:
        """The plan's trials that are left, then those of repeats; a repeat that is disturbed too is not repeated.

        Engines that will start anew repeat before they do, so that a block stays with its start.
        """
        resident = self._plan.residency is Residency.RESIDENT
        for _, group in groupby(remaining(self._plan, self._done), key=lambda trial: trial.start if resident else 0):
            yield from group
            while self._repeated < min(len(self._disturbed), self._plan.most_repeats):
                number, self._repeated = self._repeated, self._repeated + 1
                yield from repeat_block(self._plan, self._disturbed[number], number)

    def note(self, trial: PlannedTrial, outcome: Outcome) -> None:
        """See whether a finished trial was left alone."""
        disturbed = trial.phase is Phase.MEASURED and find_disturbance(outcome.conditions) is not None
        if disturbed and trial in self._plan.trials and trial.block not in self._disturbed:
            self._disturbed.append(trial.block)


def _run_trial(trial: PlannedTrial, engines: EnginePool, workload: Batches, rules: Rules, watch: Watch) -> Outcome:
    engine, unsettled = engines.prepare(trial.arm, trial.fresh_engine)
    driver = rules.drivers[trial.arm]
    if unsettled:
        # The first pass after waking was 0.6 % slower on an H200; it is not measured.
        engine.rollout(workload.draw_settling(trial), driver, True, watch, rules.cancel_grace_s)
    outcome = engine.rollout(workload.draw_batch(trial), driver, rules.reset_prefix_cache, watch, rules.cancel_grace_s)
    conditions = dataclasses.replace(outcome.conditions, engine_changes=engines.find_changes(trial.arm))
    return dataclasses.replace(outcome, conditions=conditions)
