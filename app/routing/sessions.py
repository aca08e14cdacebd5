"""Where sessions went, so that their next turn finds its prefix in the cache."""

from cachetools import LRUCache

Sessions = LRUCache[str, int]  # session -> replica

_MOST_SESSIONS = 10_000  # verl's DEFAULT_ROUTING_CACHE_SIZE


def make_sessions() -> Sessions:
    """No session yet; the one that was longest not asked for is forgotten first."""
    return LRUCache(maxsize=_MOST_SESSIONS)
