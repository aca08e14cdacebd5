"""Which of an arm's replicas gets a call: each way of choosing, pure and with the source it follows."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from app.routing.even import Even
from app.routing.gates import Gate
from app.routing.hash_ring import HashRing
from app.routing.in_flight import LeastInFlight, Sticky, Ties
from app.routing.per_worker import PerWorker, order_by_chance, order_by_hash
from app.routing.policy import Policy
from app.routing.prefixes import PrefixAware


class Router(StrEnum):
    """How an arm's calls are spread over its replicas."""

    EVEN = "even"
    PER_WORKER_HASH = "per_worker_hash"
    PER_WORKER_RANDOM = "per_worker_random"
    LEAST_IN_FLIGHT = "least_in_flight"
    STICKY = "sticky"
    CONSISTENT_HASH = "consistent_hash"
    PREFIX_AWARE = "prefix_aware"


_GATED = {Router.STICKY, Router.PREFIX_AWARE}
_WITH_TIES = {Router.LEAST_IN_FLIGHT, Router.STICKY}


@dataclass(frozen=True, slots=True)
class Routing:
    """A router and its settings; raises ValueError for a setting that the router has not.

    ``gate`` says when a call may leave the replica that it would stick to (None: never); ``ties`` who is asked of
    several that have equally little in flight; ``seed`` fixes what verl leaves to chance.
    """

    router: Router
    gate: Gate | None = None
    ties: Ties = Ties.FIRST
    seed: int = 0

    def __post_init__(self) -> None:
        if self.gate is not None and self.router not in _GATED:
            raise ValueError(f"the router {self.router} sticks to no replica, so that it takes no gate")
        if self.ties is not Ties.FIRST and self.router not in _WITH_TIES:
            raise ValueError(
                f"the router {self.router} does not look for the least in flight, so that it takes no ties"
            )


def make_policy(routing: Routing, replicas: int) -> Policy:
    """A policy that has seen no call yet; raises ValueError if there is no replica."""
    if replicas < 1:
        raise ValueError(f"a router needs at least one replica, not {replicas}")
    match routing.router:
        case Router.EVEN:
            return Even(replicas)
        case Router.PER_WORKER_HASH:
            return PerWorker(order_by_hash(replicas, routing.seed))
        case Router.PER_WORKER_RANDOM:
            return PerWorker(order_by_chance(replicas, routing.seed))
        case Router.LEAST_IN_FLIGHT:
            return LeastInFlight(replicas, routing.ties, routing.seed)
        case Router.STICKY:
            return Sticky(replicas, routing.ties, routing.seed, routing.gate)
        case Router.CONSISTENT_HASH:
            return HashRing(replicas)
        case Router.PREFIX_AWARE:
            return PrefixAware(replicas, routing.gate)
        case _:
            assert_never(routing.router)
