"""Which statuses follow which."""

import pytest

from app.spec.lifecycle import TRANSITIONS, Status
from app.store.database import Database
from app.store.tables import experiments as table
from app.store.transitions import move
from tests.support.store import NOBODY


def test_every_status_has_its_transitions() -> None:
    assert set(TRANSITIONS) == set(Status)


@pytest.mark.parametrize("origin", Status)
def test_no_other_transition_is_possible(db: Database, origin: Status) -> None:
    for target in set(Status) - TRANSITIONS[origin]:
        with db.write() as connection, pytest.raises(ValueError, match="no experiment goes"):
            move(connection, origin, target, table.c.id == NOBODY, "because")
