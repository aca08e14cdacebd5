"""What every route needs: the application's parts, conditional answers, links."""

import hashlib
from typing import Annotated, Any

from fastapi import Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.settings import Settings
from app.store.database import Database

JSON = "application/json"
MOST_LABELS = 16  # of a filter: each is a subquery
LONGEST_FILTER = 300  # a label's key and value, or a name, and more


async def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def config_of(request: Request) -> Settings:
    """The application's settings."""
    settings: Settings = request.app.state.settings
    return settings


async def _settings(request: Request) -> Settings:
    return config_of(request)


Db = Annotated[Database, Depends(_database)]
Config = Annotated[Settings, Depends(_settings)]


class Page(BaseModel):
    """One page of a list."""

    next_cursor: str | None = Field(
        None, description="`cursor` of the next page; null on the last.", examples=["WyIyMDI2LTAxLTMxIl0"]
    )


def etag_of(*parts: object) -> str:
    """A weak entity tag that changes when any of the parts does."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"'


def unchanged(request: Request, etag: str) -> Response | None:
    """304 if the client has this version already."""
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if etag.removeprefix("W/") not in tags and "*" not in tags:
        return None
    return Response(status_code=304, headers=_validators(etag))


def answer(request: Request, content: BaseModel | dict[str, Any], etag: str | None = None) -> Response:
    """JSON with an entity tag, made of the content if the caller knows none; 304 if the client has it already."""
    body = content.model_dump_json().encode() if isinstance(content, BaseModel) else JSONResponse(content).body
    etag = etag or etag_of(bytes(body))
    return unchanged(request, etag) or written(bytes(body), etag)


def written(body: bytes, etag: str) -> Response:
    """JSON that is bytes already."""
    return Response(body, media_type=JSON, headers=_validators(etag))


def link(request: Request, path: str) -> str:
    """A path as clients see it, behind a proxy's prefix too."""
    prefix: str = request.scope.get("root_path", "")
    return f"{prefix.rstrip('/')}{path}"


def _validators(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Cache-Control": "no-cache"}
