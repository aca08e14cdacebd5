"""The Ray actor that owns one engine, and the worker's handle on it."""

import dataclasses
import os
import socket
import sys
import tempfile
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

from app.errors import Cancelled, Draining, EngineDied, EngineStartFailed, ExperimentFailure
from app.measure.records import Conditions, StartedArm
from app.spec.experiment import DriverSettings
from app.spec.resolution import ResolvedArm
from workers import processes
from workers.cluster import Place
from workers.conditions import ConditionsMeter
from workers.drivers import make_driver
from workers.drivers.base import Batch, Driver, TrialOutcome
from workers.engine_config import engine_environment
from workers.hardware import hardware_identity
from workers.nvml import open_gpus
from workers.root_cause import root_cause, tail
from workers.watch import Pulse, Watch

T = TypeVar("T")

_POLL_S = 1.0  # how often a running call is asked for a sign of life
_PULSE_TIMEOUT_S = 20.0
_KILL_GRACE_S = 3.0  # Ray was seen to take half a second to end a killed actor's whole process group
_LOG_BYTES = 1 << 20


class ArmActor:
    """Runs in a process of its own on the host with the GPUs. All driver calls come from one thread."""

    def __init__(self, settings: ResolvedArm, sleep_mode: bool, seed: int, gpus: tuple[str, ...]) -> None:
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        self._log = Path(tempfile.mkstemp(prefix="rollout-lab-arm-", suffix=".log")[1])
        _redirect_output(self._log)
        self._settings, self._sleep_mode, self._seed = settings, sleep_mode, seed
        self._gpus = open_gpus(gpus)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._vital: tuple[int, ...] = ()

    @cached_property
    def _driver(self) -> Driver:
        return make_driver(self._settings, self._sleep_mode, self._seed)

    def load(self) -> None:
        """Import the driver and its vLLM, which takes seconds; ``start`` tells what is wrong where that fails."""
        self._call(lambda: self._driver)

    def start(self) -> StartedArm:
        """Start the engine; EngineStartFailed carries its own root cause."""
        try:
            resolved = self._call(self._start)
        except ExperimentFailure:
            raise
        except Exception as error:  # noqa: BLE001 - vLLM raises whatever went wrong
            log = self.log()
            raise EngineStartFailed(root_cause(str(error), log), self._settings.name, tail(log)) from None
        pids = processes.family(os.getpid())
        self._vital = tuple(pid for pid in pids if processes.title(pid).startswith(processes.ENGINE_TITLE))
        hardware = hardware_identity(self._gpus)
        return dataclasses.replace(
            resolved,
            hardware=hardware,
            config=resolved.config | {f"hardware.{key}": value for key, value in hardware.items()},
            host=socket.gethostname(),
            pids=pids,
        )

    def _start(self) -> StartedArm:
        self._meter = ConditionsMeter(self._gpus)
        return self._driver.start()

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text."""
        return self._call(lambda: self._driver.encode(texts))

    def rollout(self, batch: Batch, settings: DriverSettings, reset_prefix_cache: bool) -> TrialOutcome:
        """One trial, from a clean prefix cache if asked for."""

        def run() -> TrialOutcome:
            if reset_prefix_cache and not self._driver.reset_prefix_cache():
                raise EngineDied("the engine refused to reset its prefix cache: requests are still running")
            if self._settings.simulated:
                return TrialOutcome(self._driver.rollout(batch, settings, nullcontext()), Conditions())
            return self._measured(batch, settings)

        return self._call(run)

    def _measured(self, batch: Batch, settings: DriverSettings) -> TrialOutcome:
        rollout = self._driver.rollout(batch, settings, self._meter)
        harness = dataclasses.replace(rollout.harness, cpu_s=rollout.harness.cpu_s + self._meter.cpu_s)
        return TrialOutcome(dataclasses.replace(rollout, harness=harness), self._meter.conditions)

    def sleep(self) -> None:
        """Free the GPU's memory."""
        self._call(self._driver.sleep)

    def wake(self) -> None:
        """Undo ``sleep``."""
        self._call(self._driver.wake)

    def pulse(self) -> Pulse:
        """A sign of life, while another call runs."""
        gone = [pid for pid in self._vital if not processes.alive(pid)]
        dead = f"the engine's process {gone[0]} is gone" if gone else None
        return Pulse(self._driver.progress(), dead)

    def abort(self) -> None:
        """Ask a running rollout to stop."""
        self._driver.abort()

    def log(self) -> str:
        """The end of what the engine printed."""
        sys.stdout.flush()
        sys.stderr.flush()
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - _LOG_BYTES))
            return file.read().decode(errors="replace")

    def _call(self, function: Callable[[], T]) -> T:
        return self._thread.submit(function).result()


class Engine:
    """The worker's handle on an ArmActor: blocking calls that a Watch can end.

    The actor loads vLLM from the moment the handle exists, so that engines made together load together.
    """

    def __init__(self, settings: ResolvedArm, place: Place, sleep_mode: bool, seed: int) -> None:
        self.settings = settings
        environment = settings.environment
        self._name = uuid.uuid4().hex
        self._require_ray = place.require_ray
        marks = {processes.WORKER_MARK: processes.worker_mark(), processes.ENGINE_MARK: self._name}
        variables = engine_environment(settings, bool(place.gpus)) | marks | processes.KEEP_ENVIRONMENT
        runtime: dict[str, object] = {"env_vars": variables}
        if environment.python is not None:
            runtime["py_executable"] = environment.python
        self._actor: ActorHandle = (
            ray.remote(ArmActor)
            .options(
                num_cpus=0,
                num_gpus=0,
                max_concurrency=4,
                max_restarts=0,
                scheduling_strategy=place.strategy,
                runtime_env=runtime,
            )
            .remote(settings, sleep_mode, seed, place.gpus)
        )
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
        resolved: StartedArm = self._wait(self._starting, watch, pulses=False)
        self._shared = processes.shared_memory(self._processes())
        return resolved

    def encode(self, texts: tuple[str, ...], watch: Watch) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text, by the engine's tokenizer."""
        return tuple(self._wait(self._actor.encode.remote(texts), watch, pulses=False))

    def rollout(
        self, batch: Batch, settings: DriverSettings, reset: bool, watch: Watch, grace_s: float
    ) -> TrialOutcome:
        """One trial. When the watch says stop, the engine gets ``grace_s`` to stop by itself."""
        watch.begin_trial()
        call = self._actor.rollout.remote(batch, settings, reset)
        try:
            outcome: TrialOutcome = self._wait(call, watch, pulses=True)
        except (Cancelled, Draining):
            self._actor.abort.remote()
            ray.wait([call], timeout=grace_s)
            raise
        return outcome

    def sleep(self, watch: Watch) -> None:
        """Free the GPU's memory."""
        self._wait(self._actor.sleep.remote(), watch, pulses=False)

    def wake(self, watch: Watch) -> None:
        """Undo ``sleep``."""
        self._wait(self._actor.wake.remote(), watch, pulses=False)

    def kill(self) -> None:
        """End the actor and every process of its engine, whatever they are doing."""
        with suppress(RayError, ConnectionError, RuntimeError, ValueError):  # Ray may be gone, and the actor with it
            ray.kill(self._actor)
        processes.end(self._processes(), _KILL_GRACE_S)
        processes.free(self._shared)

    def _processes(self) -> tuple[psutil.Process, ...]:
        return processes.marked(processes.ENGINE_MARK, self._name.__eq__)

    def _wait(self, call: "ray.ObjectRef[Any]", watch: Watch, pulses: bool) -> Any:
        try:
            while not ray.wait([call], timeout=_POLL_S)[0]:
                watch.check()
                if pulses:
                    watch.check_pulse(self._pulse())
                else:
                    self._require_ray()  # without it a call to an actor that is not there yet waits for ever
            return ray.get(call)
        except RayTaskError as error:
            raise _own_error(error, self.settings.name) from None
        except RayActorError as error:
            self._require_ray()
            raise EngineDied(f"the arm's process died: {str(error).splitlines()[0]}", self.settings.name) from None

    def _pulse(self) -> Pulse:
        try:
            pulse: Pulse = ray.get(self._actor.pulse.remote(), timeout=_PULSE_TIMEOUT_S)
        except GetTimeoutError:
            return Pulse(tokens=-1)
        return pulse


def _own_error(error: RayTaskError, arm: str) -> ExperimentFailure:
    cause = error.cause
    if isinstance(cause, ExperimentFailure):
        return type(cause)(cause.detail, cause.arm or arm, cause.log_tail)
    return EngineDied(f"{type(cause).__name__}: {cause}", arm)


def _redirect_output(log: Path) -> None:
    """Send what this process and its children print to a file, where the root cause can be found."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
