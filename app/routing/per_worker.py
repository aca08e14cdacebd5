"""Every agent worker balances for itself, by what it has sent so far."""

import random
from collections.abc import Callable, Sequence

from app.routing.policy import Ask
from app.routing.sessions import Sessions, make_sessions

Order = Callable[[int], Sequence[int]]  # an agent worker's own order of all replicas


def order_by_hash(replicas: int, seed: int) -> Order:
    """verl 0.6.1: ties are broken by ``hash(server)``, the hash of the actor's id: one order in all processes.

    The ids are arbitrary, so that the order is drawn; the shuffle before it makes no difference to a heap.
    """
    order = list(range(replicas))
    random.Random(seed).shuffle(order)  # noqa: S311 - not a secret
    return lambda _: order


def order_by_chance(replicas: int, seed: int) -> Order:
    """verl 0.7.0 (PR #4505): each agent worker shuffles the replicas for itself, and ties go by place in its order."""

    def shuffle(agent_worker: int) -> Sequence[int]:
        order = list(range(replicas))
        random.Random(f"{seed} {agent_worker}").shuffle(order)  # noqa: S311 - not a secret
        return order

    return shuffle


class _Worker:
    """What one agent worker knows."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = order
        self.sent = dict.fromkeys(order, 0)
        self.sessions: Sessions = make_sessions()


class PerWorker:
    """verl's ``AsyncLLMServerManager`` of 0.6.1 and 0.7.0 (`verl/experimental/agent_loop/agent_loop.py`).

    Each agent worker has a heap of what it sent to each replica, which grows with every new session and never shrinks:
    round robin, blind to other workers and to what is in flight. A known session goes where it went before.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._workers: dict[int, _Worker] = {}

    def pick(self, ask: Ask) -> int:
        """The session's replica, or the one this agent worker has sent least to."""
        if ask.agent_worker not in self._workers:
            self._workers[ask.agent_worker] = _Worker(self._order(ask.agent_worker))
        worker = self._workers[ask.agent_worker]
        known = worker.sessions.get(ask.session)
        if known is not None:
            return known
        replica = min(worker.order, key=worker.sent.__getitem__)
        worker.sent[replica] += 1
        worker.sessions[ask.session] = replica
        return replica

    def release(self, ask: Ask, replica: int) -> None:
        """Nothing to learn: counts never go down."""
