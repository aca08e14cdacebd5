"""Lists of experiments."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from app.errors import InvalidInput
from app.spec.lifecycle import Status
from app.store import catalogue, experiments
from app.store.catalogue import Order, Sort
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tables import experiments as table
from tests.support.store import claim, fail, submit


def ids(page: catalogue.CataloguePage) -> list[ExperimentId]:
    return [item.id for item in page.items]


def all_pages(db: Database, limit: int, **how: Any) -> list[ExperimentId]:
    """Follow the cursors to the end."""
    page = catalogue.page(db, limit=limit, **how)
    found = ids(page)
    while page.next_cursor is not None:
        page = catalogue.page(db, limit=limit, cursor=page.next_cursor, **how)
        found += ids(page)
    return found


def test_pages_are_newest_first_and_lose_nothing(db: Database) -> None:
    queued = [submit(db) for _ in range(7)]

    with db.write() as connection:
        for minute, experiment_id in enumerate(queued):
            at = db.now() + timedelta(minutes=minute)
            connection.execute(update(table).where(table.c.id == experiment_id).values(created_at=at))

    assert all_pages(db, limit=3) == list(reversed(queued))
    assert catalogue.page(db, limit=7).next_cursor is None


def test_equal_times_neither_repeat_nor_hide_anything(db: Database) -> None:
    queued = [submit(db) for _ in range(9)]
    with db.write() as connection:
        connection.execute(update(table).values(created_at=db.now()))

    for limit in (1, 2, 4):
        assert all_pages(db, limit) == sorted(queued, reverse=True)


def test_a_new_experiment_does_not_shift_the_next_page(db: Database) -> None:
    for _ in range(4):
        submit(db)
    first = catalogue.page(db, limit=2)
    expected = ids(catalogue.page(db, limit=2, cursor=first.next_cursor))

    submit(db)

    assert ids(catalogue.page(db, limit=2, cursor=first.next_cursor)) == expected


def test_filters_narrow_the_list(db: Database) -> None:
    nightly = submit(db, name="Nightly 100% run", labels={"suite": "nightly", "team": "rl"})
    demo = submit(db, name="demo_run", labels={"suite": "demo", "team": "rl"}, model={"id": "Qwen/Qwen2.5-7B"})
    with db.write() as connection:
        connection.execute(update(table).where(table.c.id == demo).values(verdict="inconclusive same"))
    assert claim(db).experiment_id == nightly

    assert ids(catalogue.page(db, labels={"suite": "nightly"})) == [nightly]
    assert sorted(ids(catalogue.page(db, labels={"team": "rl"}))) == sorted([nightly, demo])
    assert ids(catalogue.page(db, labels={"team": "rl", "suite": "demo"})) == [demo]
    assert ids(catalogue.page(db, labels={"suite": "nightly", "team": "x"})) == []
    assert ids(catalogue.page(db, status=[Status.RUNNING])) == [nightly]
    assert len(ids(catalogue.page(db, status=[Status.RUNNING, Status.QUEUED]))) == 2
    assert ids(catalogue.page(db, model="Qwen/Qwen2.5-7B")) == [demo]
    assert ids(catalogue.page(db, verdict="same")) == ids(catalogue.page(db, verdict="inconclusive")) == [demo]
    assert experiments.get_item(db, demo).verdict == "inconclusive"
    assert ids(catalogue.page(db, verdict="sam")) == []
    assert ids(catalogue.page(db, name="NIGHTLY")) == [nightly]
    assert ids(catalogue.page(db, name="100%")) == [nightly]
    assert ids(catalogue.page(db, name="o_r")) == [demo], "an underscore is an underscore"
    assert ids(catalogue.page(db, name="\0")) == []


def test_filters_and_cursors_work_together(db: Database) -> None:
    nightly = [submit(db, labels={"suite": "nightly"}) for _ in range(3)]
    submit(db)

    first = catalogue.page(db, labels={"suite": "nightly"}, limit=2)
    second = catalogue.page(db, labels={"suite": "nightly"}, limit=2, cursor=first.next_cursor)

    assert sorted(ids(first) + ids(second)) == sorted(nightly)
    assert second.next_cursor is None


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"nonsense",
        b'["created_at", true, "2026-01-01T00:00:00", "x"]',
        b'["created_at", true, "then", "x"]',
        b"[]",
        b'["2026-01-01T00:00:00"]',
        b'["2026-01-01T00:00:00", "x"]',
        b"[1, 2]",
        b"{}",
        b"\xff",
    ],
)
def test_a_cursor_that_is_none_is_refused(db: Database, document: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        catalogue.page(db, cursor=base64.urlsafe_b64encode(document).decode())

    assert [error.pointer for error in refused.value.errors] == ["/cursor"]


@pytest.mark.parametrize("cursor", ["!", "€", "a", "\0", "ab cd"])
def test_a_cursor_that_is_not_even_base64_is_refused(db: Database, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        catalogue.page(db, cursor=cursor)


def test_a_cursor_from_the_edge_of_time_is_harmless(db: Database) -> None:
    submit(db)
    last = base64.urlsafe_b64encode(b'["created_at", true, "9999-12-31T23:59:59+00:00", "\\u0000"]').decode()

    assert len(catalogue.page(db, cursor=last).items) == 1


# --- sorted --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("sort", Sort)
def test_every_sort_is_a_sort_in_pages_of_any_size(db: Database, sort: Sort, limit: int) -> None:
    names = ("b", "a", "b", "", "async \N{GREEK SMALL LETTER ALPHA} " + "\N{PILE OF POO}" * 180, "a%_/'\"", "Z")
    queued = [submit(db, name=name) for name in names]
    for _ in queued[:5]:
        fail(db, claim(db))
    with db.write() as connection:  # two that are equal in their times
        at = db.now()
        connection.execute(update(table).where(table.c.id.in_(queued[:2])).values(created_at=at, finished_at=at))

    rising = all_pages(db, limit, sort=sort, order=Order.ASC)

    assert all_pages(db, limit, sort=sort, order=Order.DESC) == rising[::-1]
    assert sorted(rising) == sorted(queued[:5] if sort is Sort.FINISHED_AT else queued)
    items = [experiments.get_item(db, one) for one in rising]
    if sort is Sort.NAME:  # every database has an order of its own; equal ones stand together, by id
        assert [one.id for one in items if one.name == "b"] == sorted((queued[0], queued[2]))
        order = [one.name for one in items]
        assert order.index("") == 0
        assert order.index("a") < order.index("b")
    else:
        keys = [(getattr(one, sort), one.id) for one in items]
        assert keys == sorted(keys)


def test_the_newest_finished_and_the_first_names_come_first(db: Database) -> None:
    later, sooner = submit(db, name="b"), submit(db, name="a")
    leases = {lease.experiment_id: lease for lease in (claim(db), claim(db))}
    fail(db, leases[sooner])
    fail(db, leases[later])

    assert ids(catalogue.page(db)) == [sooner, later]
    assert ids(catalogue.page(db, sort=Sort.NAME)) == [sooner, later]
    assert ids(catalogue.page(db, sort=Sort.NAME, order=Order.DESC)) == [later, sooner]
    assert ids(catalogue.page(db, sort=Sort.CREATED_AT, order=Order.ASC)) == [later, sooner]


@pytest.mark.parametrize("sort", Sort)
def test_what_comes_and_finishes_between_two_pages_shifts_nothing(db: Database, sort: Sort) -> None:
    for name in "abcd":
        submit(db, name=name)
        fail(db, claim(db))
    first = catalogue.page(db, sort=sort, limit=2)
    expected = ids(catalogue.page(db, sort=sort, limit=2, cursor=first.next_cursor))

    submit(db, name="")
    fail(db, claim(db))

    assert ids(catalogue.page(db, sort=sort, limit=2, cursor=first.next_cursor)) == expected


def test_a_cursor_of_another_sort_is_refused_with_what_to_do(db: Database) -> None:
    for _ in range(2):
        submit(db)
    cursor = catalogue.page(db, limit=1).next_cursor

    for how in ({"sort": Sort.NAME}, {"sort": Sort.FINISHED_AT}, {"order": Order.ASC}):
        with pytest.raises(InvalidInput, match="sorted otherwise; begin again without it"):
            catalogue.page(db, cursor=cursor, **how)


def test_a_range_of_dates_takes_its_beginning_in_and_leaves_its_end_out(db: Database) -> None:
    first, second, third = submit(db), submit(db), submit(db)
    at = {one: experiments.get_item(db, one).created_at for one in (first, second, third)}

    assert ids(catalogue.page(db, created_after=at[second])) == [third, second]
    assert ids(catalogue.page(db, created_before=at[second])) == [first]
    assert ids(catalogue.page(db, created_after=at[second], created_before=at[third])) == [second]
    assert ids(catalogue.page(db, created_after=at[third] + timedelta(microseconds=1))) == []
    assert all_pages(db, 1, created_after=at[second], sort=Sort.NAME) == sorted((second, third))
