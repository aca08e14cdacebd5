"""Who asks, and what they may do."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyio.to_thread import run_sync

from app.errors import Conflict, Forbidden, Unauthorized
from app.settings import Anonymous, Settings
from app.store import tokens
from app.store.actors import ANONYMOUS, Actor
from app.store.database import Database
from app.store.tokens import Scope, Token, TokenState, hash_secret

REMEMBERED_S = 1.0  # how long a token that was revoked may go on, and the first one's making may go unnoticed
_MOST_REMEMBERED = 4096
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``scope`` None: they may do nothing that needs any; ``session``: the digest of a browser's cookie."""

    name: str
    scope: Scope | None
    source: str
    session: str | None = None
    trouble: str = "this service needs a token: send it as `Authorization: Bearer …`, or log in at /login"

    @property
    def client(self) -> str:
        """Whose share of the service they use."""
        return f"address {self.source}" if self.scope is None or self.name == ANONYMOUS else f"token {self.name}"

    @property
    def actor(self) -> Actor:
        """As histories name them."""
        return Actor(self.name, self.source)

    def own(self, idempotency_key: str | None) -> str | None:
        """Their key, apart from the same key of others: who uses it by chance is not to get another's experiment."""
        if idempotency_key is None or (self.name == ANONYMOUS and "/" not in idempotency_key):
            return idempotency_key
        return f"{self.name}/{idempotency_key}"

    def may(self, needed: Scope) -> bool:
        """Whether their scope reaches this far."""
        return self.scope is not None and self.scope.covers(needed)

    def require(self, needed: Scope) -> None:
        """Unauthorized for who has no token, Forbidden for one whose scope does not reach this far."""
        if self.scope is None:
            raise Unauthorized(self.trouble)
        if not self.may(needed):
            raise Forbidden(f"{self.name} may {self.scope}; this takes a token with the scope {needed}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request brings: a token in its header, a session in its cookie, the address it comes from.

    ``relayed``: it came through a reverse proxy, so that address may be the proxy's, and anybody its client.
    """

    token: str | None
    session: str | None
    source: str
    relayed: bool = False


class Gate:
    """Tells who asks, from the database or what it said within the last second."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._tokens: _Recent[Token | None] = _Recent()
        self._sessions: _Recent[Token | None] = _Recent()
        self._made: _Recent[bool] = _Recent()

    async def identify(self, given: Credentials) -> Caller:
        """The caller; one with a token or a session that opens nothing has no scope, and is told why."""
        if given.token is not None:
            digest = hash_secret(given.token)
            return _make_caller(
                await self._tokens.get(digest, lambda: tokens.find(self._database, digest)), given.source
            )
        if given.session is not None:
            digest = hash_secret(given.session)
            token = await self._sessions.get(digest, lambda: tokens.find_session(self._database, digest))
            if token is not None:
                caller = _make_caller(token, given.source)
                return Caller(caller.name, caller.scope, caller.source, digest, caller.trouble)
        return Caller(ANONYMOUS, await self._anonymous(given.relayed), given.source)

    def forget(self) -> None:
        """Ask the database again: something has just changed."""
        for recent in (self._tokens, self._sessions, self._made):
            recent.clear()

    async def _anonymous(self, relayed: bool) -> Scope | None:
        match self._settings.anonymous:
            case Anonymous.AUTO:
                open_here = self._settings.is_local and not relayed
                closed = not open_here or await self._made.get("", lambda: tokens.any_made(self._database))
                return None if closed else Scope.ADMIN
            case Anonymous.NONE:
                return None
            case named:
                return Scope(named.value)


def require_tokens(db: Database, settings: Settings) -> None:
    """Conflict where others could reach the service and nobody has said what they may do."""
    if settings.is_local or settings.anonymous is not Anonymous.AUTO or tokens.any_made(db):
        return
    raise Conflict(
        f"{settings.host} can be reached from elsewhere, and there is no token yet. Make one with `rollout-lab tokens "
        "create NAME --scope admin`, or set ROLLOUT_LAB_ANONYMOUS to what anybody may do: none, read, submit or admin"
    )


def _make_caller(token: Token | None, source: str) -> Caller:
    if token is None:
        return Caller("unknown", None, source, trouble="there is no such token")
    if token.state is not TokenState.VALID:
        return Caller(token.name, None, source, trouble=f"this token is {token.state}")
    return Caller(token.name, token.scope, source)


class _Recent(Generic[V]):
    """Answers of the database, each good for a moment."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[float, V]] = OrderedDict()

    async def get(self, key: str, ask: Callable[[], V]) -> V:
        now = time.monotonic()
        found = self._answers.get(key)
        if found is not None and found[0] > now:
            return found[1]
        answer = await run_sync(ask)
        self._answers[key] = (now + REMEMBERED_S, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    def clear(self) -> None:
        self._answers.clear()
