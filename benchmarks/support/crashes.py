"""Parts of a running service killed at chosen steps, and what must be true afterwards."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from app.measure.metrics import TrialSummary
from app.spec.plan import Phase
from app.store import experiments, trials
from app.store.database import Database
from app.store.experiments import ExperimentItem
from app.store.ids import ExperimentId
from benchmarks.support.lab import Lab
from benchmarks.support.service import eventually
from workers.processes import find_marked, read_title

BLOCKS = 3
_ACTOR = "ray::EngineActor"  # what Ray calls it once it is one
_TOKENS = 10
_TRIES = 5


class Step(StrEnum):
    """How far an experiment has come."""

    CLAIMED = "claimed"
    STARTING = "starting"
    MEASURING = "measuring"
    BETWEEN = "between"
    FINISHING = "finishing"


_INTO_IT_S = {Step.MEASURING: 0.2, Step.BETWEEN: 0.7}


class Victim(StrEnum):
    """What is killed."""

    API = "api"
    WORKER = "worker"
    ACTOR = "actor"
    RAYLET = "raylet"
    HEAD = "head"


def simulated(
    *arms: str, trial_s: float = 0.5, start_s: float = 0.0, blocks: int = BLOCKS, **changes: Any
) -> dict[str, Any]:
    """An experiment whose trials and engine starts take so many real seconds."""
    driver = {"seconds_per_token": 0.1, "pace": trial_s / (0.1 * _TOKENS), "start_s": start_s}
    plan = {"blocks": blocks, "warmup_trials": 0} | changes.pop("plan", {})
    return {
        "model": {"preset": "tiny-qwen2"},
        "workload": {
            "prompts": {"source": "synthetic", "count": 1, "tokens": {"distribution": "fixed", "value": 8}},
            "samples_per_prompt": 1,
            "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": _TOKENS}},
        },
        "arms": [{"name": arm, "profile": "simulated", "driver": driver} for arm in arms or ("only",)],
        "plan": plan,
    } | changes


def long_at(step: Step, **changes: Any) -> dict[str, Any]:
    """An experiment that stays long enough at a step to be hit there."""
    match step:
        case Step.STARTING:
            return simulated(start_s=1.5, **changes)
        case Step.BETWEEN:  # the engine of the next trial starts in between
            return simulated(start_s=1.0, trial_s=0.2, plan={"residency": "restart"}, **changes)
        case _:
            return simulated(**changes)


class StepMissed(Exception):
    """The experiment was over before it was found at its step."""


class Scene:
    """An experiment in a service, seen through the database: the API may be away."""

    def __init__(self, lab: Lab, db: Database) -> None:
        self.lab = lab
        self.db = db
        self._shared: set[str] = set()

    def item(self, experiment_id: str) -> ExperimentItem:
        """The experiment as it is."""
        return experiments.get_item(self.db, ExperimentId(experiment_id))

    def measured(self, experiment_id: str, attempt: int | None = None) -> list[TrialSummary]:
        """Stored trials that count."""
        stored = trials.read_trials(self.db, ExperimentId(experiment_id), attempt)
        return [trial for trial in stored if trial.planned.phase is Phase.MEASURED]

    @contextmanager
    def at(self, experiment_id: str, step: Step) -> Iterator[None]:
        """Wait until the experiment is there; while the block lasts it cannot come to its end."""
        looks: dict[Step, tuple[Callable[[], bool], float]] = {
            Step.CLAIMED: (lambda: self.item(experiment_id).status == "running", 0.02),
            Step.STARTING: (lambda: bool(self.lab.engine_processes(_ACTOR)), 0.2),
            # With a resident engine the next trial begins within milliseconds; else its engine starts first.
            Step.MEASURING: (lambda: len(self.measured(experiment_id)) >= 1, 0.02),
            Step.BETWEEN: (lambda: len(self.measured(experiment_id)) >= 1, 0.02),
            Step.FINISHING: (lambda: len(self.measured(experiment_id)) == BLOCKS, 0.02),
        }
        eventually(looks[step][0], 60.0, looks[step][1])
        time.sleep(_INTO_IT_S.get(step, 0.0))
        with self.db.write() if step is Step.FINISHING else nullcontext():
            if self.item(experiment_id).status.terminal:
                raise StepMissed(step)
            yield

    @contextmanager
    def caught_at(self, step: Step, **changes: Any) -> Iterator[str]:
        """A new experiment at that step: on a busy host the first may be over before it is looked at."""
        for _ in range(_TRIES):
            experiment_id = self.lab.submit(**long_at(step, **changes))
            with ExitStack() as held:
                try:
                    held.enter_context(self.at(experiment_id, step))
                except StepMissed:
                    continue
                yield experiment_id
                return
        raise StepMissed(step)

    def processes(self, victim: Victim) -> tuple[psutil.Process, ...]:
        """The processes of a part of the service."""
        match victim:
            case Victim.API:
                return self._called(lambda name: " -m app.server" in name)
            case Victim.WORKER:
                return self._called(lambda name: name.endswith(" -m workers"))
            case Victim.ACTOR:
                return self.lab.engine_processes(_ACTOR)
            case Victim.RAYLET:
                return self._called(lambda name: "/raylet/raylet " in name)
            case Victim.HEAD:
                return self._called(lambda name: "/gcs/gcs_server " in name)

    def _called(self, matches: Callable[[str], bool]) -> tuple[psutil.Process, ...]:
        return tuple(process for process in self._everything() if matches(read_title(process.pid)))

    def _everything(self) -> tuple[psutil.Process, ...]:
        return find_marked("ROLLOUT_LAB_DATA_DIR", str(self.lab.data_dir).__eq__)

    def kill(self, victim: Victim) -> None:
        """SIGKILL."""
        for process in self._everything():
            self._shared |= shared_memory(process.pid)
        found = eventually(lambda: self.processes(victim), 10.0, 0.1)
        for process in found:
            process.kill()
        psutil.wait_procs(found, timeout=5.0)

    def assert_sound(self, experiment_id: str) -> None:
        """One terminal state, no trial lost or twice, no engine and no shared memory left."""
        row = experiments.get(self.db, ExperimentId(experiment_id))
        events = experiments.list_events_after(self.db, ExperimentId(experiment_id))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.to_status for event in events if event.to_status.terminal] == [row.item.status]
        assert events[-1].to_status is row.item.status
        assert all(attempt.ended_at is not None for attempt in row.attempts)
        for attempt in row.attempts:
            assert_once(self.measured(experiment_id, attempt.attempt))
        assert self.lab.no_engine_is_left()
        held = set().union(*(shared_memory(process.pid) for process in psutil.process_iter()))
        assert {name for name in self._shared - held if Path(name).exists()} == set()

    def assert_the_next_one_runs(self) -> None:
        """The service works."""
        following = self.lab.submit(**simulated(trial_s=0.05, blocks=1))
        assert self.lab.ended(following, 60.0)["status"] == "succeeded"


def assert_once(found: Collection[TrialSummary]) -> None:
    """No trial of one attempt is there twice."""
    keys = [(trial.planned.block, trial.planned.arm) for trial in found]
    assert len(keys) == len(set(keys))


def shared_memory(pid: int) -> set[str]:
    """Files in shared memory that a process has mapped."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return set()
    return {line.split()[5] for line in maps.splitlines() if " /dev/shm/" in line and not line.endswith("(deleted)")}
