"""An experiment from claim to verdict, with a real database and without Ray: its engines run in this process."""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest

from app.errors import FailureCode, RayLost
from app.measure.records import Conditions, StartedArm
from app.settings import Settings
from app.spec.experiment import DriverSettings, Experiment
from app.spec.lifecycle import Status
from app.spec.resolution import ResolvedArm
from app.store import experiments, queue, trials
from app.store.database import Database
from app.store.experiments import ExperimentRow
from benchmarks.support.databases import opened
from tests.support.builders import a_simulated_spec
from workers.attempt import run_experiment
from workers.drivers.base import Batch, Outcome
from workers.drivers.simulated import SimulatedEngine
from workers.engines import Engine
from workers.watch import Watch

SEQS = "engine.scheduler_config.max_num_seqs"

T = TypeVar("T")


class EngineInThisProcess:
    """A simulated engine where an actor would be."""

    def __init__(self, settings: ResolvedArm, seed: int, config: dict[str, object]) -> None:
        self._engine = SimulatedEngine(settings, seed)
        self._config = config

    def begin_start(self) -> None:
        """Starts when it is waited for."""

    def start(self, watch: Watch) -> StartedArm:
        del watch
        return dataclasses.replace(self._engine.start(), config=self._config)

    def encode(self, texts: tuple[str, ...], watch: Watch) -> tuple[tuple[int, ...], ...]:
        del watch
        return self._engine.encode(texts)

    def sleep(self, watch: Watch) -> None:
        """There is no GPU to take turns on."""

    def wake(self, watch: Watch) -> None:
        """It never slept."""

    def rollout(self, batch: Batch, settings: DriverSettings, reset: bool, watch: Watch, grace_s: float) -> Outcome:
        del reset, grace_s
        watch.begin_trial()
        return Outcome(self._engine.rollout(batch, settings, nullcontext()), Conditions())

    def kill(self) -> None:
        """Nothing outlives it."""


class Here:
    """This process."""

    def ask(self, function: Callable[..., T], *arguments: object, within_s: float) -> T:
        del within_s
        return function(*arguments)


class NoCluster:
    """A host without Ray."""

    has_gpus = False

    def connect(self) -> None:
        """There is nothing to connect to."""

    @contextmanager
    def reserve(self, gpus: int, check: Callable[[], None]) -> Iterator[Here]:
        del gpus, check
        yield Here()


@pytest.fixture
def db(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with opened(f"sqlite:///{tmp_path}/rollout-lab.sqlite") as database:
        yield database


Ran = Callable[..., ExperimentRow]


@pytest.fixture
def ran(db: Database, tmp_path: Path) -> Ran:
    """Queue a spec, claim it, run it; `configs` holds what an arm's engine resolves to."""

    def run(spec: Experiment, configs: dict[str, dict[str, object]] | None = None) -> ExperimentRow:
        found = configs or {}

        def make_engine(arm: ResolvedArm, place: Here, sleep_mode: bool, seed: int, logs_dir: Path) -> Engine:
            del place, sleep_mode, logs_dir
            return EngineInThisProcess(arm, seed, found.get(arm.name, {}))

        queue.enqueue(db, spec)
        claim = queue.claim(db, "worker", 30.0)
        assert claim is not None
        settings = Settings(data_dir=tmp_path, data_roots=str(tmp_path))
        run_experiment(db, NoCluster(), settings, claim, Watch(spec.limits), make_engine=make_engine)
        return experiments.get(db, claim.lease.experiment_id)

    return run


def quick(**changes: Any) -> Experiment:
    """A spec whose trials take no time."""
    plan: dict[str, Any] = {"plan": {"blocks": 4}}
    return a_simulated_spec(**(plan | changes))


def test_an_experiment_ends_with_a_verdict_and_every_trial_stored(ran: Ran, db: Database) -> None:
    row = ran(quick())
    assert row.item.status is Status.SUCCEEDED
    assert row.results is not None
    assert row.results["comparisons"][0]["verdict"] == "slower"
    assert len(trials.read_trials(db, row.item.id)) == 2 + 2 * 4


def test_strict_parity_refuses_before_the_first_trial(ran: Ran, db: Database) -> None:
    row = ran(quick(decision={"parity": "strict"}), {"sync": {SEQS: 1024}, "async": {SEQS: 128}})
    assert row.item.status is Status.FAILED
    assert row.item.failure is not None
    assert row.item.failure.code is FailureCode.PARITY_REFUSED
    assert SEQS in row.item.failure.detail
    assert trials.read_trials(db, row.item.id) == ()


def test_a_difference_nobody_declared_is_flagged_where_the_spec_does_not_refuse_it(ran: Ran) -> None:
    row = ran(quick(), {"sync": {SEQS: 1024}, "async": {SEQS: 128}})
    assert row.results is not None
    assert row.results["comparisons"][0]["verdict"] == "confounded"


def test_an_arm_against_itself_leaves_its_noise_for_later_results(ran: Ran) -> None:
    arms = [{"name": "sync", "profile": "simulated", "driver": {"noise_pct": 1.0}}]
    first = ran(quick(arms=arms, calibrate=True))
    assert first.item.status is Status.SUCCEEDED
    later = ran(quick(arms=[*arms, {"name": "async", "profile": "simulated", "driver": {"noise_pct": 2.0}}]))
    assert first.results is not None
    assert later.results is not None
    assert later.results["noise"]["noise_pct"] == pytest.approx(first.results["comparisons"][0]["sd_pct"])


def test_an_arm_against_itself_on_several_starts_leaves_their_spread_for_later_results(ran: Ran, db: Database) -> None:
    arms = [{"name": "sync", "profile": "simulated", "driver": {"noise_pct": 1.0}}]
    first = ran(quick(arms=arms, calibrate=True, plan={"blocks": 6, "starts": 3}))
    stored = trials.read_trials(db, first.item.id, 1)
    assert {trial.planned.block: trial.planned.start for trial in stored if trial.planned.phase == "measured"} == {
        0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2
    }  # fmt: skip
    later = ran(quick(arms=[*arms, {"name": "async", "profile": "simulated", "driver": {"noise_pct": 2.0}}]))
    assert later.results is not None
    assert later.results["noise"]["starts"] == 3
    assert later.results["noise"]["spreads"]["output_throughput"]["blocks"] == pytest.approx(2)
    assert later.results["noise"]["floor_pct"] > 0


def test_an_arm_that_fails_twice_in_a_row_ends_the_experiment(ran: Ran) -> None:
    failing = {"failing_slots": list(range(8))}
    arms = [{"name": name, "profile": "simulated", "driver": failing} for name in ("sync", "async")]
    row = ran(quick(arms=arms, plan={"blocks": 4, "warmup_trials": 0}))
    assert row.item.status is Status.FAILED
    assert row.item.failure is not None
    assert row.item.failure.code is FailureCode.ENGINE_DIED
    assert row.item.failure.detail == "the spec says that trial 2 fails"  # both of async's, in the order ABBA


@pytest.mark.parametrize(("wanted", "status"), [(False, Status.FAILED), (True, Status.QUEUED)])
def test_a_lost_ray_ends_the_attempt_and_the_experiment_unless_its_spec_wants_another(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, wanted: bool, status: Status
) -> None:
    def reserve(*_: object) -> None:
        raise RayLost("Ray's raylet is gone")

    monkeypatch.setattr(NoCluster, "reserve", reserve)
    row = ran(quick(limits={"retry_on_loss": wanted}))
    assert row.item.status is status
    (attempt,) = row.attempts
    assert attempt.failure is not None
    assert attempt.failure.code is FailureCode.RAY_LOST


def test_a_prompts_file_that_cannot_be_used_fails_before_anything_is_started(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def touch(*_: object) -> None:
        raise AssertionError("the cluster was touched")

    monkeypatch.setattr(NoCluster, "connect", touch)
    fifo = tmp_path / "prompts.jsonl"
    os.mkfifo(fifo)
    row = ran(quick(workload={"prompts": {"source": "file", "path": str(fifo)}}))
    assert row.item.failure is not None
    assert row.item.failure.code is FailureCode.INVALID_WORKLOAD
    assert f"{fifo} is a FIFO" in row.item.failure.detail


def test_prompts_of_a_file_reach_every_trial(ran: Ran, db: Database, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": [1, 2, 3]}\n{"prompt": [4, 5]}\n')
    row = ran(quick(workload={"prompts": {"source": "file", "path": str(path)}, "samples_per_prompt": 1}))
    assert row.item.status is Status.SUCCEEDED
    assert {trial.work.prompt_tokens for trial in trials.read_trials(db, row.item.id) if trial.work} == {5}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"environment": {"variables": {"OMP_LEAK": "${PLANTED}"}}}, "taken literally"),
        ({"environment": {"python": "sh -c id x"}}, "no environment is called"),
        ({"environment": {"variables": {"VLLM_PLUGINS": "x"}}}, "may load code"),
    ],
)
def test_what_the_worker_s_operator_does_not_allow_is_not_run_however_it_came_into_the_queue(
    ran: Ran, db: Database, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("PLANTED", "a-planted-secret")
    row = ran(quick(arms=[{"name": "a", "profile": "simulated"} | changes]))
    assert row.item.status is Status.FAILED
    assert row.item.failure is not None
    assert row.item.failure.code is FailureCode.NOT_PERMITTED
    assert said in row.item.failure.detail
    assert "a-planted-secret" not in json.dumps(row.results)
    assert trials.read_arms(db, row.item.id) == ()
