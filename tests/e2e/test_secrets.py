"""What the worker's environment holds stays there."""

from pathlib import Path

from app.launch import find_free_port
from app.settings import Settings
from app.spec.lifecycle import Status
from app.store import experiments, queue
from app.store.database import Database
from benchmarks.support.lab import OFFLINE
from benchmarks.support.service import eventually, serving_all
from tests.support.builders import a_spec

PLANTED = "planted-hub-token"


def test_no_variable_of_a_stored_spec_brings_the_worker_s_token_out(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, port=find_free_port("127.0.0.1", 0), variables="OMP_LEAK")
    db = Database(settings.url)
    db.upgrade()
    ids = [
        queue.enqueue(
            db,
            a_spec(
                arms=[
                    {
                        "name": "simulated",
                        "profile": "simulated",
                        "driver": {"seconds_per_token": 0.001},
                        "environment": {"variables": {"OMP_LEAK": value}},
                    }
                ],
                plan={"blocks": 1, "warmup_trials": 0},
            ),
        ).experiment_id
        for value in ("${HF_TOKEN}", "HF_TOKEN")
    ]
    with serving_all(settings, HF_TOKEN=PLANTED, **OFFLINE):
        eventually(lambda: all(experiments.get_item(db, one).status.terminal for one in ids), 120.0)
    assert [experiments.get_item(db, one).status for one in ids] == [Status.FAILED, Status.SUCCEEDED]
    db.dispose()
    told = {path.name for path in tmp_path.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()}
    assert told == set()
