"""What the examples promise."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from app.spec.document import load_yaml
from app.spec.lifecycle import Status
from app.spec.parsing import parse_experiment
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.store import experiments, queue
from app.store.database import Database
from benchmarks.support.service import ROOT, Service, eventually
from tests.support.work import work_off

EXAMPLES = ROOT / "examples"
SPECS = sorted(EXAMPLES.glob("*.yaml"))


def test_there_are_examples() -> None:
    assert {path.stem for path in SPECS} >= {"simulated", "sync-vs-async", "async-output-kinds", "gpu-7b-shape"}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_is_an_experiment_that_begins_with_why(path: Path) -> None:
    text = path.read_text()
    spec = parse_experiment(load_yaml(text).value)
    plan = plan_trials(spec, resolve(spec))
    assert text.startswith("# ")
    assert spec.name
    assert spec.labels["suite"]
    assert len(plan.arms) > 1
    assert spec.plan.blocks >= 6


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_is_stored_as_it_was_submitted(path: Path, tmp_path: Path) -> None:
    document = load_yaml(path.read_text()).value
    db = Database(f"sqlite:///{tmp_path / 'examples.sqlite'}")
    db.upgrade()
    stored = experiments.get(db, queue.enqueue(db, parse_experiment(document)).experiment_id)
    db.dispose()
    assert stored.submitted == document
    assert stored.spec == parse_experiment(document)


def test_the_example_of_output_kinds_needs_one_engine() -> None:
    spec = parse_experiment(load_yaml((EXAMPLES / "async-output-kinds.yaml").read_text()).value)
    assert plan_trials(spec, resolve(spec)).engine_starts == 1


def test_the_curl_lines_run_as_they_are_written(service: Service, tmp_path: Path) -> None:
    def work() -> None:
        eventually(lambda: experiments.counts(service.db)[Status.QUEUED])
        work_off(service.db)

    worker = threading.Thread(target=work)
    worker.start()
    ran = subprocess.run(
        [EXAMPLES / "curl.sh"],
        env=os.environ | {"ROLLOUT_LAB_URL": service.url, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    worker.join()
    assert ran.returncode == 0, ran.stderr
    assert '"estimated_s":null' in ran.stdout
    assert "event: status" in ran.stdout
    assert "async is 16." in ran.stdout
    assert "attempt,trial,block,arm,request_id" in ran.stdout
    assert (tmp_path / "rollout-lab-trace.json").read_text().startswith('{"displayTimeUnit":"ms"')
