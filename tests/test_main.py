"""What importing the service costs, and brings along."""

import subprocess
import sys
import tomllib

import pytest

from app.version import VERSION
from benchmarks.support.service import ROOT

_COST = "import os, {modules}; times = os.times(); print(times.user + times.system)"
_PACKAGES = "import sys, app.main; print(*{name.partition('.')[0] for name in sys.modules})"
_FOUNDATION = "fastapi, sqlalchemy, structlog"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def packages() -> set[str]:
    """Packages that a process has imported once it has the service."""
    return set(run(_PACKAGES).split())


def cost_s(modules: str) -> float:
    """CPU time of an import, the better of two; a machine that is busy with other things makes even that longer."""
    return min(float(run(_COST.format(modules=modules))) for _ in range(2))


def test_the_service_never_loads_what_belongs_to_workers(packages: set[str]) -> None:
    assert packages & {"torch", "vllm", "ray", "transformers"} == set()


@pytest.mark.parametrize("package", ["scipy", "pyarrow", "alembic", "uvicorn", "httpx", "psycopg"])
def test_heavy_packages_wait_until_they_are_needed(packages: set[str], package: str) -> None:
    assert package not in packages


def test_importing_the_service_is_quick() -> None:
    """1.5 s, or on a machine that is slow now, no more than three times what the libraries below it take."""
    assert cost_s("app.main") < max(1.5, 3.0 * cost_s(_FOUNDATION))


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
