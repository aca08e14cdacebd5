"""The Ray actor that owns one engine, and the worker's handle on it."""

import dataclasses
import os
import shlex
import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import psutil
import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from app.errors import (
    Cancelled,
    Draining,
    EngineDied,
    EngineStalled,
    EngineStartFailed,
    ExperimentFailure,
    RayLost,
    TimedOut,
)
from app.measure.records import Conditions, StartedArm
from app.spec.experiment import DriverSettings
from app.spec.resolution import ResolvedArm
from workers import logs, processes
from workers.cluster import Place
from workers.drivers import make_driver
from workers.drivers.base import Batch, Driver, Outcome
from workers.engine_config import build_engine_environment
from workers.hardware import read_hardware
from workers.heap import freeze_heap
from workers.logs import OwnLog
from workers.meter import ConditionsMeter
from workers.nvml import open_gpus
from workers.root_cause import find_root_cause, tail
from workers.watch import Pulse, Watch

T = TypeVar("T")

_POLL_S = 1.0  # how often a running call is asked for a sign of life
_PULSE_TIMEOUT_S = 20.0
_KILL_GRACE_S = 3.0  # Ray was seen to take half a second to end a killed actor's whole process group
_LOG_TIMEOUT_S = 5.0
_COME_UP_S = 120.0  # until the actor's process is there, before it imports anything large


class EngineActor:
    """Runs in a process of its own on the host with the GPUs. All driver calls come from one thread."""

    def __init__(self, settings: ResolvedArm, sleep_mode: bool, seed: int, gpus: tuple[str, ...], log: Path) -> None:
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        self._log = OwnLog(log)
        self._settings, self._sleep_mode, self._seed = settings, sleep_mode, seed
        self._gpus = open_gpus(gpus)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._vital: tuple[int, ...] = ()

    @cached_property
    def _driver(self) -> Driver:
        return make_driver(self._settings, self._sleep_mode, self._seed)

    def up(self) -> None:
        """The process is there."""

    def load(self) -> None:
        """Import the driver and its vLLM, which takes seconds; ``start`` tells what is wrong where that fails."""
        self._call(lambda: self._driver)

    def start(self) -> StartedArm:
        """Start the engine; EngineStartFailed carries its own root cause."""

        def start() -> StartedArm:
            self._meter = ConditionsMeter(self._gpus)
            started = self._driver.start()
            freeze_heap()
            return started

        try:
            resolved = self._thread.submit(start).result()
        except ExperimentFailure:
            raise
        except Exception as error:  # noqa: BLE001 - vLLM raises whatever went wrong
            log = self._log.read()
            raise EngineStartFailed(find_root_cause(str(error), log), self._settings.name, tail(log)) from None
        pids = processes.list_family(os.getpid())
        self._vital = tuple(pid for pid in pids if processes.read_title(pid).startswith(processes.ENGINE_TITLE))
        hardware = read_hardware(self._gpus)
        return dataclasses.replace(
            resolved,
            hardware=hardware,
            config=resolved.config | {f"hardware.{key}": value for key, value in hardware.items()},
            host=socket.gethostname(),
            pids=pids,
        )

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text."""
        return self._call(lambda: self._driver.encode(texts))

    def rollout(self, batch: Batch, settings: DriverSettings, reset_prefix_cache: bool) -> Outcome:
        """One trial, from a clean prefix cache if asked for."""

        self._log.begin()

        def run() -> Outcome:
            if reset_prefix_cache and not self._driver.reset_prefix_cache():
                raise EngineDied("the engine refused to reset its prefix cache: requests are still running")
            if self._settings.simulated:
                return Outcome(self._driver.rollout(batch, settings, nullcontext()), Conditions())
            rollout = self._driver.rollout(batch, settings, self._meter)
            harness = dataclasses.replace(rollout.harness, cpu_s=rollout.harness.cpu_s + self._meter.cpu_s)
            return Outcome(dataclasses.replace(rollout, harness=harness), self._meter.conditions)

        return self._call(run)

    def sleep(self) -> None:
        """Free the GPU's memory."""
        self._call(self._driver.sleep)

    def wake(self) -> None:
        """Undo ``sleep``."""
        self._call(self._driver.wake)

    def pulse(self) -> Pulse:
        """A sign of life, while another call runs."""
        gone = [pid for pid in self._vital if not processes.is_alive(pid)]
        dead = f"the engine's process {gone[0]} is gone" if gone else None
        return Pulse(self._driver.progress(), dead)

    def abort(self) -> None:
        """Ask a running rollout to stop."""
        self._driver.abort()

    def log(self) -> str:
        """What the engine printed since its start, or since its trial began."""
        return self._log.read()

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return self._thread.submit(function).result()
        except ExperimentFailure:
            raise
        except Exception as error:  # noqa: BLE001 - vLLM raises whatever went wrong
            # Told here: some of vLLM's errors say another thing, or nothing, once they have been through a pickle.
            raise EngineDied(f"{type(error).__name__}: {error}") from None


class RemoteEngine:
    """The worker's handle on an EngineActor: blocking calls that a Watch can end.

    The actor loads vLLM from the moment the handle exists, so that engines made together load together.
    """

    def __init__(self, settings: ResolvedArm, place: Place, sleep_mode: bool, seed: int, logs_dir: Path) -> None:
        self.settings = settings
        environment = settings.environment
        self._name = uuid.uuid4().hex
        self._log = logs_dir / f"{self._name}.log"
        self._log_begin = 0
        self._failed = False
        self._place, self._require_ray = place, place.require_ray
        marks = {processes.WORKER_MARK: processes.make_worker_mark(), processes.ENGINE_MARK: self._name}
        variables = build_engine_environment(settings, bool(place.gpus)) | marks | processes.KEEP_ENVIRONMENT
        runtime: dict[str, object] = {"env_vars": variables}
        if environment.python is not None:
            runtime["py_executable"] = shlex.quote(environment.python)  # Ray gives it to a shell
        self._actor: ActorHandle = (
            ray.remote(EngineActor)
            .options(
                num_cpus=0,
                num_gpus=0,
                max_concurrency=4,
                max_restarts=0,
                scheduling_strategy=place.strategy,
                runtime_env=runtime,
            )
            .remote(settings, sleep_mode, seed, place.gpus, self._log)
        )
        self._created = time.monotonic()
        self._up = self._actor.up.remote()
        self._actor.load.remote()
        self._starting: ray.ObjectRef[StartedArm] | None = None
        self._shared: frozenset[Path] = frozenset()

    def begin_start(self) -> None:
        """Have the engine start; ``start`` waits for it."""
        self._starting = self._actor.start.remote()

    def start(self, watch: Watch) -> StartedArm:
        """Start the engine and wait for it."""
        if self._starting is None:
            self.begin_start()
        self._wait(self._up, watch, self._require_coming_up)
        resolved: StartedArm = self._wait(self._starting, watch, self._require_ray_and_note_memory)
        self._note_memory()
        return resolved

    def encode(self, texts: tuple[str, ...], watch: Watch) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text, by the engine's tokenizer."""
        return tuple(self._wait(self._actor.encode.remote(texts), watch, lambda: self._require_life(watch)))

    def rollout(self, batch: Batch, settings: DriverSettings, reset: bool, watch: Watch, grace_s: float) -> Outcome:
        """One trial. When the watch says stop, the engine gets ``grace_s`` to stop by itself."""
        watch.begin_trial()
        self._log_begin = logs.read_size(self._log)
        call = self._actor.rollout.remote(batch, settings, reset)
        try:
            outcome: Outcome = self._wait(call, watch, lambda: watch.check_pulse(self._pulse(watch), stalls=True))
        except (Cancelled, Draining):
            self._actor.abort.remote()
            ray.wait([call], timeout=grace_s)
            raise
        return outcome

    def sleep(self, watch: Watch) -> None:
        """Free the GPU's memory."""
        self._wait(self._actor.sleep.remote(), watch, lambda: self._require_life(watch))

    def wake(self, watch: Watch) -> None:
        """Undo ``sleep``."""
        self._wait(self._actor.wake.remote(), watch, lambda: self._require_life(watch))

    def kill(self) -> None:
        """End the actor and every process of its engine, whatever they are doing."""
        self._note_memory()
        with suppress(RayError, ConnectionError, RuntimeError, ValueError):  # Ray may be gone, and the actor with it
            ray.kill(self._actor)
        processes.end(self._find_processes(), _KILL_GRACE_S)
        processes.free(self._shared)
        if not self._failed:
            self._log.unlink(missing_ok=True)
        logs.prune(self._log.parent)

    def _find_processes(self) -> tuple[psutil.Process, ...]:
        return processes.find_marked(processes.ENGINE_MARK, self._name.__eq__)

    def _wait(self, call: "ray.ObjectRef[Any]", watch: Watch, look: Callable[[], None]) -> Any:
        """The call's result; until it is there ``look`` raises what it finds wrong with the engine."""
        try:
            while not ray.wait([call], timeout=_POLL_S)[0]:
                watch.check()
                look()
            return ray.get(call)
        except (ExperimentFailure, RayTaskError, RayActorError) as error:
            self._failed = True
            raise self._explain(error) from None

    def _require_coming_up(self) -> None:
        self._require_ray()  # without it a call to an actor that is not there yet waits for ever
        if time.monotonic() > self._created + _COME_UP_S:
            python = self.settings.environment.python
            whose = "" if python is None else f" (environment.python {python})"
            detail = f"the arm's process{whose} did not come up within {_COME_UP_S:g} s; log_tail is Ray's own log"
            raise EngineStartFailed(detail, self.settings.name, self._place.ray_log() or None)

    def _require_ray_and_note_memory(self) -> None:
        self._require_ray()
        self._note_memory()  # an engine core that fails is killed by its front end and frees none of it

    def _note_memory(self) -> None:
        self._shared |= processes.find_held_files(self._find_processes())

    def _require_life(self, watch: Watch) -> None:
        self._require_ray()
        watch.check_pulse(self._pulse(watch), stalls=False)

    def _explain(self, error: Exception) -> ExperimentFailure:
        """The failure with the arm's name and with what its engine said, where it is about the engine."""
        failure = self._find_failure(error)
        arm, detail = failure.arm or self.settings.name, failure.detail
        match failure:
            case EngineDied() | EngineStalled() if failure.log_tail is None:
                log = self._read_log()
                detail = find_root_cause(detail, log) if isinstance(failure, EngineDied) else detail
                return type(failure)(detail, arm, tail(log) or None)
            case TimedOut():
                detail = f"{detail}, while the engine of {arm} was waited for"
                return TimedOut(detail, log_tail=tail(self._read_log()) or None)
            case RayLost():
                return failure
            case _:
                return type(failure)(detail, arm, failure.log_tail)

    def _find_failure(self, error: Exception) -> ExperimentFailure:
        if isinstance(error, RayTaskError):  # first: Ray lets it also be an instance of its cause's class
            return error.cause if isinstance(error.cause, ExperimentFailure) else EngineDied(str(error.cause))
        if isinstance(error, ExperimentFailure):
            return error
        self._require_ray()
        return EngineDied(f"the arm's process died: {str(error).splitlines()[0]}")

    def _read_log(self) -> str:
        found = logs.read(self._log, self._log_begin)  # also of an actor that is dead
        if found is not None:
            return found
        try:
            return str(ray.get(self._actor.log.remote(), timeout=_LOG_TIMEOUT_S))
        except (RayError, GetTimeoutError):
            return ""

    def _pulse(self, watch: Watch) -> Pulse:
        call = self._actor.pulse.remote()
        deadline = time.monotonic() + _PULSE_TIMEOUT_S
        while not ray.wait([call], timeout=_POLL_S)[0]:
            watch.check()
            if time.monotonic() > deadline:
                return Pulse(tokens=-1)
        pulse: Pulse = ray.get(call)
        return pulse
