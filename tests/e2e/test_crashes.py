"""Real processes killed with real signals: nothing is lost, nothing is stuck, nothing is left, and the service goes on.

The engines are simulated; everything else is real. A story runs in a service of its own, and most of its time it waits
for leases to run out and processes to start: so several of them run at once, those of the tests that were asked for.
"""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.measure.records import TrialState
from app.settings import Settings
from app.store.experiments import ExperimentRow, get
from app.store.ids import ExperimentId
from benchmarks.support.crashes import BLOCKS, Scene, Step, Victim, simulated
from benchmarks.support.databases import opened, running_postgres
from benchmarks.support.lab import OFFLINE, running_lab
from benchmarks.support.service import environment, eventually

pytestmark = pytest.mark.timeout(600)

AT_ONCE = 5
LEASE_S = 5.0
AGAIN = {"retry_on_loss": True}
DRAIN_S = 30.0

Story = Callable[[Path], Any]


@contextmanager
def a_scene(directory: Path, database_url: str | None = None) -> Iterator[Scene]:
    """A service, and its database."""
    directory.mkdir(exist_ok=True)
    url = Settings(data_dir=directory, database_url=database_url).url
    with running_lab(directory, LEASE_S, database_url) as lab, opened(url) as db:
        yield Scene(lab, db)


@pytest.fixture(scope="module")
def stories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Stories"]:
    """The stories that the selected tests are about, all of them begun."""
    told = {item.callspec.params.get("story") for item in request.session.items if hasattr(item, "callspec")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {
            name: pool.submit(story, tmp_path_factory.mktemp("story"))
            for name, story in STORIES.items()
            if name in told
        }
        yield begun


# --- killed at every step ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an experiment, part of whose service was killed."""

    experiment: ExperimentRow
    states: dict[int, list[TrialState]]  # of measured trials, by attempt
    kept: set[int]  # blocks whose trials had been stored when it happened


def killed_at_every_step(*victims: Victim) -> Story:
    """One experiment per part and step, each of which shows that the service went on after the one before."""

    def story(directory: Path) -> dict[tuple[Victim, Step], Outcome]:
        with a_scene(directory) as scene:
            cells = [(victim, step) for victim in victims for step in steps_of(victim)]
            outcomes = {(victim, step): killed_at(scene, victim, step) for victim, step in cells}
            scene.assert_the_next_one_runs()
            return outcomes

    return story


def steps_of(victim: Victim) -> list[Step]:
    """When there is such a process: an actor is started after the claim, and ended before the finish."""
    return [step for step in Step if victim is not Victim.ACTOR or step not in {Step.CLAIMED, Step.FINISHING}]


def on_one_service(*scenes: Callable[[Scene], None]) -> Story:
    """One after the other."""

    def story(directory: Path) -> None:
        with a_scene(directory) as scene:
            for act in scenes:
                act(scene)

    return story


def killed_at(scene: Scene, victim: Victim, step: Step) -> Outcome:
    eventually(lambda: scene.processes(victim) if victim is not Victim.ACTOR else True)
    with scene.caught_at(step, limits=AGAIN) as experiment_id:
        scene.kill(victim)
        kept = scene.measured(experiment_id)
    eventually(lambda: scene.item(experiment_id).status.terminal, 60.0)
    scene.assert_sound(experiment_id)
    stored = scene.measured(experiment_id)
    assert [trial for trial in stored if trial in kept] == kept, "a stored trial is lost or changed"
    row = get(scene.db, ExperimentId(experiment_id))
    states = {
        attempt.attempt: [trial.state for trial in stored if trial.attempt == attempt.attempt]
        for attempt in row.attempts
    }
    return Outcome(row, states, {trial.planned.block for trial in kept})


Stories = dict[str, "Future[Any]"]
API, WORKER, HEAD, RAYLET = "the api and an actor", "the worker", "ray's head", "the raylet"


def outcome(stories: Stories, story: str, victim: Victim, step: Step) -> Outcome:
    found: Outcome = stories[story].result()[victim, step]
    return found


def at_every_step(story: str, victim: Victim) -> pytest.MarkDecorator:
    """One test per step at which the victim was killed."""
    return pytest.mark.parametrize(("story", "step"), [(story, step) for step in steps_of(victim)])


@at_every_step(API, Victim.API)
def test_the_api_killed_is_back_and_the_experiment_has_not_noticed(stories: Stories, story: str, step: Step) -> None:
    found = outcome(stories, story, Victim.API, step)
    assert found.experiment.item.status == "succeeded"
    assert found.states == {1: [TrialState.SUCCEEDED] * BLOCKS}


@at_every_step(WORKER, Victim.WORKER)
def test_a_killed_worker_s_experiment_goes_on_from_its_finished_blocks(
    stories: Stories, story: str, step: Step
) -> None:
    found = outcome(stories, story, Victim.WORKER, step)
    first, second = found.experiment.attempts
    assert first.failure is not None
    assert (first.outcome, first.failure.code, second.outcome) == ("queued", "worker_lost", "succeeded")
    assert found.states[2] == [TrialState.SUCCEEDED] * BLOCKS
    taken = set() if second.continuation is None else second.continuation.blocks
    assert taken == found.kept


@at_every_step(API, Victim.ACTOR)
def test_a_killed_actor_costs_the_trial_it_ran(stories: Stories, story: str, step: Step) -> None:
    found = outcome(stories, story, Victim.ACTOR, step)
    assert len(found.experiment.attempts) == 1
    failed = [state for state in found.states[1] if state is TrialState.FAILED]
    if step is Step.STARTING:
        assert found.experiment.item.failure is not None
        assert (found.experiment.item.failure.code, found.states) == ("engine_died", {1: []})
    else:
        assert found.experiment.item.status == "succeeded"
        assert len(found.states[1]) == BLOCKS
        assert len(failed) <= 1
        assert failed or step is Step.BETWEEN, "then it may have been the engine that was done"


@at_every_step(RAYLET, Victim.RAYLET)
def test_a_killed_raylet_costs_the_attempt_where_the_engines_it_left_are_not_enough(
    stories: Stories, story: str, step: Step
) -> None:
    found = outcome(stories, story, Victim.RAYLET, step)
    assert found.experiment.item.status == "succeeded"
    attempts = found.experiment.attempts
    assert found.states[len(attempts)] == [TrialState.SUCCEEDED] * BLOCKS
    if step in {Step.MEASURING, Step.FINISHING}:
        assert len(attempts) == 1
    else:
        first, second = attempts
        assert first.failure is not None
        assert (first.outcome, first.failure.code, second.outcome) == ("queued", "ray_lost", "succeeded")
        assert "raylet" in first.failure.detail
        assert (set() if second.continuation is None else second.continuation.blocks) == found.kept


@at_every_step(HEAD, Victim.HEAD)
def test_ray_s_head_takes_the_worker_with_it_and_the_experiment_goes_on(
    stories: Stories, story: str, step: Step
) -> None:
    found = outcome(stories, story, Victim.HEAD, step)
    assert found.experiment.item.status == "succeeded"
    attempts = found.experiment.attempts
    assert len(attempts) == 2 or step is Step.FINISHING, "which may be over before Ray gives up"
    assert found.states[len(attempts)] == [TrialState.SUCCEEDED] * BLOCKS


# --- lost, and retried by hand -------------------------------------------------------------------------------------


def a_retry_goes_on_from_finished_blocks_and_says_so(scene: Scene) -> None:
    lab = scene.lab
    lost = lab.submit(**simulated("sync", "async", blocks=4, trial_s=0.4))
    eventually(lambda: len(scene.measured(lost)) >= 3, 60.0)
    scene.kill(Victim.WORKER)
    ended = lab.ended(lost, 60.0)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "worker_lost")
    scene.assert_sound(lost)
    partial = lab.results(lost)
    assert not partial["complete"]
    kept = scene.measured(lost)
    finished = {trial.planned.block for trial in kept if trial.planned.position == 1}
    assert finished, "a block of two trials is done"

    response = lab.http.post(f"/v1/experiments/{lost}/retry")
    assert response.status_code == 201
    retry = response.json()["id"]
    assert lab.ended(retry, 60.0)["status"] == "succeeded"
    scene.assert_sound(retry)

    results = lab.results(retry)
    (taken,) = results["continuation"]["taken_over"]
    assert (taken["experiment_id"], taken["attempt"], set(taken["blocks"])) == (lost, 1, finished)
    (told,) = [warning for warning in results["warnings"] if warning["code"] == "continued"]
    assert f"of attempt 1 of {lost}" in told["detail"]
    began = {(trial.planned.block, trial.planned.arm): trial.started_at for trial in kept}
    for trial in scene.measured(retry):
        key = (trial.planned.block, trial.planned.arm)
        assert (trial.started_at == began.get(key)) == (trial.planned.block in finished)
    assert len(scene.measured(retry)) == 8
    assert lab.http.get(f"/v1/experiments/{retry}/requests").json()["items"]
    assert lab.http.post(f"/v1/experiments/{retry}/retry").status_code == 409
    assert lab.experiment(lost)["attempts"][0]["error"]["code"] == "worker_lost"


# --- Ray gone while nobody needs it ---------------------------------------------------------------------------------


def a_service_without_ray_says_so_and_mends_it(scene: Scene) -> None:
    def ray() -> dict[str, Any]:
        found: dict[str, Any] = scene.lab.http.get("/readyz").json()
        return found

    assert ray()["status"] == "ready"
    scene.kill(Victim.RAYLET)
    degraded = eventually(lambda: found if (found := ray())["status"] == "degraded" else None, 10.0, 0.1)
    assert degraded["database"]["ok"]
    assert degraded["workers"]["ok"], "the worker is there"
    assert not degraded["ray"]["ok"]
    assert "Ray" in degraded["ray"]["detail"]
    eventually(lambda: ray()["status"] == "ready", 60.0, 0.3)
    scene.assert_the_next_one_runs()


# --- a worker that sleeps too long ---------------------------------------------------------------------------------


def a_worker_that_wakes_up_too_late_writes_nothing_and_goes_on(scene: Scene) -> None:
    directory = scene.lab.data_dir
    with (directory / "heir.log").open("wb") as log:
        lab = scene.lab
        experiment_id = lab.submit(**simulated(trial_s=1.0, limits=AGAIN))
        (sleeper,) = scene.processes(Victim.WORKER)
        # While another writes: one that stops as it holds SQLite's one lock would stop everybody.
        with scene.at(experiment_id, Step.MEASURING), scene.db.write():
            sleeper.send_signal(signal.SIGSTOP)
        settings = Settings(data_dir=directory, lease_s=LEASE_S)
        heir = subprocess.Popen(
            [sys.executable, "-m", "workers"],
            env=environment(settings) | OFFLINE,
            cwd=directory,
            stdout=log,
            stderr=log,
        )
        try:
            owner = eventually(lambda: running_owner(scene, experiment_id, 2), 60.0)
            sleeper.send_signal(signal.SIGCONT)
            assert lab.ended(experiment_id, 60.0)["status"] == "succeeded"
            eventually(lambda: b"attempt abandoned" in lab.log.read_bytes(), 30.0)
            for said in ("experiment claimed", "lease lost", "attempt abandoned"):
                (line,) = [line for line in lab.log.read_text().splitlines() if said in line and experiment_id in line]
                assert {"attempt=1", f"experiment_id={experiment_id}"} <= set(line.split())
            ended = lab.experiment(experiment_id)
            assert [attempt["outcome"] for attempt in ended["attempts"]] == ["queued", "succeeded"]
            assert ended["attempts"][1]["owner"] == owner
            assert [trial.attempt for trial in scene.measured(experiment_id)].count(2) == BLOCKS
        finally:
            heir.send_signal(signal.SIGTERM)
            assert heir.wait(DRAIN_S) == 0
        scene.assert_sound(experiment_id)
        scene.assert_the_next_one_runs()
        assert scene.processes(Victim.WORKER) == (sleeper,), "it lives on, and ran the next one"


def running_owner(scene: Scene, experiment_id: str, attempt: int) -> str | None:
    row = get(scene.db, ExperimentId(experiment_id))
    return row.owner if row.item.attempt == attempt else None


# --- a database that goes away, a disk that is full ----------------------------------------------------------------


def postgres_may_be_away_for_longer_than_a_lease(directory: Path) -> None:
    with running_postgres() as server, server.empty() as url, a_scene(directory, url) as scene:
        lab = scene.lab
        experiment_id = lab.submit(**simulated(trial_s=1.0))
        with scene.at(experiment_id, Step.MEASURING):
            server.stop()
        time.sleep(1.5 * LEASE_S)
        away = lab.http.get(f"/v1/experiments/{experiment_id}")
        assert (away.status_code, away.json()["type"]) == (503, "/v1/problems/database-unavailable")
        server.start()
        ended = lab.ended(experiment_id, 60.0)
        assert (ended["status"], ended["attempt"]) == ("succeeded", 1)
        assert len(scene.measured(experiment_id)) == BLOCKS
        scene.assert_sound(experiment_id)
        scene.assert_the_next_one_runs()


def a_full_disk_is_waited_out(scene: Scene) -> None:
    """Every write beyond what a file has, or to a new one, is refused; the limit can be lifted again."""
    lab = scene.lab
    experiment_id = lab.submit(**simulated(trial_s=1.0))
    writers = [*scene.processes(Victim.API), *scene.processes(Victim.WORKER)]
    with scene.at(experiment_id, Step.MEASURING):
        for process in writers:
            limit_files(process, 0)
    time.sleep(1.5 * LEASE_S)
    refused = lab.http.post("/v1/experiments", json=simulated())
    assert (refused.status_code, refused.json()["type"]) == (503, "/v1/problems/database-unavailable")
    assert lab.experiment(experiment_id)["status"] == "running"
    assert len(scene.measured(experiment_id)) < BLOCKS
    for process in writers:
        limit_files(process, resource.RLIM_INFINITY)
    ended = lab.ended(experiment_id, 60.0)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 1)
    assert len(scene.measured(experiment_id)) == BLOCKS
    scene.assert_sound(experiment_id)
    scene.assert_the_next_one_runs()
    assert [process.is_running() for process in writers] == [True, True]


def limit_files(process: psutil.Process, most_bytes: int) -> None:
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (most_bytes, hard))


# --- asked to end --------------------------------------------------------------------------------------------------


def a_short_trial_is_finished_and_a_long_start_is_not_before_the_service_ends(directory: Path) -> None:
    """A trial that ends soon is finished; the rest is for whoever comes next."""
    with a_scene(directory) as scene:
        experiment_id = scene.lab.submit(**simulated(trial_s=2.0))
        with scene.at(experiment_id, Step.MEASURING):
            assert end_service(scene) < DRAIN_S
        handed_back(scene, experiment_id, blocks={0, 1})
    with a_scene(directory) as scene:
        ended = scene.lab.ended(experiment_id, 60.0)
        assert (ended["status"], ended["attempt"]) == ("succeeded", 2)
        (taken,) = scene.lab.results(experiment_id)["continuation"]["taken_over"]
        assert taken["blocks"] == [0, 1]
        scene.assert_sound(experiment_id)
        starting = scene.lab.submit(**simulated(start_s=300.0))
        with scene.at(starting, Step.STARTING):
            assert end_service(scene) < DRAIN_S
        handed_back(scene, starting, blocks=set())


def a_long_trial_is_handed_back_before_the_service_ends(directory: Path) -> None:
    with a_scene(directory) as scene:
        experiment_id = scene.lab.submit(**simulated(trial_s=300.0))
        eventually(lambda: is_measuring(scene, experiment_id), 60.0)
        assert end_service(scene) < DRAIN_S
        handed_back(scene, experiment_id, blocks=set())


def is_measuring(scene: Scene, experiment_id: str) -> bool:
    progress = scene.item(experiment_id).progress
    return progress is not None and progress.step == "measuring"


def end_service(scene: Scene) -> float:
    """SIGTERM to `rollout-lab serve`; how long it takes, s."""
    (api,) = scene.processes(Victim.API)
    supervisor = api.parent()
    assert supervisor is not None
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    eventually(lambda: supervisor.status() == psutil.STATUS_ZOMBIE, 2 * DRAIN_S)
    return time.monotonic() - began


def handed_back(scene: Scene, experiment_id: str, blocks: set[int]) -> None:
    row = get(scene.db, ExperimentId(experiment_id))
    assert (row.item.status, row.owner) == ("queued", None)
    assert {trial.planned.block for trial in scene.measured(experiment_id)} == blocks
    assert scene.processes(Victim.WORKER) == ()
    assert scene.lab.no_engine_is_left()
    assert b"process killed" not in scene.lab.log.read_bytes()


STORIES: dict[str, Story] = {
    HEAD: killed_at_every_step(Victim.HEAD),
    RAYLET: killed_at_every_step(Victim.RAYLET),
    API: killed_at_every_step(Victim.API, Victim.ACTOR),
    WORKER: killed_at_every_step(Victim.WORKER),
    "lost ray is told, a zombie writes nothing, a full disk is waited out, a retry goes on": on_one_service(
        a_service_without_ray_says_so_and_mends_it,
        a_worker_that_wakes_up_too_late_writes_nothing_and_goes_on,
        a_full_disk_is_waited_out,
        a_retry_goes_on_from_finished_blocks_and_says_so,
    ),
    "a short trial is finished, a long start is not, before the service ends": (
        a_short_trial_is_finished_and_a_long_start_is_not_before_the_service_ends
    ),
    "a long trial is handed back before the service ends": a_long_trial_is_handed_back_before_the_service_ends,
    "postgres may be away for longer than a lease": postgres_may_be_away_for_longer_than_a_lease,
}


@pytest.mark.parametrize("story", [name for name in STORIES if name not in {API, WORKER, HEAD, RAYLET}])
def test_that(stories: Stories, story: str) -> None:
    stories[story].result()
