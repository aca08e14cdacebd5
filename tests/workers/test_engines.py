"""Which engine starts, sleeps and wakes when."""

from typing import Any, cast

import pytest

from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import ResolvedArm, resolve
from workers.engines import Engine, Engines
from workers.watch import Watch

TWO_ENGINES = [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}]
ONE_ENGINE: list[dict[str, Any]] = [
    {"name": "final", "profile": "vllm-async"},
    {"name": "delta", "profile": "vllm-async", "driver": {"output_kind": "delta"}},
]


class NotedEngine:
    """Stands for a Ray actor and writes down what it is asked to do."""

    def __init__(self, arm: str, journal: list[str]) -> None:
        self._arm, self._journal = arm, journal
        self._note("load")

    def _note(self, what: str) -> None:
        self._journal.append(f"{what} {self._arm}")

    def begin_start(self) -> None:
        self._note("begin")

    def start(self, watch: Watch) -> StartedArm:
        del watch
        self._note("start")
        threads = "1" if "lose a thread" in self._journal else "2"
        return StartedArm(self._arm, {"engine.seed": 0, "env.OMP_NUM_THREADS": threads})

    def sleep(self, watch: Watch) -> None:
        del watch
        self._note("sleep")

    def wake(self, watch: Watch) -> None:
        del watch
        self._note("wake")

    def kill(self) -> None:
        self._note("kill")


def engines_of(arms: list[dict[str, Any]], *, on_gpu: bool, **plan: Any) -> tuple[Engines, list[str], TrialPlan]:
    spec = Experiment.model_validate({"model": {"preset": "tiny-qwen2"}, "arms": arms, "plan": plan})
    resolved = resolve(spec)
    planned = plan_trials(spec, resolved)
    journal: list[str] = []

    def new_engine(settings: ResolvedArm, sleep_mode: bool) -> Engine:
        del sleep_mode
        return cast(Engine, NotedEngine(settings.name, journal))

    return Engines(planned, resolved.arms, new_engine, on_gpu, Watch(spec.limits)), journal, planned


def test_without_a_gpu_all_engines_start_at_once() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=False)
    engines.start_all()
    assert journal == ["load sync", "load async", "begin sync", "begin async", "start sync", "start async"]


def test_on_a_gpu_all_load_at_once_and_each_sleeps_before_the_next_starts() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=True)
    engines.start_all()
    assert journal == ["load sync", "load async", "start sync", "sleep sync", "start async"]


def test_on_a_gpu_one_is_awake_at_a_time() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=True)
    engines.start_all()
    journal.clear()
    assert [engines.prepare(arm, fresh=False)[1] for arm in ("async", "sync", "sync", "async")] == [
        False,
        True,
        False,
        True,
    ]
    assert journal == ["sleep async", "wake sync", "sleep sync", "wake async"]


@pytest.mark.parametrize("on_gpu", [True, False])
def test_engines_that_restart_are_never_two_at_a_time(on_gpu: bool) -> None:
    engines, journal, planned = engines_of(TWO_ENGINES, on_gpu=on_gpu, residency="restart", blocks=1)
    engines.start_all()
    for trial in planned.trials:
        engines.prepare(trial.arm, trial.fresh_engine)
    alive: set[str] = set()
    for what, arm in (line.split() for line in journal):
        (alive.discard if what == "kill" else alive.add)(arm)
        assert len(alive) <= 1


@pytest.mark.parametrize("on_gpu", [True, False])
def test_arms_that_differ_in_driver_settings_share_an_engine_and_keep_their_names(on_gpu: bool) -> None:
    engines, journal, _ = engines_of(ONE_ENGINE, on_gpu=on_gpu)
    resolved = engines.start_all()
    assert [line for line in journal if line.startswith("start")] == ["start final"]
    assert [arm.arm for arm in resolved] == ["final", "delta"]
    assert [arm.config["driver.output_kind"] for arm in resolved] == ["final_only", "delta"]
    assert not engines.prepare("delta", fresh=False)[1]


def test_a_discarded_engine_is_replaced_when_it_is_needed() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=True)
    engines.start_all()
    journal.clear()
    engines.discard("async")
    assert engines.prepare("async", fresh=False)[1]
    assert journal == ["kill async", "load async", "start async"]


def test_every_engine_ends_with_the_experiment() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=False)
    with engines:
        engines.start_all()
    assert journal[-2:] == ["kill sync", "kill async"]


def test_on_a_gpu_all_engines_end_and_start_anew_between_two_starts() -> None:
    engines, journal, planned = engines_of(TWO_ENGINES, on_gpu=True, blocks=2, starts=2)
    engines.start_all()
    beginning = list(journal)
    boundary = next(index for index, trial in enumerate(planned.trials) if trial.fresh_engine)
    for trial in planned.trials[:boundary]:
        engines.prepare(trial.arm, trial.fresh_engine)
    journal.clear()
    for trial in planned.trials[boundary:]:
        engines.prepare(trial.arm, trial.fresh_engine)
    assert journal[: 2 + len(beginning)] == ["kill sync", "kill async", *beginning]
    assert [line for line in journal[2 + len(beginning) :] if not line.startswith(("sleep", "wake"))] == []


@pytest.mark.parametrize("arms", [TWO_ENGINES, ONE_ENGINE], ids=["two engines", "one engine"])
def test_as_many_engines_start_as_the_plan_says(arms: list[dict[str, Any]]) -> None:
    engines, journal, planned = engines_of(arms, on_gpu=False, blocks=6, starts=3)
    engines.start_all()
    for trial in planned.trials:
        engines.prepare(trial.arm, trial.fresh_engine)
    assert sum(line.startswith("start") for line in journal) == planned.engine_starts


def test_an_engine_that_died_before_a_new_start_does_not_keep_the_others() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=False, blocks=2, starts=2)
    engines.start_all()
    for arm in ("sync", "async"):
        engines.prepare(arm, fresh=False)
    engines.discard("sync")
    journal.clear()
    assert engines.prepare("sync", fresh=True)[0] is engines.prepare("sync", fresh=False)[0]
    engines.prepare("async", fresh=True)
    assert [line for line in journal if line.startswith(("kill", "start"))] == [
        "kill async",
        "start sync",
        "start async",
    ]


def test_an_engine_that_is_replaced_is_compared_with_the_first() -> None:
    engines, journal, _ = engines_of(TWO_ENGINES, on_gpu=False)
    engines.start_all()
    engines.discard("async")
    engines.prepare("async", False)
    assert engines.find_changes("async") == ()
    engines.discard("async")
    journal.append("lose a thread")
    engines.prepare("async", False)
    assert engines.find_changes("async") == ('env.OMP_NUM_THREADS is "1" instead of "2"',)
    assert engines.find_changes("sync") == ()
