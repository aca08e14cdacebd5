"""Ray: connect, reserve resources, clean up."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import psutil
import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from app.errors import NoResources, RayLost, RolloutLabError
from workers.ray_sessions import OwnSession, remove_abandoned

T = TypeVar("T")

_NAMESPACE = "rollout-lab"
_OBJECT_STORE_BYTES = 256 * 2**20  # batches and records are small; Ray would take 30 % of the memory
_RESERVE_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 1.0
_CANCEL_S = 5.0
_LOG_BYTES = 1 << 16
# Ray ends a process that has lost its head node. Our own never comes back, so there is no point in waiting a minute.
_HEAD_TIMEOUT_S = 5
_DAEMONS = {"gcs_server": "head", "raylet": "raylet"}  # by the name of the process


@dataclass(frozen=True, slots=True)
class Place:
    """Where an experiment runs: actors scheduled with ``strategy`` share one node and ``gpus`` (CUDA ids there)."""

    strategy: PlacementGroupSchedulingStrategy
    gpus: tuple[str, ...]
    require_ray: Callable[[], None]  # raises RayLost
    check: Callable[[], None]  # raises what ends the experiment early
    ray_log: Callable[[], str]  # the end of what Ray has logged on this host about processes it starts

    def ask(self, function: Callable[..., T], *arguments: object, within_s: float) -> T:
        """What a function of this project answers on the node, run in the worker's own Python."""
        task = ray.remote(function).options(num_cpus=0, scheduling_strategy=self.strategy, max_retries=0)
        return cast(T, _await_answer(task.remote(*arguments), within_s, self.require_ray, self.check))


class Cluster:
    """A connection to Ray: an existing cluster, or one of our own that ends with this process."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._daemons: dict[str, psutil.Process] = {}  # of a Ray of our own, by what they are
        self._session: OwnSession | None = None  # of a Ray of our own
        self._changing = threading.Lock()

    def connect(self) -> None:
        """Connect, again if the connection is gone."""
        with self._changing:
            if self._find_trouble() is not None:
                self._reconnect()

    def _leave(self) -> None:
        ray.shutdown()
        if self._session is not None:
            self._session.remove()
            self._session = None

    def _reconnect(self) -> None:
        self._leave()
        own = {} if self._address else {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray runs its workers at the lowest priority but four: anything else on the host would slow the engines first.
        os.environ.setdefault("RAY_worker_niceness", "0")
        if not self._address:
            # Else Ray starts an idle process per CPU, none of which an actor with an environment of its own can use.
            os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
            os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(_HEAD_TIMEOUT_S))
        with _keep_signal_handlers():
            context = ray.init(
                address=self._address or "local",
                namespace=_NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                **own,
            )
        session = Path(context.address_info["session_dir"])
        self._logs = session / "logs"
        if not self._address:
            self._session = OwnSession(session)
            remove_abandoned(session.parent)
            below = psutil.Process().children(recursive=True)
            self._daemons = {_DAEMONS[name]: process for process in below if (name := _read_name(process)) in _DAEMONS}

    def disconnect(self) -> None:
        """Leave the cluster; end it if it is our own."""
        with self._changing:
            self._leave()

    def report(self) -> dict[str, Any]:
        """Live nodes, and what is wrong with Ray, if anything is; from any thread, and soon whatever became of Ray."""
        if not self._changing.acquire(blocking=False):
            return {"nodes": (), "trouble": "the worker is connecting to Ray"}
        try:
            trouble = self._find_trouble()
            return {"nodes": self._list_nodes() if trouble is None else (), "trouble": trouble}
        finally:
            self._changing.release()

    def _find_trouble(self) -> str | None:
        """Why Ray cannot be used. A node that died goes on to be listed for a while, and a head that died ends us."""
        if not ray.is_initialized():
            return "the worker is not connected to Ray"
        for kind, daemon in self._daemons.items():
            if not _is_running(daemon):
                return f"Ray's {kind} (pid {daemon.pid}) is gone"
        head = ray.get_runtime_context().gcs_address
        if not _is_listening(head):
            return f"Ray's head at {head} does not answer"
        try:
            return None if self._list_nodes() else "Ray has no node that is alive"
        except (RayError, ConnectionError, RuntimeError) as error:
            return f"Ray does not answer: {error}"

    @staticmethod
    def _list_nodes() -> tuple[dict[str, Any], ...]:
        return tuple(
            {
                "host": node["NodeManagerHostname"],
                "cpus": node["Resources"].get("CPU", 0.0),
                "gpus": node["Resources"].get("GPU", 0.0),
            }
            for node in ray.nodes()
            if node["Alive"]
        )

    @property
    def has_gpus(self) -> bool:
        """Whether any node has a GPU."""
        return bool(ray.cluster_resources().get("GPU", 0) > 0)

    @contextmanager
    def reserve(self, gpus: int, check: Callable[[], None]) -> Iterator[Place]:
        """Reserve one CPU and ``gpus`` GPUs of one node; raise NoResources where no node has them.

        ``check`` ends the waiting by raising.

        Engines of an experiment take turns on the same GPUs, which Ray's fractions allow for one GPU only. So the
        GPUs are reserved here once, and the actors, which ask Ray for none, are told which they are. Leaving ends
        every actor within.
        """
        largest = max((node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if gpus > largest:
            raise NoResources(f"an engine needs {gpus} GPUs of one node; the largest node has {largest:g}")
        bundle = {"CPU": 1.0, **({"GPU": float(gpus)} if gpus else {})}
        group = placement_group([bundle], strategy="STRICT_PACK")
        try:
            self._await_group(group, bundle, check)
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
            ids: tuple[str, ...] = ()
            if gpus:
                task = ray.remote(_list_gpus).options(num_cpus=0, num_gpus=gpus, scheduling_strategy=strategy)
                ids = tuple(_await_answer(task.remote(), _RESERVE_TIMEOUT_S, self._require, check))
            yield Place(strategy, ids, self._require, check, self._read_log)
        finally:
            try:
                remove_placement_group(group)
            except (RayError, ConnectionError, RuntimeError) as error:
                # Ray itself is gone, and the reservation with it.
                logging.getLogger(__name__).warning("placement group not removed: %s", error)

    def _await_group(self, group: PlacementGroup, bundle: dict[str, float], check: Callable[[], None]) -> None:
        deadline = time.monotonic() + _RESERVE_TIMEOUT_S
        while not group.wait(_LOOK_EVERY_S):
            check()
            self._require()
            if time.monotonic() > deadline:
                raise NoResources(f"no node had {bundle} free within {_RESERVE_TIMEOUT_S:g} s")

    def _read_log(self) -> str:
        """What Ray's node on this host has logged of processes it starts, and what these printed before they spoke."""
        said = [line for line in _read_last_lines(self._logs / "raylet.out") if "worker_pool.cc" in line]
        return "\n".join(said[-10:] + _read_last_lines(self._logs / "raylet.err")[-10:])

    def _require(self) -> None:
        trouble = self._find_trouble()
        if trouble is not None:
            raise RayLost(trouble)


def _read_name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_HEAD_TIMEOUT_S):
            return True
    except OSError:
        return False


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Ray takes SIGTERM for itself and would end the worker on the spot; whoever handled it before goes on to."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _await_answer(
    call: "ray.ObjectRef[Any]", within_s: float, require_ray: Callable[[], None], check: Callable[[], None]
) -> Any:
    """A task's answer; raises NoResources where there is none in time, such as on a node that starts no process."""
    deadline = time.monotonic() + within_s
    try:
        while not ray.wait([call], timeout=_LOOK_EVERY_S)[0]:
            check()
            require_ray()
            if time.monotonic() > deadline:
                raise NoResources(f"the reserved node has not run a task of Ray within {within_s:g} s")
    except RayLost:  # and with it the task
        raise
    except RolloutLabError:
        ray.cancel(call)  # interrupts it, so that it can end what it started
        ray.wait([call], timeout=_CANCEL_S)
        raise
    return ray.get(call)


def _read_last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:  # a node elsewhere
        return []


def _list_gpus() -> list[str]:
    return [str(gpu) for gpu in ray.get_gpu_ids()]
