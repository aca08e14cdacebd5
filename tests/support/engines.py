"""A pool of simulated engines without Ray: what `Engines` offers, in this process."""

import dataclasses
from contextlib import nullcontext

from app.measure.records import Conditions
from app.spec.experiment import DriverSettings, Experiment
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from workers.batches import SeededBatches
from workers.drivers.base import Batch, Outcome
from workers.drivers.simulated import SimulatedEngine
from workers.trials import Rules
from workers.watch import Watch


@dataclasses.dataclass
class Run:
    """Everything `run_trials` takes, for one spec."""

    spec: Experiment
    resolved: ResolvedExperiment
    plan: TrialPlan
    workload: SeededBatches
    pool: "SimulatedPool"
    rules: Rules
    watch: Watch


class SimulatedEngineHandle:
    """A simulated engine that writes down what it was asked to do."""

    def __init__(self, arm: str, engine: SimulatedEngine, pool: "SimulatedPool") -> None:
        self._arm, self._engine, self._pool = arm, engine, pool

    def rollout(self, batch: Batch, settings: DriverSettings, reset: bool, watch: Watch, grace_s: float) -> Outcome:
        """Run the batch at once."""
        del reset, grace_s
        watch.begin_trial()
        settling = all(request.max_tokens <= 16 for request in batch.requests)
        self._pool.journal.append(f"{'settle' if settling else 'run'} {self._arm}")
        busy = 90.0 if batch.slot in self._pool.disturbed_slots else 1.0
        return Outcome(self._engine.rollout(batch, settings, nullcontext()), Conditions(other_cpu_pct=busy))


class SimulatedPool:
    """One simulated engine per arm; `takes_turns` as if they shared a GPU."""

    def __init__(self, resolved: ResolvedExperiment, takes_turns: bool = False) -> None:
        self.journal: list[str] = []
        self.disturbed_slots: set[int] = set()
        self._takes_turns = takes_turns
        self._awake: str | None = None
        self._settings = {arm.name: arm for arm in resolved.arms}
        self._engines = {name: self._new(name) for name in self._settings}

    def _new(self, arm: str) -> SimulatedEngineHandle:
        return SimulatedEngineHandle(arm, SimulatedEngine(self._settings[arm], seed=0), self)

    def prepare(self, arm: str, fresh: bool) -> tuple[SimulatedEngineHandle, bool]:
        """The arm's engine; unsettled if it is new or was asleep."""
        started = fresh or arm not in self._engines
        if started:
            self.journal.append(f"start {arm}")
            self._engines[arm] = self._new(arm)
        woken = self._takes_turns and self._awake != arm
        self._awake = arm
        return self._engines[arm], started or woken

    def find_changes(self, arm: str) -> tuple[str, ...]:
        del arm
        return ()

    def discard(self, arm: str) -> None:
        """Forget the arm's engine."""
        self.journal.append(f"discard {arm}")
        self._engines.pop(arm, None)


def a_run(spec: Experiment, takes_turns: bool = False) -> Run:
    """The spec, ready to run on simulated engines."""
    resolved = resolve(spec)
    pool = SimulatedPool(resolved, takes_turns)
    return Run(
        spec=spec,
        resolved=resolved,
        plan=plan_trials(spec, resolved),
        workload=SeededBatches(spec, resolved, 8192, lambda texts: tuple(tuple(text.encode()) for text in texts)),
        pool=pool,
        rules=Rules({arm.name: arm.driver for arm in resolved.arms}, True, 1.0),
        watch=Watch(spec.limits),
    )
