"""What every router has in common."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ask:
    """One call that needs a replica.

    ``session`` is what its sample's turns have in common (verl's ``request_id``), or its prompt's samples, if they are
    to stay together; ``place`` its place among the ``calls`` of its batch; ``agent_worker`` who makes it.
    """

    session: str
    agent_worker: int = 0
    place: int = 0
    calls: int = 1
    prompt_token_ids: tuple[int, ...] = ()


class Policy(Protocol):
    """Chooses replicas, numbered from 0, and remembers what it has to. Equal calls in equal order: equal choices."""

    def pick(self, ask: Ask) -> int:
        """The replica for a call that is about to begin."""
        ...

    def release(self, ask: Ask, replica: int) -> None:
        """Learn that a call has ended, however it did, on the replica that was picked for it."""
        ...


def find_part(place: int, size: int, parts: int) -> int:
    """In which of so many contiguous parts of one length a place lies; the first are one longer if it does not divide.

    How verl gives a batch's samples to its agent workers (``DataProto.chunk``), and sync verl to its replicas. verl
    refuses a batch that does not divide.
    """
    short, longer = divmod(size, parts)
    in_longer = longer * (short + 1)
    return place // (short + 1) if place < in_longer else longer + (place - in_longer) // short
