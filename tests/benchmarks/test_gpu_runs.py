"""Parts run against a service with simulated engines, and what is written of them."""

import argparse
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from app.judge.verdict import Verdict
from app.spec.lifecycle import Status
from app.store import experiments
from benchmarks.gpu.budget import Deadline
from benchmarks.gpu.digest import digest
from benchmarks.gpu.ledger import Ledger
from benchmarks.gpu.neighbour import beside, progress_now
from benchmarks.gpu.parts import Expected, Neighbour, Part, wants
from benchmarks.gpu.runner import Runner
from benchmarks.gpu.service import Lab
from benchmarks.support.service import eventually
from tests.support.work import claim, run_steps, work_off

PART = Part(
    name="simulated",
    about="async takes 20 % longer",
    trial_s={},
    graphs=(),
    expect=(Expected(candidate="async", verdicts=(Verdict.SLOWER,)),),
)
SPEC: dict[str, Any] = {
    "model": {"preset": "tiny-qwen2"},
    "arms": [
        {"name": "sync", "profile": "simulated", "driver": {"seconds_per_token": 0.010, "noise_pct": 0.2}},
        {"name": "async", "profile": "simulated", "driver": {"seconds_per_token": 0.012, "noise_pct": 0.2}},
    ],
    "plan": {"blocks": 4},
}


def found_of(lab: Lab, folder: Path) -> dict[str, Any]:
    """The digest of an experiment that a simulating worker runs, and its files."""

    def work() -> None:
        eventually(lambda: experiments.counts(lab.db)[Status.QUEUED])
        work_off(lab.db)

    worker = threading.Thread(target=work)
    worker.start()
    experiment = lab.run(SPEC, Deadline.after(None), folder)
    worker.join()
    lab.save(experiment, folder)
    return digest(PART, lab.evidence(experiment, logs=folder, smi=folder / "nvidia-smi.csv"))


def test_a_part_leaves_a_digest_a_report_and_its_records(lab: Lab, tmp_path: Path) -> None:
    found = found_of(lab, tmp_path)
    assert found["status"] == "succeeded"
    assert found["expectations"][0]["met"]
    assert 19.0 < found["expectations"][0]["duration_change_pct"] < 21.0
    assert found["telemetry"]["times"]["in_order"] == found["telemetry"]["times"]["records"] == 8 * 32
    assert "<html" in (tmp_path / "report.html").read_text()
    assert pq.read_table(tmp_path / "requests.parquet").num_rows == 8 * 32

    ledger = Ledger(tmp_path)
    ledger.keep("simulated", found | {"graphs": []})
    tables = (tmp_path / "tables.md").read_text()
    assert "| simulated | async | sync | −16." in tables
    assert Ledger(tmp_path).parts["simulated"]["summary"] == found["summary"]


def test_an_experiment_is_cancelled_before_the_deadline(lab: Lab, tmp_path: Path) -> None:
    experiment = lab.run(SPEC, Deadline.after(20.0), tmp_path)  # nobody works, and closing takes longer
    assert experiment["status"] == "cancelled"


def test_what_engines_print_is_kept_though_the_service_removes_it(lab: Lab, tmp_path: Path) -> None:
    logs = lab.settings.data_dir / "engine-logs"
    logs.mkdir()
    (logs / "sync.log").write_text("sleep took 9 s")
    lab.run(SPEC, Deadline.after(20.0), tmp_path)
    (logs / "sync.log").unlink()
    assert (tmp_path / "sync.log").read_text() == "sleep took 9 s"


def options(out: Path, **changes: Any) -> argparse.Namespace:
    """What the command line gave."""
    return argparse.Namespace(**({"out": out, "model": None, "tokens": None, "blocks": None} | changes))


def test_a_neighbour_that_is_there_from_the_start_works_before_anything_else_and_is_ended(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with beside(Neighbour(does="matmuls", during="start"), "http://127.0.0.1:9", tmp_path / "neighbour.log"):
        (process,) = set(psutil.Process().children()) - before
        used_s = process.cpu_times().user
        eventually(lambda: process.cpu_times().user > used_s)
    assert not process.is_running()


def test_a_neighbour_follows_the_arms_by_what_the_service_says(lab: Lab) -> None:
    assert progress_now(lab.client) is None
    lab.client.submit(SPEC, idempotency_key="one")
    followed = []
    for summary in run_steps(lab.db, claim(lab.db)):
        told = [arm for arm in ("sync", "async") if wants(arm, progress_now(lab.client))]
        followed.append(told == [summary.planned.arm])
    assert followed == [True] * 10


def test_a_neighbour_that_cannot_start_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    neighbour, log = Neighbour(does="copies", during="start"), tmp_path / "neighbour.log"
    with pytest.raises(subprocess.SubprocessError, match="did not start"), beside(neighbour, "http://127.0.0.1:9", log):
        pass


def test_parts_that_do_not_fit_are_left_out_and_said_so(tmp_path: Path) -> None:
    with Runner(options(tmp_path), Deadline.after(30.0)) as runner:
        runner.run(["b32", "e-llm", "e-fresh"])
    not_run = json.loads((tmp_path / "digest.json").read_text())["not_run"]
    assert list(not_run) == ["b32", "e-llm", "e-fresh"]
    assert "left out: it takes about" in (tmp_path / "tables.md").read_text()


def test_what_an_earlier_call_found_stays_when_a_later_one_has_no_time(tmp_path: Path) -> None:
    Ledger(tmp_path).keep("b32", {"graphs": ["sleeping"], "took_s": 300.0})
    with Runner(options(tmp_path), Deadline.after(30.0)) as runner:
        runner.run(["b32"])
    ledger = Ledger(tmp_path)
    assert ledger.parts["b32"]["took_s"] == 300.0
    assert ledger.graphs == {"sleeping"}
