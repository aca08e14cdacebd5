"""Tokens, sessions, and who has done what."""

import re

import pytest
from sqlalchemy import select, update

from app.errors import Conflict, InvalidInput, NotFound
from app.spec.lifecycle import Status
from app.store import experiments, queue, tokens
from app.store.actors import Actor
from app.store.database import Database
from app.store.tables import sessions
from app.store.tables import tokens as table
from app.store.tokens import Scope, TokenState, hash_secret
from tests.support.builders import a_simulated_spec
from tests.support.store import history_of, start, submit

ROOT = Actor("root", "gpu-7")
ANNA = Actor("anna", "192.0.2.7")


def test_a_scope_reaches_as_far_as_those_before_it() -> None:
    reach = [[mine.covers(needed) for needed in Scope] for mine in Scope]
    assert reach == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_token_is_found_by_its_secret_of_which_only_a_hash_is_kept(db: Database) -> None:
    assert not tokens.any_made(db)
    secret = tokens.create(db, "anna", Scope.SUBMIT, None, ROOT)
    assert re.fullmatch(r"rlt_[\w-]{43}", secret)
    found = tokens.find(db, hash_secret(secret))
    assert found is not None
    assert (found.name, found.scope, found.state, found.expires_at) == ("anna", Scope.SUBMIT, TokenState.VALID, None)
    assert tokens.find(db, hash_secret(secret + "x")) is None
    assert tokens.any_made(db)
    with db.read() as connection:
        assert secret not in repr(connection.execute(select(table)).all())


def test_two_tokens_have_nothing_in_common(db: Database) -> None:
    assert tokens.create(db, "a", Scope.READ, None, ROOT) != tokens.create(db, "b", Scope.READ, None, ROOT)
    assert [token.name for token in tokens.list_tokens(db)] == ["a", "b"]


@pytest.mark.parametrize("name", ["", "anonymous", "a b", "-a", "a\n", "a" * 65, "ä", "\x1b[31m"])
def test_a_name_that_could_mislead_is_refused(db: Database, name: str) -> None:
    with pytest.raises(InvalidInput):
        tokens.create(db, name, Scope.READ, None, ROOT)


def test_a_name_is_given_once(db: Database) -> None:
    tokens.create(db, "anna", Scope.READ, None, ROOT)
    tokens.revoke(db, "anna", ROOT)
    with pytest.raises(Conflict):
        tokens.create(db, "anna", Scope.READ, None, ROOT)


def test_a_token_ends_when_it_expires(db: Database) -> None:
    secret = tokens.create(db, "short", Scope.READ, 3600.0, ROOT)
    valid = tokens.find(db, hash_secret(secret))
    assert valid is not None
    assert valid.expires_at is not None
    assert abs((valid.expires_at - valid.created_at).total_seconds() - 3600.0) < 1.0
    with db.write() as connection:
        connection.execute(update(table).values(expires_at=valid.created_at))
    expired = tokens.find(db, hash_secret(secret))
    assert expired is not None
    assert expired.state is TokenState.EXPIRED
    assert tokens.any_made(db), "the last token's end does not open the service"


def test_a_token_that_is_revoked_takes_its_sessions_along(db: Database) -> None:
    secret = tokens.create(db, "anna", Scope.READ, None, ROOT)
    token = tokens.find(db, hash_secret(secret))
    assert token is not None
    cookie = tokens.log_in(db, token.name, ANNA)
    assert tokens.find_session(db, hash_secret(cookie)) == token
    tokens.revoke(db, "anna", ROOT)
    revoked = tokens.find(db, hash_secret(secret))
    assert revoked is not None
    assert revoked.state is TokenState.REVOKED
    assert tokens.find_session(db, hash_secret(cookie)) is None
    with pytest.raises(NotFound):
        tokens.revoke(db, "nobody", ROOT)


def test_a_session_ends_by_itself_and_on_request(db: Database) -> None:
    secret = tokens.create(db, "anna", Scope.READ, None, ROOT)
    token = tokens.find(db, hash_secret(secret))
    assert token is not None
    first, second = tokens.log_in(db, token.name, ANNA), tokens.log_in(db, token.name, ANNA)
    tokens.log_out(db, hash_secret(first), "192.0.2.7")
    tokens.log_out(db, hash_secret(first), "192.0.2.7")
    assert tokens.find_session(db, hash_secret(first)) is None
    assert tokens.find_session(db, hash_secret(second)) == token
    with db.write() as connection:
        connection.execute(update(sessions).values(expires_at=token.created_at))
    assert tokens.find_session(db, hash_secret(second)) is None


def test_what_is_done_to_a_token_is_written_down(db: Database) -> None:
    secret = tokens.create(db, "anna", Scope.READ, None, ROOT)
    token = tokens.find(db, hash_secret(secret))
    assert token is not None
    tokens.log_out(db, hash_secret(tokens.log_in(db, "anna", ANNA)), "192.0.2.7")
    tokens.revoke(db, "anna", ROOT)
    assert history_of(db, "anna") == [
        ("created", "root", "gpu-7"),
        ("logged in", "anna", "192.0.2.7"),
        ("logged out", "anna", "192.0.2.7"),
        ("revoked", "root", "gpu-7"),
    ]


# --- experiments ---------------------------------------------------------------------------------------------------


def test_an_experiment_is_whose_token_submitted_it(db: Database) -> None:
    queued = queue.enqueue(db, a_simulated_spec(), by=ANNA)
    assert queued.row is not None
    assert queued.row.item.submitted_by == "anna"
    assert experiments.get_item(db, queued.experiment_id).submitted_by == "anna"
    assert experiments.get_item(db, submit(db)).submitted_by == "anonymous"


def test_a_history_says_who_asked_and_from_where(db: Database) -> None:
    lease = start(db)
    for _ in range(2):
        queue.request_cancel(db, lease.experiment_id, by=ANNA)
    queue.finish(db, lease, Status.CANCELLED, reason="cancelled on request")
    retry = queue.retry(db, lease.experiment_id, by=ANNA).experiment_id
    queue.request_cancel(db, retry, by=ROOT)
    assert [
        (event.reason, event.actor, event.source) for event in experiments.list_events_after(db, lease.experiment_id)
    ] == [
        ("submitted", "anonymous", None),
        ("claimed", None, None),
        ("asked to stop", "anna", "192.0.2.7"),
        ("cancelled on request", None, None),
    ]
    assert [(event.reason, event.actor) for event in experiments.list_events_after(db, retry)] == [
        ("submitted", "anna"),
        ("cancelled while queued", "root"),
    ]
