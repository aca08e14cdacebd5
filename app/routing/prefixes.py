"""Prompts to where the longest beginning of theirs was sent before."""

from itertools import takewhile

from cachetools import LRUCache

from app.routing.gates import Gate
from app.routing.in_flight import InFlight
from app.routing.policy import Ask

_BLOCK_TOKENS = 16  # vLLM's block_size: what its prefix cache keeps is whole blocks
_LEAST_SHARE = 0.5  # of a prompt's blocks: cache_threshold
_MOST_BLOCKS = 100_000  # that are remembered of each replica


class PrefixAware:
    """``cache_aware`` of the vLLM router (vllm-project/router, `src/policies/cache_aware.rs`, from SGLang's), over
    blocks of tokens instead of a tree of characters.

    A table says which blocks, each with all that came before it, went to which replica. A prompt goes where most of
    its leading blocks are, if they are over half of it; else to whom has the fewest blocks, as in that router, and
    among those to the least in flight. With a gate, a prompt may leave, and its blocks are then in both tables.
    """

    def __init__(self, replicas: int, gate: Gate | None = None) -> None:
        self._in_flight = InFlight(replicas)
        self._gate = gate
        self._tables: list[LRUCache[int, None]] = [LRUCache(maxsize=_MOST_BLOCKS) for _ in range(replicas)]

    def pick(self, ask: Ask) -> int:
        """The replica that knows the prompt, unless the gate is open."""
        blocks = hash_blocks(ask.prompt_token_ids)
        replica = self._find_known(blocks)
        if replica is None:
            counts = self._in_flight.counts
            replica = min(range(len(counts)), key=lambda each: (len(self._tables[each]), counts[each]))
        elif self._gate is not None and not self._gate.holds(self._in_flight.counts, replica):
            replica = self._in_flight.find_least()
        self._tables[replica].update(dict.fromkeys(blocks))
        self._in_flight.add(replica)
        return replica

    def _find_known(self, blocks: list[int]) -> int | None:
        matches = [sum(1 for _ in takewhile(table.__contains__, blocks)) for table in self._tables]
        longest = max(matches)
        return matches.index(longest) if longest > _LEAST_SHARE * len(blocks) else None

    def release(self, ask: Ask, replica: int) -> None:
        """One call less in flight; its blocks stay where they are."""
        del ask
        self._in_flight.remove(replica)


def hash_blocks(token_ids: tuple[int, ...]) -> list[int]:
    """A hash of each whole block of tokens and all that came before it, as vLLM's prefix cache knows them."""
    hashes: list[int] = []
    before = 0
    for end in range(_BLOCK_TOKENS, len(token_ids) + 1, _BLOCK_TOKENS):
        before = hash((before, token_ids[end - _BLOCK_TOKENS : end]))
        hashes.append(before)
    return hashes
