"""All engines of one experiment: started together, awake one at a time where they share a GPU."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self

from app.errors import ExperimentFailure
from app.judge.parity import list_start_changes
from app.measure.records import StartedArm
from app.spec.experiment import Residency
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedArm
from workers.trials import RunningEngine
from workers.watch import Watch


class Engine(RunningEngine, Protocol):
    """What the engines of an experiment need of one of them: calls that last until they are done."""

    def begin_start(self) -> None:
        """Have the engine start; ``start`` waits for it."""
        ...

    def start(self, watch: Watch) -> StartedArm:
        """Start the engine and wait for it."""
        ...

    def encode(self, texts: tuple[str, ...], watch: Watch) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text, by the engine's tokenizer."""
        ...

    def sleep(self, watch: Watch) -> None:
        """Free the GPU's memory."""
        ...

    def wake(self, watch: Watch) -> None:
        """Undo ``sleep``."""
        ...

    def kill(self) -> None:
        """End every process of the engine, whatever they are doing."""
        ...


NewEngine = Callable[[ResolvedArm, bool], Engine]  # settings, sleep mode


class Engines(AbstractContextManager["Engines"]):
    """The engines behind the arms of a plan. Arms that differ in driver settings only share one."""

    def __init__(
        self, plan: TrialPlan, arms: tuple[ResolvedArm, ...], new_engine: NewEngine, on_gpu: bool, watch: Watch
    ) -> None:
        self._settings = {arm.name: arm for arm in arms}
        self._leader = {name: group[0] for group in plan.engines for name in group}
        self._on_gpu = on_gpu
        self._resident = plan.residency is Residency.RESIDENT
        # On a CPU all engines stay awake: an idle one takes memory, and soon no cores (workers.meter).
        self._takes_turns = on_gpu and self._resident and len(plan.engines) > 1
        self._new_engine = new_engine
        self._watch = watch
        self._engines: dict[str, Engine] = {}
        self._awake: str | None = None
        self._first: dict[str, StartedArm] = {}
        self._changes: dict[str, tuple[str, ...]] = {}
        self._used: set[str] = set()  # engines that have run a trial since all were started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines.values():
            engine.kill()

    def start_all(self) -> tuple[StartedArm, ...]:
        """Start every engine; the resolved configuration of every arm.

        Resident engines load vLLM all at once. Without a GPU they start together too; on one they start one after the
        other, since each needs the memory that the one before frees as it falls asleep. Engines that restart for every
        trial are started here once, to be looked at, and never two at a time.
        """
        leaders = tuple(dict.fromkeys(self._leader.values()))
        if self._resident:
            for leader in leaders:
                self._create(leader)
            if not self._on_gpu:
                for engine in self._engines.values():
                    engine.begin_start()
        resolved = {}
        for leader in leaders:
            resolved[leader] = self._start(leader)
            if not self._resident:
                self._end_all()
        return tuple(
            add_driver_settings(resolved[self._leader[name]], settings) for name, settings in self._settings.items()
        )

    def prepare(self, arm: str, fresh: bool) -> tuple[Engine, bool]:
        """The arm's engine, awake; and whether it has just been woken or started.

        The first resident engine that has to be fresh, and has run a trial, has all of them end and start anew.
        """
        leader = self._leader[arm]
        if fresh and (leader in self._used or not self._resident):
            self._end_all()
            if self._resident:
                self._start_again()
        self._used.add(leader)
        return self._wake_or_start(leader)

    def _wake_or_start(self, leader: str) -> tuple[Engine, bool]:
        if leader not in self._engines:
            if not self._resident:
                self._end_all()
            self._start(leader)
            return self._engines[leader], True
        woken = self._takes_turns and self._awake != leader
        if woken:
            self._let_sleep()
            self._engines[leader].wake(self._watch)
            self._awake = leader
        return self._engines[leader], woken

    def find_changes(self, arm: str) -> tuple[str, ...]:
        """In what the arm's engine, if it was started anew, is not what it was at its first start."""
        return self._changes.get(self._leader[arm], ())

    def discard(self, arm: str) -> None:
        """End the arm's engine, whatever state it is in; ``prepare`` will start another."""
        leader = self._leader[arm]
        engine = self._engines.pop(leader, None)
        if engine is not None:
            engine.kill()
        if self._awake == leader:
            self._awake = None

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text, by the baseline's tokenizer: the same for every arm."""
        engine, _ = self._wake_or_start(self._leader[next(iter(self._settings))])
        return engine.encode(texts, self._watch)

    def _start_again(self) -> None:
        """As at the beginning, so that no start is like another but for its engines."""
        try:
            self.start_all()
        except ExperimentFailure:
            self._end_all()  # one that was made but not started would pass for one that runs
            raise

    def _create(self, leader: str) -> None:
        self._engines[leader] = self._new_engine(self._settings[leader], self._takes_turns)

    def _start(self, leader: str) -> StartedArm:
        self._let_sleep()
        if leader not in self._engines:
            self._create(leader)
        resolved = self._engines[leader].start(self._watch)
        self._changes[leader] = list_start_changes(self._first.setdefault(leader, resolved), resolved)
        self._awake = leader
        return resolved

    def _let_sleep(self) -> None:
        if self._takes_turns and self._awake is not None:
            self._engines[self._awake].sleep(self._watch)
            self._awake = None

    def _end_all(self) -> None:
        for engine in self._engines.values():
            engine.kill()
        self._engines.clear()
        self._used.clear()
        self._awake = None


def add_driver_settings(resolved: StartedArm, settings: ResolvedArm) -> StartedArm:
    """The engine's resolved configuration as one of the arms that share it, with how that arm drives it."""
    driver = {f"driver.{key}": value for key, value in settings.driver.model_dump(mode="json").items()}
    arrival = settings.arrival.model_dump(mode="json", exclude_none=True)
    own = driver | {f"arrival.{key}": value for key, value in arrival.items()}
    return dataclasses.replace(resolved, arm=settings.name, config=resolved.config | own)
