"""When a call may leave the replica that it would stick to, because too much is in flight there."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolGate:
    """Leave while the pool is imbalanced: verl's PR #6533 (open), which has it from SGLang's cache-aware router.

    Imbalanced is a pool whose most loaded replica has over ``most_apart`` calls more in flight than its least loaded,
    and over ``most_times`` as many.
    """

    most_apart: int = 64
    most_times: float = 1.5

    def holds(self, in_flight: Sequence[int], replica: int) -> bool:
        """Whether the call may stay."""
        least, most = min(in_flight), max(in_flight)
        imbalanced = most - least > self.most_apart and most > self.most_times * least
        return in_flight[replica] == least or not imbalanced


@dataclass(frozen=True, slots=True)
class SessionGate:
    """Leave a replica with over ``margin`` calls more in flight than the least loaded: verl's PR #7435 (open)."""

    margin: int = 2

    def holds(self, in_flight: Sequence[int], replica: int) -> bool:
        """Whether the call may stay."""
        return in_flight[replica] <= min(in_flight) + self.margin


Gate = PoolGate | SessionGate
