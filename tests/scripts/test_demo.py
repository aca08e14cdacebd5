"""./demo: the environment, then `rollout-lab demo`."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_sets_the_environment_up_and_runs_the_example(tmp_path: Path) -> None:
    def provide(file: Path, line: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{line}\n")
        file.chmod(0o755)

    checkout = tmp_path / "a checkout"
    provide(checkout / "scripts" / "setup", f"echo '{checkout}/venv'")
    provide(checkout / "venv" / "bin" / "rollout-lab", 'echo "$ROLLOUT_LAB_DATA_DIR: $*"; exit 3')
    shutil.copy(ROOT / "demo", checkout)
    done = subprocess.run([checkout / "demo"], cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout == f"{checkout}/.rollout-lab: demo {checkout}/examples/sync-vs-async.yaml\n"
    assert done.returncode == 3


def test_an_environment_that_cannot_be_set_up_ends_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "demo", tmp_path)
    done = subprocess.run([tmp_path / "demo"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "scripts/setup" in done.stderr
