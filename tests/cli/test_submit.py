"""submit and watch."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.cli import submit
from app.cli.progress import Bars, Lines, describe
from app.cli.submit import _ask_patiently
from app.errors import FailureCode, Unreachable
from app.spec.lifecycle import Failure, Status
from app.store import queue
from app.store.database import Database
from app.store.ids import ExperimentId
from benchmarks.support.service import Service, eventually
from tests.cli.conftest import Run
from tests.support.work import claim, finish, run_steps, work_off

SPEC = """\
name: sync against async
model: {preset: tiny-qwen2}
workload:
  prompts: {source: synthetic, count: 2, tokens: {distribution: fixed, value: 8}}
  samples_per_prompt: 2
arms:
  - {name: sync, profile: simulated, driver: {seconds_per_token: 0.010}}
  - {name: async, profile: simulated, driver: {seconds_per_token: 0.012}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    """A file with SPEC."""
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return str(path)


@pytest.fixture(autouse=True)
def _empty_queue(service: Service) -> Iterator[None]:
    """Nothing that waits is left for the next test."""
    yield
    for item in service.http.get("/v1/experiments", params={"status": "queued"}).json()["items"]:
        queue.request_cancel(service.db, ExperimentId(item["id"]))


class Worker:
    """Does something with the first experiment, in a thread."""

    def __init__(self, db: Database, work: Callable[[Database], Any]) -> None:
        self._db = db
        self._work = work
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        from app.store import experiments

        eventually(lambda: experiments.counts(self._db)[Status.QUEUED])
        self._work(self._db)


def test_submit_prints_the_id_and_says_where_to_look(served: Run, service: Service, spec: str) -> None:
    outcome = served("submit", spec)
    assert outcome.code == 0
    experiment = outcome.out.strip()
    assert service.http.get(f"/v1/experiments/{experiment}").json()["name"] == "sync against async"
    assert outcome.err.strip() == f"{service.url}/experiments/{experiment}"


def test_submit_reads_stdin_and_json(served: Run) -> None:
    document = {"model": {"preset": "tiny-qwen2"}, "arms": [{"name": "a", "profile": "simulated"}]}
    assert served("submit", "-", stdin=json.dumps(document)).code == 0
    assert served("submit", "-", stdin=SPEC).code == 0


def test_values_can_be_set(served: Run, spec: str) -> None:
    outcome = served(
        "submit", spec, "--json", "--set", "plan.blocks=2", "--set", "arms.1.name=slow: er", "--set", "x=1"
    )
    assert outcome.code == 2
    outcome = served("submit", spec, "--json", "--set", "plan.blocks=2", "--set", "arms.1.name=slower")
    found = json.loads(outcome.out)
    assert found["plan"]["trials"] == 4
    assert found["spec"]["arms"][1]["name"] == "slower"


@pytest.mark.parametrize("assignment", ["plan.blocks", "=1", "arms.7.name=x", "arms.x.name=y", "name.x.y=1"])
def test_what_cannot_be_set_is_wrong_usage(served: Run, spec: str, assignment: str) -> None:
    outcome = served("submit", spec, "--set", assignment)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: --set {assignment}: ")


def test_problems_come_with_their_lines(served: Run, tmp_path: Path) -> None:
    path = tmp_path / "faulty.yaml"
    path.write_text(SPEC.replace("samples_per_prompt: 2", "samples_per_promt: 2") + "plan: {blocks: 0}\nbaseline: x\n")
    outcome = served("submit", str(path))
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        f"{path}:5: /workload/samples_per_promt: unknown field 'samples_per_promt'; did you mean 'samples_per_prompt'?",
        "     5 |   samples_per_promt: 2",
        f"{path}:9: /plan/blocks: must be at least 1, not 0",
        "     9 | plan: {blocks: 0}",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "error: line 2: key 'a' is given twice"),
        ("a: [", "error: line 2: not YAML"),
        ("", "<stdin>: must be an object"),
    ],
)
def test_texts_that_are_no_specs_are_wrong_usage(served: Run, text: str, said: str) -> None:
    outcome = served("submit", "-", stdin=text)
    assert outcome.code == 2
    assert outcome.err.startswith(said)


def test_a_missing_file_is_wrong_usage(served: Run) -> None:
    outcome = served("submit", "/nowhere/spec.yaml")
    assert (outcome.code, outcome.err) == (2, "error: cannot read /nowhere/spec.yaml: No such file or directory\n")


def test_a_dry_run_says_what_it_would_take(served: Run, service: Service, spec: str) -> None:
    before = service.http.get("/v1/experiments").json()["items"]
    outcome = served("submit", spec, "--dry-run", "--set", "workload.samples_per_prompt=3")
    assert outcome.code == 0
    assert outcome.out.splitlines()[:2] == [
        "12 measured trials in the order ABBAABBAABBA, 2 to warm up, 2 engine starts",
        "No estimate of the time: no earlier experiment ran these arms with this model and workload.",
    ]
    assert service.http.get("/v1/experiments").json()["items"] == before


def test_calibrating_runs_one_arm_against_itself(served: Run, spec: str) -> None:
    found = json.loads(served("calibrate", spec, "--arm", "async", "--json").out)
    assert ([arm["name"] for arm in found["spec"]["arms"]], found["spec"]["calibrate"]) == (["async"], True)
    assert served("calibrate", spec, "--arm", "nobody").code == 2


def test_a_dry_run_says_what_will_show(capsys: pytest.CaptureFixture[str]) -> None:
    cost = {
        "trials": 12,
        "order": "ABBA",
        "warmup_trials": 2,
        "engine_starts": 2,
        "estimated_s": 74.0,
        "based_on": "0f",
    }
    submit._print_rehearsal({"cost": cost | {"noise_pct": 0.31, "detectable_effect_pct": 0.52}, "warnings": []}, False)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "About 74 s, as experiment 0f took.",
        "It will show differences from 0.52 % on: the arms alone vary by 0.31 % per block.",
    ]


def test_without_a_service_there_is_trouble(run: Run, spec: str) -> None:
    outcome = run("submit", spec, "--url", "http://127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err.startswith("error: no answer from http://127.0.0.1:1")
    assert run("submit", spec, "--url", "localhost:8321").code == 2


# --- waiting -------------------------------------------------------------------------------------------------------


def test_waiting_ends_with_the_comparison(served: Run, service: Service, spec: str) -> None:
    with Worker(service.db, work_off):
        outcome = served("submit", spec, "--wait")
    assert outcome.code == 0, outcome.err
    assert "SIMULATED" in outcome.out
    assert "sync (simulated@1)" in outcome.out
    assert "−16.7 %" in outcome.out
    assert "slower" in outcome.out
    assert "fairness: the arms did equal work" in outcome.out
    sentence, page = outcome.out.rstrip().splitlines()[-2:]
    assert "async is 16.7 % slower than sync" in sentence
    assert page.startswith(f"{service.url}/experiments/")
    assert outcome.err.rstrip().endswith("succeeded")


def test_a_verdict_to_fail_on_is_an_exit_code(served: Run, service: Service, spec: str) -> None:
    with Worker(service.db, work_off):
        outcome = served("submit", spec, "--fail-on", "slower", "--fail-on", "confounded")
    assert outcome.code == 3
    assert outcome.err.rstrip().endswith("--fail-on: slower")
    with Worker(service.db, work_off):
        assert served("submit", spec, "--fail-on", "faster").code == 0
    assert served("submit", spec, "--fail-on", "same").code == 2


def test_an_experiment_of_which_no_block_counts_is_trouble_and_says_why(
    served: Run, service: Service, spec: str
) -> None:
    def beside_others(db: Database) -> None:
        claimed = claim(db)
        list(run_steps(db, claimed, disturbed=True))
        finish(db, claimed)

    with Worker(service.db, beside_others):
        outcome = served("submit", spec, "--wait")
    assert outcome.code == 1
    why = "sync was disturbed: other processes took 90 % of the CPUs"
    assert f"No block counts for async: {why}" in outcome.err
    assert "blocks had to be dropped" in outcome.out
    assert why in outcome.out.splitlines()[-2]


def test_a_failure_is_trouble_and_says_why(served: Run, service: Service, spec: str) -> None:
    failure = Failure(code=FailureCode.ENGINE_DIED, detail="CUDA out of memory", arm="async", log_tail="line 1\nline 2")

    def fail(db: Database) -> None:
        queue.finish(db, claim(db).lease, Status.FAILED, failure=failure, reason="it broke")

    with Worker(service.db, fail):
        outcome = served("submit", spec, "--wait")
    assert outcome.code == 1
    assert "Failed: engine_died (arm async): CUDA out of memory\nline 1\nline 2\n" in outcome.out


def test_a_cancelled_experiment_is_trouble_but_shows_what_there_is(served: Run, service: Service, spec: str) -> None:
    def stop_early(db: Database) -> None:
        claimed = claim(db)
        steps = run_steps(db, claimed)
        for _ in range(6):
            next(steps)
        finish(db, claimed, Status.CANCELLED)

    with Worker(service.db, stop_early):
        outcome = served("submit", spec, "--wait")
    assert outcome.code == 1
    assert "output_throughput" in outcome.out


def test_watching_is_waiting_without_submitting(served: Run, service: Service, spec: str) -> None:
    experiment = served("submit", spec).out.strip()
    with Worker(service.db, work_off):
        outcome = served("watch", experiment, "--json")
    assert json.loads(outcome.out)["results"]["experiment_id"] == experiment
    assert served("watch", "nobody").code == 1


def test_ctrl_c_stops_the_waiting_not_the_experiment(
    served: Run, service: Service, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    outcome = served("submit", spec, "--wait")
    monkeypatch.undo()
    assert outcome.code == 130
    assert "the experiment goes on" in outcome.err
    assert service.http.get("/v1/experiments?status=queued").json()["items"]


class Notes:
    """A display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def show(self, experiment: dict[str, Any]) -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        """Remember it."""
        self.notes.append(text)


def test_waiting_outlives_a_service_that_goes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "POLL_S", 0.0)
    away = iter([True, True, False])

    def ask() -> str:
        if next(away):
            raise Unreachable("no answer")
        return "here"

    display = Notes()
    assert _ask_patiently(ask, display) == "here"
    assert display.notes == ["no answer; trying again", "the service is back"]


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "POLL_S", 0.0)
    monkeypatch.setattr(submit, "PATIENCE_S", -1.0)

    def ask() -> str:
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        _ask_patiently(ask, Notes())


# --- progress ------------------------------------------------------------------------------------------------------


def an_experiment(**changes: Any) -> dict[str, Any]:
    trials = [{"phase": "warmup", "arm": "a"}] + [{"phase": "measured", "arm": arm} for arm in "abba"]
    progress = {
        "step": "measuring",
        "trials_done": 3,
        "trials_total": 4,
        "current": {"arm": "a", "block": 1},
        "eta_s": 95.0,
    }
    found = {
        "status": "running",
        "queue_position": None,
        "cancel_requested": False,
        "progress": progress,
        "plan": {"details": {"trials": trials}},
    }
    return found | changes


def test_a_line_says_where_the_experiment_is() -> None:
    assert describe(an_experiment()) == "measuring, 3 of 4 trials done, now a in block 2, about 1 min 35 s left"
    assert describe(an_experiment(status="queued", queue_position=3)) == "queued, place 3"
    assert describe(an_experiment(progress=None)) == "running"
    assert describe(an_experiment(cancel_requested=True)).endswith("cancelling")


def test_lines_are_printed_once_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for eta_s in (95.0, 94.0, None):
        experiment = an_experiment()
        lines.show(experiment | {"progress": experiment["progress"] | {"eta_s": eta_s}})
    lines.show(an_experiment(status="succeeded"))
    assert [line[9:] for line in capsys.readouterr().err.splitlines()] == [describe(an_experiment()), "succeeded"]


def test_a_terminal_gets_a_bar_per_arm() -> None:
    console = Console(force_terminal=True, width=100, record=True)
    with Bars(console) as bars:
        bars.show(an_experiment())
        bars.note("lost the service")
    text = console.export_text()
    assert "▶ a" in text
    assert "1/2" in text
    assert "2/2" in text
    assert "lost the service" in text
