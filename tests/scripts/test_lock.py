"""What scripts/lock has written, without resolving it again."""

import re
from pathlib import Path

import pytest

LOCKS = Path(__file__).resolve().parents[2] / "locks"
HASHED = ("base", "cpu", "dev", "gpu")
TORCH = "torch-cpu"  # every index that has this build has its own, and so its own hash


def requirements_of(lock: str) -> list[str]:
    """Every requirement with its hashes, on one line."""
    text = (LOCKS / f"{lock}.txt").read_text().replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_there_is_no_other_lock() -> None:
    assert {path.stem for path in LOCKS.glob("*.txt")} == {*HASHED, TORCH}


@pytest.mark.parametrize("lock", HASHED)
def test_every_requirement_has_one_version_and_a_hash(lock: str) -> None:
    for requirement in requirements_of(lock):
        assert re.match(r"[a-z0-9-]+==[\w.+!]+ ", requirement), requirement[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", requirement), requirement[:80]


def test_only_the_cpu_build_of_torch_has_none() -> None:
    assert [re.fullmatch(r"torch==[\d.]+\+cpu", line) is not None for line in requirements_of(TORCH)] == [True]
    for lock in ("cpu", "dev"):
        assert not any(line.startswith("torch==") for line in requirements_of(lock))


@pytest.mark.parametrize("lock", HASHED)
def test_what_builds_the_project_is_locked_too(lock: str) -> None:
    names = {line.partition("==")[0] for line in requirements_of(lock)}
    assert {"hatchling", "editables"} <= names
