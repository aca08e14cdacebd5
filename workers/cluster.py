"""Ray: connect, reserve resources, clean up."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from app.errors import NoResources

_NAMESPACE = "rollout-lab"
_OBJECT_STORE_BYTES = 256 * 2**20  # batches and records are small; Ray would take 30 % of the memory
_RESERVE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an experiment runs: actors scheduled with ``strategy`` share one node and ``gpus`` (CUDA ids there)."""

    strategy: PlacementGroupSchedulingStrategy
    gpus: tuple[str, ...]


class Cluster:
    """A connection to Ray: an existing cluster, or one of our own that ends with this process."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def connect(self) -> None:
        """Connect, again if the connection is gone."""
        if ray.is_initialized():
            if self._answers():
                return
            ray.shutdown()
        own = {} if self._address else {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray runs its workers at the lowest priority but four: anything else on the host would slow the engines first.
        os.environ.setdefault("RAY_worker_niceness", "0")
        with _signal_handlers_kept():
            ray.init(
                address=self._address or "local",
                namespace=_NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                **own,
            )

    def disconnect(self) -> None:
        """Leave the cluster; end it if it is our own."""
        ray.shutdown()

    def nodes(self) -> tuple[dict[str, Any], ...]:
        """Live nodes with their resources."""
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
    def reserve(self, gpus: int) -> Iterator[Place]:
        """Reserve one CPU and ``gpus`` GPUs of one node; raise NoResources where no node has them.

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
            if not group.wait(_RESERVE_TIMEOUT_S):
                raise NoResources(f"no node had {bundle} free within {_RESERVE_TIMEOUT_S:g} s")
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
            yield Place(strategy, _gpu_ids(strategy, gpus))
        finally:
            _remove(group)

    @staticmethod
    def _answers() -> bool:
        try:
            return any(node["Alive"] for node in ray.nodes())
        except (RayError, ConnectionError, RuntimeError):
            return False


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself and would end the worker on the spot; whoever handled it before goes on to."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _gpu_ids(strategy: PlacementGroupSchedulingStrategy, gpus: int) -> tuple[str, ...]:
    if not gpus:
        return ()
    ask = ray.remote(_visible_gpus).options(num_cpus=0, num_gpus=gpus, scheduling_strategy=strategy)
    return tuple(ray.get(ask.remote()))


def _visible_gpus() -> list[str]:
    return [str(gpu) for gpu in ray.get_gpu_ids()]


def _remove(group: PlacementGroup) -> None:
    try:
        remove_placement_group(group)
    except (RayError, ConnectionError, RuntimeError) as error:
        # Ray itself is gone, and the reservation with it.
        logging.getLogger(__name__).warning("placement group not removed: %s", error)
