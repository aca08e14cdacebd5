"""Which interpreters an arm may name: every wrong one is told from a right one in bounded time."""

import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from app.errors import EngineStartFailed
from app.spec.resolution import ResolvedArm, resolve
from benchmarks.support.service import eventually
from tests.support.builders import a_simulated_spec, a_spec
from workers.interpreters import InterpreterAnswer, ask_interpreter, check_interpreters

RIGHT = {"python": platform.python_version(), "ray": version("ray"), "vllm": "0.32.0"}


def a_script(directory: Path, body: str) -> str:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def arms_with(python: str | None, *, simulated: bool = False) -> tuple[ResolvedArm, ...]:
    arm = {"name": "odd", "profile": "simulated" if simulated else "vllm-async", "environment": {"python": python}}
    spec = a_simulated_spec() if simulated else a_spec()
    return resolve(spec.model_validate(spec.model_dump() | {"arms": [arm]})).arms


def test_this_interpreter_can_run_engines() -> None:
    answer = ask_interpreter(sys.executable)
    assert answer.trouble is None
    assert answer.versions["ray"] == version("ray")
    check_interpreters(arms_with(sys.executable), ask_interpreter)


@pytest.mark.parametrize("python", ["/no/such/python", "/tmp", "/etc/passwd", "sh -c 'exit 0' x", "py\0thon"])  # noqa: S108
def test_what_cannot_be_run_is_said_to_be_so(python: str) -> None:
    with pytest.raises(EngineStartFailed, match=r"cannot be run: .*; needed: Python 3\.\d+ with Ray .* and vLLM") as no:
        check_interpreters(arms_with(python), ask_interpreter)
    assert no.value.arm == "odd"
    assert python in no.value.detail


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("true", "said: nothing"),
        ("exit 3", "status 3 and said: nothing"),
        ("echo I am a shell", "said: I am a shell"),
        ("echo oh no >&2; exit 1", "status 1 and said: oh no"),
        ("echo '[]'", r"said: \[\]"),
        ("echo '{\"python\": 3}'", "said: "),
        ("kill -9 $$", "status -9"),
    ],
)
def test_what_is_no_python_is_told_by_what_it_says(tmp_path: Path, body: str, complaint: str) -> None:
    with pytest.raises(EngineStartFailed, match=rf"is no Python: .*{complaint}.*; needed: Python"):
        check_interpreters(arms_with(a_script(tmp_path, body)), ask_interpreter)


def test_a_binary_that_ignores_the_question_is_no_python() -> None:
    assert "is no Python" in str(ask_interpreter("/bin/true").trouble)


def test_one_that_never_answers_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    python = a_script(tmp_path, f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; wait")
    began = time.monotonic()
    assert ask_interpreter(python, 0.5) == InterpreterAnswer({}, "did not answer within 0.5 s")
    assert time.monotonic() - began < 10.0
    started = [int(pid) for pid in pids.read_text().split()]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in started), 5.0)


INTERRUPTED = """
import _thread, sys, threading
from workers.interpreters import ask_interpreter
threading.Timer(1.0, _thread.interrupt_main).start()  # as Ray does to a task that is cancelled
try:
    ask_interpreter(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_task_that_is_cancelled_as_it_asks_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    python = a_script(tmp_path, f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; wait")
    command = [sys.executable, "-c", INTERRUPTED, python]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30.0)
    assert done.stdout == "interrupted\n"
    started = [int(pid) for pid in pids.read_text().split()]
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in started), 5.0)


def test_one_that_never_stops_talking_is_ended_too(tmp_path: Path) -> None:
    began = time.monotonic()
    assert "is no Python" in str(ask_interpreter(a_script(tmp_path, "yes"), 30.0).trouble)
    assert time.monotonic() - began < 10.0


def test_what_an_interpreter_leaves_behind_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ask_interpreter(a_script(tmp_path, f"sleep 600 >/dev/null 2>&1 & echo $! > {pids}"))
    eventually(lambda: not psutil.pid_exists(int(pids.read_text())), 5.0)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"python": "3.8.2"}, r"is Python 3\.8\.2"),
        ({"ray": "2.9.0"}, r"Ray 2\.9\.0"),
        ({"ray": None}, "Ray none"),
        ({"vllm": None}, "vLLM none"),
    ],
)
def test_another_version_is_told_with_the_one_that_is_needed(changed: dict[str, str | None], found: str) -> None:
    versions = {key: value for key, value in (RIGHT | changed).items() if value is not None}
    with pytest.raises(EngineStartFailed, match=rf"{found}.*; needed: Python .* with Ray {version('ray')}"):
        check_interpreters(arms_with("/x/python"), lambda _: InterpreterAnswer(versions))


def test_another_vllm_or_patch_release_is_what_it_is_for() -> None:
    minor = ".".join(platform.python_version().split(".")[:2])
    check_interpreters(
        arms_with("/x"), lambda _: InterpreterAnswer(RIGHT | {"vllm": "0.25.1", "python": f"{minor}.99"})
    )


def test_a_simulated_arm_needs_no_vllm() -> None:
    without = {key: value for key, value in RIGHT.items() if key != "vllm"}
    check_interpreters(arms_with("/x", simulated=True), lambda _: InterpreterAnswer(without))


def test_arms_without_an_interpreter_of_their_own_ask_nobody_and_equal_ones_ask_once() -> None:
    asked: list[str] = []

    def ask(python: str) -> InterpreterAnswer:
        asked.append(python)
        return InterpreterAnswer(RIGHT)

    check_interpreters(arms_with(None), ask)
    assert asked == []
    check_interpreters(arms_with("/x") * 2, ask)
    assert asked == ["/x"]
