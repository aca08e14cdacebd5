"""Lists of experiments: narrowed, sorted, a page at a time."""

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, and_, exists, func, literal, select, tuple_

from app.errors import FieldError, InvalidInput
from app.spec.lifecycle import Status
from app.store.database import Database
from app.store.experiments import ITEM_COLUMNS, ExperimentItem, item_of
from app.store.tables import SafeText, experiment_labels, experiments


class Sort(StrEnum):
    """What a list is sorted by, and the id where that is equal: it never changes, and is a column with an index."""

    CREATED_AT = "created_at"
    FINISHED_AT = "finished_at"
    NAME = "name"


class Order(StrEnum):
    """Which end comes first."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True)
class CataloguePage:
    """Some experiments, and where the next page begins."""

    items: tuple[ExperimentItem, ...]
    next_cursor: str | None


def page(
    db: Database,
    *,
    status: Collection[Status] = (),
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    model: str | None = None,
    verdict: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    sort: Sort = Sort.CREATED_AT,
    order: Order | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> CataloguePage:
    """Newest first, by name from A to Z; ``order`` turns it round. Sorted by ``finished_at`` it holds only what has
    finished.

    ``name`` matches a part of the name, whatever its case; ``created_after`` is part of the range, ``created_before``
    is not; everything else matches whole. ``verdict`` matches experiments of which any primary comparison came to it.
    InvalidInput if the cursor is none, or of a list that is sorted otherwise.
    """
    c = experiments.c
    key: ColumnElement[datetime] | ColumnElement[str] = c[sort]
    descending = (order or (Order.ASC if sort is Sort.NAME else Order.DESC)) is Order.DESC
    label = experiment_labels.c
    conditions: list[ColumnElement[bool]] = [
        exists().where(label.experiment_id == c.id, label.key == key, label.value == value)
        for key, value in (labels or {}).items()
    ]
    if status:
        conditions.append(c.status.in_(list(status)))
    if name:
        # Both sides are folded by the database: SQLite knows the case of ASCII letters only.
        conditions.append(func.lower(c.name).like(func.lower(literal(f"%{_escape(name)}%", SafeText)), escape="/"))
    if model is not None:
        conditions.append(c.model == model)
    if verdict is not None:
        conditions.append((" " + c.verdict + " ").contains(f" {verdict} ", autoescape=True))
    if created_after is not None:
        conditions.append(c.created_at >= created_after)
    if created_before is not None:
        conditions.append(c.created_at < created_before)
    if sort is Sort.FINISHED_AT:
        conditions.append(c.finished_at.is_not(None))
    if cursor is not None:
        last = tuple_(*_decode_cursor(cursor, sort, descending), types=[key.type, c.id.type])
        conditions.append(tuple_(key, c.id) < last if descending else tuple_(key, c.id) > last)
    query = (
        select(*(c[name] for name in ITEM_COLUMNS))
        .where(and_(True, *conditions))
        .order_by(*((key.desc(), c.id.desc()) if descending else (key, c.id)))
        .limit(limit + 1)
    )
    with db.read() as connection:
        rows = connection.execute(query).all()
    items = tuple(item_of(row) for row in rows[:limit])
    return CataloguePage(items, _encode_cursor(items[-1], sort, descending) if len(rows) > limit else None)


def _escape(part: str) -> str:
    return part.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _encode_cursor(item: ExperimentItem, sort: Sort, descending: bool) -> str:
    place = [sort, descending, str(getattr(item, sort)), item.id]
    text = json.dumps(place, ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str, sort: Sort, descending: bool) -> tuple[datetime | str, str]:
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        own, value, last = place[:2] == [sort, descending], str(place[2]), str(place[3])
        at = value if sort is Sort.NAME or not own else datetime.fromisoformat(value)
        if isinstance(at, datetime) and at.tzinfo is None:
            raise ValueError("no time zone")
    except (ValueError, TypeError, LookupError, binascii.Error, UnicodeError):
        raise InvalidInput.of((FieldError("/cursor", "not a cursor; use next_cursor of the page before"),)) from None
    if not own:
        said = "a cursor of a list that is sorted otherwise; begin again without it"
        raise InvalidInput.of((FieldError("/cursor", said),))
    return at, last
