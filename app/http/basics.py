"""What every route needs: the application's parts, conditional answers, links."""

import hashlib
from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from fastapi import Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.errors import FieldError, InvalidInput
from app.format import quoted
from app.settings import Settings
from app.store.database import Database

JSON = "application/json"
MOST_LABELS = 16  # of a filter: each is a subquery
LONGEST_FILTER = 300  # a label's key and value, or a name, and more
LONGEST_CURSOR = 1500  # the longest name is part of it, as base64 of UTF-8
LONGEST_MOMENT = 64
_DATE = len("2026-01-31")


async def _get_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def get_settings(request: Request) -> Settings:
    """The application's settings."""
    settings: Settings = request.app.state.settings
    return settings


async def _get_settings(request: Request) -> Settings:
    return get_settings(request)


Db = Annotated[Database, Depends(_get_database)]
Config = Annotated[Settings, Depends(_get_settings)]


class Page(BaseModel):
    """One page of a list."""

    next_cursor: str | None = Field(
        None, description="`cursor` of the next page; null on the last.", examples=["WyIyMDI2LTAxLTMxIl0"]
    )


def read_moment(text: str, parameter: str) -> datetime | None:
    """A parameter that is an RFC 3339 time, or a date for its beginning in UTC; None where it is empty.

    InvalidInput where it is neither: a time without a zone is none.
    """
    try:
        if not text.strip():
            return None
        if len(text.strip()) <= _DATE:
            return datetime.combine(date.fromisoformat(text.strip()), time(), UTC)
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    said = f"{quoted(text)} is neither a date, like 2026-01-31, nor a time with its zone, like 2026-01-31T12:00:00Z"
    hint = "; in an address a + is written %2B" if " " in text.strip() else ""
    raise InvalidInput.of((FieldError(f"/{parameter}", said + hint),))


def make_etag(*parts: object) -> str:
    """A weak entity tag that changes when any of the parts does."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"'


def answer_unchanged(request: Request, etag: str) -> Response | None:
    """304 if the client has this version already."""
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if etag.removeprefix("W/") not in tags and "*" not in tags:
        return None
    return Response(status_code=304, headers=_make_validators(etag))


def answer(request: Request, content: BaseModel | dict[str, Any], etag: str | None = None) -> Response:
    """JSON with an entity tag, made of the content if the caller knows none; 304 if the client has it already."""
    body = content.model_dump_json().encode() if isinstance(content, BaseModel) else JSONResponse(content).body
    etag = etag or make_etag(bytes(body))
    return answer_unchanged(request, etag) or answer_bytes(bytes(body), etag)


def answer_bytes(body: bytes, etag: str) -> Response:
    """JSON that is bytes already."""
    return Response(body, media_type=JSON, headers=_make_validators(etag))


def make_link(request: Request, path: str) -> str:
    """A path as clients see it, behind a proxy's prefix too."""
    prefix: str = request.scope.get("root_path", "")
    return f"{prefix.rstrip('/')}{path}"


def _make_validators(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Cache-Control": "no-cache"}
