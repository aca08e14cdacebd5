"""Who asks for a change."""

from dataclasses import dataclass

ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks for a change: a token's name, and the address it came from."""

    name: str
    source: str | None = None


NOBODY = Actor(ANONYMOUS)
