"""Errors as problem details (RFC 9457)."""

import math
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from app.errors import (
    Conflict,
    DatabaseUnavailable,
    FieldError,
    Forbidden,
    FromElsewhere,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    RolloutLabError,
    TooManyRequests,
    Unauthorized,
    UnknownHost,
    UnreadableSpec,
    UnsupportedMediaType,
)
from app.format import clip

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
_LONGEST_SAID = 500  # characters of what is wrong with a parameter, which may hold what was sent


ANSWERED = (
    InvalidInput,
    IdempotencyMismatch,
    PayloadTooLarge,
    UnsupportedMediaType,
    NotFound,
    Conflict,
    UnreadableSpec,
    Unauthorized,
    Forbidden,
    FromElsewhere,
    UnknownHost,
    TooManyRequests,
    DatabaseUnavailable,
)


class ProblemError(BaseModel):
    """One thing wrong with a request."""

    pointer: str | None = Field(
        None,
        description="Where in the request's body: a JSON pointer (RFC 6901), empty for the whole of it.",
        examples=["/engine/max_num_seq"],
    )
    parameter: str | None = Field(None, description="The query, path or header parameter at fault.", examples=["limit"])
    detail: str = Field(
        description="What is wrong and what to do.",
        examples=["unknown field 'max_num_seq'; did you mean 'max_num_seqs'?"],
    )


class Problem(BaseModel):
    """Why a request failed (RFC 9457)."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    type: str = Field(
        description="Kind of problem: an address that explains it, or `about:blank` where the title says all.",
        examples=["/v1/problems/invalid-input"],
    )
    title: str = Field(
        description="The kind in words; the same for every problem of a type.", examples=["Invalid input"]
    )
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(
        description="This problem in words.",
        examples=["/engine/max_num_seq: unknown field 'max_num_seq'; did you mean 'max_num_seqs'?"],
    )
    instance: str = Field(
        description="This request, as the service's log names it.",
        examples=["urn:rollout-lab:request:5f0c6d5a2b3e4f60"],
    )
    errors: list[ProblemError] | None = Field(None, description="Everything that is wrong, where it can be told apart.")


class ProblemType(BaseModel):
    """A kind of problem."""

    slug: str = Field(description="Last part of its address.", examples=["not-found"])
    title: str = Field(description="The kind in words.", examples=["Not found"])
    status: int = Field(description="The HTTP status it comes with.", examples=[404])
    description: str = Field(description="What it means.", examples=["No such resource."])


class ProblemResponse(Response):
    """A problem on the wire."""

    media_type = MEDIA_TYPE


def list_responses(*kinds: type[RolloutLabError]) -> dict[int | str, dict[str, Any]]:
    """The problems a route may answer with, for its documentation; a database that is away is among them always."""
    found: dict[int | str, dict[str, Any]] = {}
    every: tuple[type[RolloutLabError], ...] = (*kinds, DatabaseUnavailable)
    for kind in every:
        described = found.setdefault(
            kind.status,
            {"description": kind.title, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}},
        )
        if kind.title not in described["description"]:
            described["description"] += f"; {kind.title.lower()}"
    return dict(sorted(found.items()))


def problem(
    request: Request,
    status: int,
    title: str,
    detail: str,
    *,
    slug: str | None = None,
    errors: list[ProblemError] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """A problem as the response to a request."""
    body = Problem(
        type=f"{request.scope.get('root_path', '')}/v1/problems/{slug}" if slug else "about:blank",
        title=title,
        status=status,
        detail=detail,
        instance=f"urn:rollout-lab:request:{getattr(request.state, 'request_id', '-')}",
        errors=errors,
    )
    return ProblemResponse(body.model_dump_json(exclude_none=True), status, headers)


def answer_internal_error(request: Request) -> Response:
    """An error nobody meant to raise: its words stay in the log."""
    return problem(request, 500, "Internal error", "The service's log has the cause, under this request's instance.")


def install_handlers(app: FastAPI) -> None:
    """Turn every error into a problem."""
    app.add_exception_handler(RolloutLabError, _answer_our_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(HTTPException, _answer_http_exception)


async def _answer_our_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RolloutLabError)  # noqa: S101 - how the handler is registered
    if not isinstance(error, ANSWERED):
        raise error
    errors = [_build_error(request, e) for e in error.errors]
    detail = "; ".join(f"{e.parameter}: {e.detail}" for e in errors if e.parameter) or error.detail
    headers = make_headers(error)
    return problem(request, error.status, error.title, detail, slug=error.slug, errors=errors or None, headers=headers)


def make_headers(error: RolloutLabError) -> dict[str, str]:
    """What a client is told beside the problem: when to come back, how to say who it is."""
    if isinstance(error, DatabaseUnavailable):
        return {"Retry-After": str(RETRY_AFTER_S)}
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return {"WWW-Authenticate": 'Bearer realm="Rollout Lab"'} if isinstance(error, Unauthorized) else {}


def _build_error(request: Request, error: FieldError) -> ProblemError:
    if request.method == "GET":  # there is no body to point into
        return ProblemError(pointer=None, parameter=error.pointer.removeprefix("/"), detail=error.detail)
    return ProblemError(pointer=error.pointer, parameter=None, detail=error.detail)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - how the handler is registered
    errors = list(_list_parameter_errors(error))
    detail = "; ".join(f"{e.parameter}: {e.detail}" for e in errors)
    return problem(request, InvalidInput.status, InvalidInput.title, detail, slug=InvalidInput.slug, errors=errors)


def _list_parameter_errors(error: RequestValidationError) -> Iterator[ProblemError]:
    for details in error.errors():
        where = ".".join(str(step) for step in details["loc"][1:]) or str(details["loc"][0])
        said = "there is no such parameter" if details["type"] == "extra_forbidden" else _make_readable(details["msg"])
        yield ProblemError(pointer=None, parameter=clip(where), detail=clip(said, _LONGEST_SAID))


def _make_readable(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message.replace("Input should be", "must be").replace("Field required", "is required")


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - how the handler is registered
    headers = dict(error.headers or {})
    detail = error.detail
    if error.status_code == 404:
        detail = f"there is nothing at {clip(request.url.path)}"
    elif error.status_code == 405:
        headers = {"Allow": ", ".join(_list_methods(request))}
        detail = f"{clip(request.url.path)} does not take {request.method}, but {headers['Allow']}"
    return problem(
        request, error.status_code, HTTPStatus(error.status_code).phrase.capitalize(), detail, headers=headers
    )


def _list_methods(request: Request) -> list[str]:
    """Of every route with this path: the router names those of the first only."""
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


router = APIRouter(tags=["problems"])


@router.get("/v1/problems/{slug}", summary="What a kind of problem means", responses=list_responses(NotFound))
async def get_problem_type(
    slug: Annotated[str, Path(description="Last part of a problem's `type`.", examples=["not-found"])],
) -> ProblemType:
    """Explain the `type` of a problem."""
    for kind in ANSWERED:
        if kind.slug == slug:
            return ProblemType(
                slug=slug, title=kind.title, status=kind.status, description=" ".join((kind.__doc__ or "").split())
            )
    raise NotFound(f"there is no kind of problem called {clip(slug)}")
