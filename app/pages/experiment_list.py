"""The list of experiments: filters in the address, a page at a time, alive."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from app.errors import FieldError, InvalidInput
from app.http.basics import LONGEST_CURSOR, LONGEST_FILTER, LONGEST_MOMENT, MOST_LABELS, Db, read_moment
from app.judge.verdict import Verdict
from app.pages.shell import PageRouter, keep_unchanged, render_fragment, render_page, wants_fragment
from app.spec.lifecycle import Status
from app.store import catalogue, experiments
from app.store.catalogue import Order, Sort
from app.store.database import Database
from app.store.experiments import ExperimentItem

router = PageRouter()
PAGE = 50
_MOST = 200
_PLACES = 12  # queued experiments of one answer whose place is looked up


class Filters(BaseModel):
    """What the list is narrowed to; empty fields of the form are no filters."""

    status: list[Status] = Field([], max_length=16)
    verdict: str = Field("", max_length=64)
    label: str = Field("", max_length=MOST_LABELS * LONGEST_FILTER)
    model: str = Field("", max_length=1024)
    name: str = Field("", max_length=LONGEST_FILTER)
    created_after: str = Field("", max_length=LONGEST_MOMENT)
    created_before: str = Field("", max_length=LONGEST_MOMENT)
    sort: Sort = Sort.CREATED_AT
    order: Order | Literal[""] = ""
    cursor: str = Field("", max_length=LONGEST_CURSOR)
    until: str = Field("", max_length=64)
    seen: str = Field("", max_length=64)

    @property
    def search(self) -> str:
        """As an address has them."""
        chosen = self.model_dump(mode="json", exclude_defaults=True, exclude={"cursor", "until", "seen"})
        return urlencode({key: value for key, value in chosen.items() if value}, doseq=True)

    @property
    def labels(self) -> dict[str, str]:
        """`key:value`, several with spaces between them."""
        pairs = [one.partition(":") for one in self.label.split()]
        if len(pairs) > MOST_LABELS:
            raise InvalidInput.of((FieldError("/label", f"{MOST_LABELS} labels at most, not {len(pairs)}"),))
        if any(not colon for _, colon, _ in pairs):
            raise InvalidInput.of((FieldError("/label", f"{self.label!r} is not key:value"),))
        return {key: value for key, _, value in pairs}


Chosen = Annotated[Filters, Query()]


@router.get("/")
@router.get("/experiments")
def list_experiments(request: Request, db: Db, filters: Chosen) -> Response:
    """Experiments, newest first unless sorted otherwise."""
    shown = _list_first(db, filters)
    if wants_fragment(request):
        return render_fragment(request, "list.html", title="Experiments", final=False, **shown)
    counts = experiments.counts(db)
    return render_page(
        request, "experiments.html", counts=counts, verdicts=list(Verdict), statuses=list(Status), **shown
    )


@router.get("/experiments/rows")
def list_rows(request: Request, db: Db, filters: Chosen) -> Response:
    """The rows down to one that is on the page already, or those behind a cursor."""
    if filters.cursor:
        shown = _list_shown(db, filters, *_read_page(db, filters, PAGE))
        return render_fragment(request, "more.html", title="Experiments", final=False, **shown)
    shown = _list_first(db, filters)
    if filters.seen and filters.seen == shown["seen"] and wants_fragment(request):
        return keep_unchanged()
    return render_fragment(request, "first.html", title="Experiments", final=False, **shown)


def _list_first(db: Database, filters: Filters) -> dict[str, Any]:
    """What the list begins with: its first page, and whatever has come before it since it was first shown."""
    items, cursor = _read_page(db, filters, _MOST if filters.until else PAGE)
    last = next((index for index, item in enumerate(items) if item.id == filters.until), None)
    if last is not None:
        return _list_shown(db, filters, items[: last + 1], cursor)
    return _list_shown(db, filters, items, cursor)


def _read_page(db: Database, filters: Filters, limit: int) -> tuple[Sequence[ExperimentItem], str | None]:
    found = catalogue.page(
        db,
        status=filters.status,
        labels=filters.labels,
        name=filters.name.strip() or None,
        model=filters.model.strip() or None,
        verdict=filters.verdict or None,
        created_after=read_moment(filters.created_after, "created_after"),
        created_before=read_moment(filters.created_before, "created_before"),
        sort=filters.sort,
        order=filters.order or None,
        cursor=filters.cursor or None,
        limit=limit,
    )
    return found.items, found.next_cursor


def _list_shown(db: Database, filters: Filters, items: Sequence[ExperimentItem], cursor: str | None) -> dict[str, Any]:
    # Those that are likely to run first.
    waiting = sorted(
        (item for item in items if item.status is Status.QUEUED), key=lambda item: (-item.priority, item.created_at)
    )
    positions = {item.id: experiments.queue_position(db, item.id) for item in waiting[:_PLACES]}
    told = repr([(item.id, item.version, positions.get(item.id)) for item in items])
    return {
        "filters": filters,
        "items": items,
        "cursor": cursor,
        "positions": positions,
        "seen": hashlib.sha256(told.encode()).hexdigest()[:16],
        "until": items[-1].id if items else "",
    }
