"""What an experiment has found, as many ask for it at once."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from app.judge.noise import Noise, build_noise_keys
from app.judge.results import Results
from app.service import results
from app.spec.resolution import resolve
from app.store import experiments, queue
from app.store.database import Database
from app.store.experiments import ExperimentRow
from app.store.ids import ExperimentId
from app.store.noise import keep_noise
from app.store.trials import save_arm
from tests.support.builders import a_resolved_arm, a_simulated_spec
from tests.support.store import start

FOUND = results.make_results


@pytest.fixture
def db(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Database]:
    """A database of its own."""
    shutil.copyfile(migrated_sqlite, tmp_path / "lab.sqlite")
    database = Database(f"sqlite:///{tmp_path / 'lab.sqlite'}")
    yield database
    database.dispose()


@pytest.fixture
def queued(db: Database) -> ExperimentId:
    """An experiment that waits."""
    return queue.enqueue(db, a_simulated_spec()).experiment_id


def test_a_document_is_made_once_for_all_who_ask_for_it(
    db: Database, queued: ExperimentId, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ExperimentRow] = []
    asked = Event()

    def build(db: Database, row: ExperimentRow) -> Results:
        made.append(row)
        asked.wait(0.2)
        return FOUND(db, row)

    monkeypatch.setattr(results, "make_results", build)
    with ThreadPoolExecutor(8) as pool:
        documents = set(pool.map(lambda _: results.read_document(db, queued, "tag"), range(8)))
    assert len(documents) == len(made) == 1


def test_another_version_is_another_document(db: Database, queued: ExperimentId) -> None:
    first = results.read_document(db, queued, "first")
    queue.request_cancel(db, queued)
    assert results.read_document(db, queued, "first") == first
    assert results.read_document(db, queued, "second") != first


def test_an_error_is_not_kept(db: Database, queued: ExperimentId, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(db: Database, experiment_id: ExperimentId) -> ExperimentRow:
        raise OSError(f"{db} is away, and with it {experiment_id}")

    with monkeypatch.context() as patched:
        patched.setattr(experiments, "get", fail)
        with pytest.raises(OSError, match="away"):
            results.read_document(db, queued, "tag")
    assert results.read_document(db, queued, "tag")


def test_what_a_a_experiments_found_is_told_while_an_experiment_runs(db: Database) -> None:
    """As its worker will judge it: an interval that widens at the end would have been too narrow before."""
    lease = start(db)
    row = experiments.get(db, lease.experiment_id)
    assert FOUND(db, row).noise is None
    arm = resolve(row.spec).arms[0]
    engine = a_resolved_arm(arm.name)
    save_arm(db, lease, engine)
    keep_noise(db, lease, build_noise_keys(row.spec, arm, engine), Noise(0.5, -0.1, 6))
    noise = FOUND(db, row).noise
    assert noise is not None
    assert noise.experiments == 1
