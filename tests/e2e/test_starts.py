"""Processes of arms that never come up: a real Ray, and interpreters that are none."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import Cancelled, EngineStartFailed, NoResources
from app.spec.experiment import Limits
from app.spec.resolution import resolve
from tests.support.builders import a_simulated_spec
from workers import actor
from workers.actor import RemoteEngine
from workers.cluster import Cluster, Place
from workers.watch import Watch

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    own = Cluster(None)
    own.connect()
    yield own
    own.disconnect()


@pytest.fixture
def watch() -> Watch:
    return Watch(Limits())


@pytest.fixture
def place(cluster: Cluster, watch: Watch) -> Iterator[Place]:
    with cluster.reserve(0, watch.check) as found:
        yield found


def an_engine(place: Place, directory: Path, python: str) -> RemoteEngine:
    arm: dict[str, Any] = {"name": "odd", "profile": "simulated", "environment": {"python": python}}
    (settings,) = resolve(a_simulated_spec(arms=[arm])).arms
    return RemoteEngine(settings, place, sleep_mode=False, seed=0, logs_dir=directory)


def a_shell(directory: Path) -> str:
    path = directory / "python"
    path.write_text("#!/bin/sh\necho no worker from me >&2\nexit 3\n")
    path.chmod(0o755)
    return str(path)


def test_an_arm_s_process_that_never_comes_up_fails_with_what_ray_says(
    place: Place, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "_COME_UP_S", 8.0)
    engine = an_engine(place, tmp_path, a_shell(tmp_path))
    with pytest.raises(EngineStartFailed, match=r"did not come up within 8 s") as failure:
        engine.start(watch)
    engine.kill()
    assert failure.value.arm == "odd"
    assert str(tmp_path) in failure.value.detail
    assert failure.value.log_tail is not None
    assert "no worker from me" in failure.value.log_tail
    assert "Started worker process" in failure.value.log_tail


def test_a_cancel_ends_the_wait_for_a_process_that_never_comes_up(place: Place, watch: Watch, tmp_path: Path) -> None:
    engine = an_engine(place, tmp_path, a_shell(tmp_path))
    watch.cancelled.set()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        engine.start(watch)
    engine.kill()
    assert time.monotonic() - began < 10.0


def sleep_long() -> None:
    time.sleep(60.0)


def test_a_node_that_does_not_answer_is_not_waited_for(place: Place, watch: Watch) -> None:
    with pytest.raises(NoResources, match="within 1 s"):
        place.ask(sleep_long, within_s=1.0)
    watch.cancelled.set()
    with pytest.raises(Cancelled):
        place.ask(sleep_long, within_s=60.0)


def test_a_log_goes_with_an_engine_that_ended_well(place: Place, watch: Watch, tmp_path: Path) -> None:
    (settings,) = resolve(a_simulated_spec(arms=[{"name": "fine", "profile": "simulated"}])).arms
    engine = RemoteEngine(settings, place, sleep_mode=False, seed=0, logs_dir=tmp_path / "logs")
    engine.start(watch)
    assert len(list((tmp_path / "logs").iterdir())) == 1
    engine.kill()
    assert list((tmp_path / "logs").iterdir()) == []
