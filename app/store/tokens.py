"""API tokens, and the browsers that have logged in with one.

Only the SHA-256 of a secret is stored. A slow, salted hash protects secrets that can be guessed; these are 256 random
bits, which cannot, so whoever steals the table has nothing to try. Who looks one up by its hash learns from the time
that takes at most how much of a hash they have met, which does not lead back to a secret.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, case, delete, exists, func, insert, literal, select, update

from app.errors import Conflict, InvalidInput, NotFound
from app.store.actors import ANONYMOUS, Actor
from app.store.clock import microseconds, now_us
from app.store.database import Database
from app.store.tables import sessions, token_events, tokens

PREFIX = "rlt_"  # by which a scanner, or a reader, knows one
SESSION_S = 12 * 3600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Scope(StrEnum):
    """What a token is for; each may do what those before it may."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Whether this one may do what that one may."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


class TokenState(StrEnum):
    """Whether a token still opens anything."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; its secret is not."""

    name: str
    scope: Scope
    state: TokenState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def hash_secret(secret: str) -> str:
    """How a secret is stored: its SHA-256, in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create(db: Database, name: str, scope: Scope, expires_in_s: float | None, by: Actor) -> str:
    """A new token's secret, which is told this once; InvalidInput for a bad name, Conflict for one that was used."""
    if not _NAME.fullmatch(name) or name == ANONYMOUS:
        raise InvalidInput(f"{name!r} cannot be a token's name: letters, digits and ._@- only, 64 at most")
    secret = PREFIX + secrets.token_urlsafe(32)
    row = {
        "name": name,
        "sha256": hash_secret(secret),
        "scope": scope,
        "expires_at": None if expires_in_s is None else now_us() + microseconds(expires_in_s),
    }
    with db.write() as connection:
        if connection.execute(select(tokens.c.name).where(tokens.c.name == name)).all():
            raise Conflict(f"there is, or was, a token called {name}; names are given once, as histories show them")
        connection.execute(insert(tokens).values(**row, created_at=now_us()))
        _append(connection, name, "created", by)
    return secret


def revoke(db: Database, name: str, by: Actor) -> None:
    """Let a token, and browsers that logged in with it, open nothing any more; NotFound if there is none."""
    with db.write() as connection:
        found = connection.execute(
            update(tokens)
            .where(tokens.c.name == name)
            .values(revoked_at=func.coalesce(tokens.c.revoked_at, now_us()))
            .returning(tokens.c.name)
        ).all()
        if not found:
            raise NotFound(f"there is no token called {name}")
        connection.execute(delete(sessions).where(sessions.c.token == name))
        _append(connection, name, "revoked", by)


def list_tokens(db: Database) -> tuple[Token, ...]:
    """Every token there ever was, oldest first."""
    with db.read() as connection:
        rows = connection.execute(_select_tokens().order_by(tokens.c.created_at, tokens.c.name))
        return tuple(_build_token(row) for row in rows)


def any_made(db: Database) -> bool:
    """Whether there ever was a token: one that has expired does not open the service to everybody."""
    with db.read() as connection:
        return bool(connection.execute(_ANY).scalar_one())


def find(db: Database, digest: str) -> Token | None:
    """The token whose secret has this digest, valid or not."""
    with db.read() as connection:
        row = connection.execute(_BY_DIGEST, {"digest": digest}).one_or_none()
    return None if row is None or not hmac.compare_digest(row.sha256, digest) else _build_token(row)


def log_in(db: Database, name: str, by: Actor) -> str:
    """A new session's secret, for the cookie of a browser that has shown this token."""
    secret = secrets.token_urlsafe(32)
    with db.write() as connection:
        connection.execute(delete(sessions).where(sessions.c.expires_at < now_us()))
        connection.execute(
            insert(sessions).values(
                sha256=hash_secret(secret), token=name, expires_at=now_us() + microseconds(SESSION_S)
            )
        )
        _append(connection, name, "logged in", by)
    return secret


def log_out(db: Database, digest: str, source: str) -> None:
    """End a session; one that is over already is no error."""
    with db.write() as connection:
        ended = connection.execute(delete(sessions).where(sessions.c.sha256 == digest).returning(sessions.c.token))
        for name in ended.scalars().all():
            _append(connection, name, "logged out", Actor(name, source))


def find_session(db: Database, digest: str) -> Token | None:
    """The token a browser has logged in with; None once the session is over."""
    with db.read() as connection:
        row = connection.execute(_BY_SESSION, {"digest": digest}).one_or_none()
    return None if row is None else _build_token(row)


def _select_tokens(*more: Any) -> Select[Any]:
    c = tokens.c
    state = case(
        (c.revoked_at.is_not(None), literal(TokenState.REVOKED.value)),
        (c.expires_at <= now_us(), literal(TokenState.EXPIRED.value)),
        else_=literal(TokenState.VALID.value),
    )
    return select(c.name, c.sha256, c.scope, c.created_at, c.expires_at, c.revoked_at, state.label("state"), *more)


_ANY = select(exists(select(literal(1)).select_from(tokens)))
_BY_DIGEST = _select_tokens().where(tokens.c.sha256 == bindparam("digest"))
_BY_SESSION = (
    _select_tokens()
    .join(sessions, sessions.c.token == tokens.c.name)
    .where(sessions.c.sha256 == bindparam("digest"), sessions.c.expires_at > now_us())
)


def _build_token(row: Row[Any]) -> Token:
    return Token(
        name=row.name,
        scope=Scope(row.scope),
        state=TokenState(row.state),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _append(connection: Connection, name: str, action: str, by: Actor) -> None:
    connection.execute(
        insert(token_events).values(
            at=now_us(), token=name, action=action, actor=by.name, source=by.source or "unknown"
        )
    )
