"""Sessions by their hash, so that few move when there is a replica more or less."""

import hashlib
from bisect import bisect_left

from app.routing.policy import Ask

_POINTS_PER_REPLICA = 160


class HashRing:
    """``consistent_hash`` of the vLLM router (vllm-project/router, `src/policies/consistent_hash.rs`): 160 points per
    replica on a ring, and a session belongs to the next point after its own hash. Load is not looked at.

    It hashes with BLAKE2 where that router has its own function: other sessions meet, equally many.
    """

    def __init__(self, replicas: int) -> None:
        ring = sorted(
            (_hash(f"{replica}:{point}"), replica)
            for replica in range(replicas)
            for point in range(_POINTS_PER_REPLICA)
        )
        self._hashes = [at for at, _ in ring]
        self._replicas = [replica for _, replica in ring]

    def pick(self, ask: Ask) -> int:
        """The replica of the first point at or after the session's hash, around the ring."""
        return self._replicas[bisect_left(self._hashes, _hash(ask.session)) % len(self._hashes)]

    def release(self, ask: Ask, replica: int) -> None:
        """Nothing to learn."""


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
