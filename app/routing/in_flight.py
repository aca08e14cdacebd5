"""One balancer for all agent workers, which knows what is in flight."""

import random
from collections.abc import Sequence
from enum import StrEnum

from app.routing.gates import Gate
from app.routing.policy import Ask
from app.routing.sessions import Sessions, make_sessions


class Ties(StrEnum):
    """Who is asked of several replicas that have equally little in flight."""

    FIRST = "first"  # the first: verl 0.7.1 to 0.9.0, where PR #5399 means round robin and takes the first
    RANDOM = "random"  # any: verl 0.9.1


class InFlight:
    """Calls that each replica is at."""

    def __init__(self, replicas: int, ties: Ties = Ties.FIRST, seed: int = 0) -> None:
        self._counts = [0] * replicas
        self._chance = random.Random(seed) if ties is Ties.RANDOM else None  # noqa: S311 - not a secret

    @property
    def counts(self) -> Sequence[int]:
        """Calls in flight, by replica."""
        return self._counts

    def find_least(self) -> int:
        """The replica with the fewest."""
        least = min(self._counts)
        if self._chance is None:
            return self._counts.index(least)
        return self._chance.choice([replica for replica, count in enumerate(self._counts) if count == least])

    def add(self, replica: int) -> None:
        """A call begins."""
        self._counts[replica] += 1

    def remove(self, replica: int) -> None:
        """A call ends; raises ValueError if none was in flight there."""
        if self._counts[replica] < 1:
            raise ValueError(f"replica {replica} was released, but has no call in flight")
        self._counts[replica] -= 1


class LeastInFlight:
    """What verl's ``GlobalRequestLoadBalancer`` does with every new session, since 0.7.1 (PR #5399); here with every
    call. A workload of one turn has new sessions only.
    """

    def __init__(self, replicas: int, ties: Ties = Ties.FIRST, seed: int = 0) -> None:
        self._in_flight = InFlight(replicas, ties, seed)

    def pick(self, ask: Ask) -> int:
        """The replica with the least in flight."""
        del ask
        replica = self._in_flight.find_least()
        self._in_flight.add(replica)
        return replica

    def release(self, ask: Ask, replica: int) -> None:
        """One call less in flight."""
        del ask
        self._in_flight.remove(replica)


class Sticky:
    """The whole of verl's ``GlobalRequestLoadBalancer`` since 0.7.1: a known session goes where it went before, a new
    one to the least in flight. With a gate, a session may leave, and is then known where it went.
    """

    def __init__(self, replicas: int, ties: Ties = Ties.FIRST, seed: int = 0, gate: Gate | None = None) -> None:
        self._in_flight = InFlight(replicas, ties, seed)
        self._gate = gate
        self._sessions: Sessions = make_sessions()

    def pick(self, ask: Ask) -> int:
        """The session's replica, unless the gate is open; else the one with the least in flight."""
        replica = self._sessions.get(ask.session)
        if replica is None or not (self._gate is None or self._gate.holds(self._in_flight.counts, replica)):
            replica = self._in_flight.find_least()
        self._sessions[ask.session] = replica
        self._in_flight.add(replica)
        return replica

    def release(self, ask: Ask, replica: int) -> None:
        """One call less in flight; the session is still known."""
        del ask
        self._in_flight.remove(replica)
