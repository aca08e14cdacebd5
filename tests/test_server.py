"""python -m app.server."""

import os
import shutil
from pathlib import Path

from app.settings import Settings
from benchmarks.support.service import Service, serving


def threads(service: Service) -> dict[int, int]:
    """Every thread's niceness; those that a library has started while it was imported keep their own."""
    ids = [int(path.name) for path in Path(f"/proc/{service.process.pid}/task").iterdir()]
    return {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in ids}


def test_it_gives_way_once_it_serves(migrated_sqlite: Path, tmp_path: Path) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    with serving(Settings(data_dir=tmp_path), niceness=3) as service:
        assert service.http.get("/v1/profiles").is_success
        found = threads(service)
    assert found.pop(service.process.pid) == ours + 3
    assert ours + 3 in found.values(), "those that answer"
