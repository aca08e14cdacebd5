"""Backup and restore."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from app.errors import Conflict, DatabaseUnavailable, InvalidInput, LeaseLost
from app.store import catalogue, experiments, maintenance, queue
from app.store.database import Database
from tests.support.store import LEASE_S, claim, submit

# --- backup and restore --------------------------------------------------------------------------------------------


def test_a_backup_holds_what_was_there_and_restores_it(sqlite_db: Database, tmp_path: Path) -> None:
    kept = submit(sqlite_db, name="kept")
    maintenance.backup(sqlite_db, tmp_path / "backup.sqlite")
    later = claim(sqlite_db)
    assert later.experiment_id == kept
    submit(sqlite_db, name="after the backup")

    maintenance.restore(sqlite_db, tmp_path / "backup.sqlite")

    assert [item.name for item in catalogue.page(sqlite_db).items] == ["kept"]
    assert experiments.get(sqlite_db, kept).queue_position == 1
    with pytest.raises(LeaseLost):
        queue.beat(sqlite_db, later, LEASE_S)
    with sqlite_db.read() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"


def test_a_backup_is_one_file_and_taken_while_others_write(sqlite_db: Database, tmp_path: Path) -> None:
    submit(sqlite_db)
    (tmp_path / "backups").mkdir()
    with sqlite_db.write() as connection:
        connection.execute(text("DELETE FROM experiment_labels"))
        maintenance.backup(sqlite_db, tmp_path / "backups" / "backup.sqlite")

    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["backup.sqlite"]


def test_a_backup_overwrites_nothing(sqlite_db: Database, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(Conflict, match="exists"):
        maintenance.backup(sqlite_db, tmp_path / "precious")
    with pytest.raises(DatabaseUnavailable):
        maintenance.backup(sqlite_db, tmp_path / "nowhere" / "backup.sqlite")


def test_only_a_backup_of_this_service_is_restored(sqlite_db: Database, tmp_path: Path) -> None:
    submit(sqlite_db)
    (tmp_path / "text").write_text("not a database, but long enough to look at" * 20)
    (tmp_path / "empty").touch()
    foreign = sqlite3.connect(tmp_path / "foreign")
    foreign.execute("CREATE TABLE alembic_version (version_num TEXT)")
    foreign.commit()
    maintenance.backup(sqlite_db, tmp_path / "newer")
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.commit()

    for name, why in {
        "nowhere": "there is no file",
        "text": "not a backup",
        "empty": "not a backup",
        "foreign": "not a backup",
        "newer": "newer version",
    }.items():
        with pytest.raises(InvalidInput, match=why):
            maintenance.restore(sqlite_db, tmp_path / name)

    assert len(catalogue.page(sqlite_db).items) == 1
    for connection in (foreign, newer):
        connection.close()


def test_a_postgres_database_is_backed_up_with_its_own_tools(postgres_db: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="pg_dump"):
        maintenance.backup(postgres_db, tmp_path / "backup")
    with pytest.raises(InvalidInput, match="pg_restore"):
        maintenance.restore(postgres_db, tmp_path / "backup")
