"""Around every request: its id, its log line, its duration, the limit of its body, and the last resort for errors."""

import re
import secrets
import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.telemetry import Telemetry
from app.errors import PayloadTooLarge
from app.http.problems import answer_internal_error

_log = structlog.get_logger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_GONE = 499  # nobody is there to be told: nginx's number for it
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})


class RequestContext:
    """Names, times and logs a request; answers 500 for an error nobody meant to raise."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"  # whatever is said to be text stays text
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
            await send(message)

        began = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, named)
            except ClientDisconnect:
                status = status or _CLIENT_GONE
            except Exception:  # noqa: BLE001 - the last resort
                _log.exception("request failed", method=scope["method"], path=scope["path"])
                if not status:
                    await answer_internal_error(Request(scope))(scope, receive, named)
            took_s = time.perf_counter() - began
            self._telemetry.observe_request(scope["method"], _read_template(scope), status, took_s)
            # Probes, and polls that found nothing new, would hide everything else.
            log = _log.debug if scope["path"] in _QUIET or status == 304 else _log.info
            took_ms = round(took_s * 1000, 1)
            log(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                took_ms=took_ms,
                **_find_subject(scope),
            )


def _read_template(scope: Scope) -> str:
    """The route's path with its parameters' names: few enough to be a label."""
    return getattr(scope.get("route"), "path", "unmatched")


def _find_subject(scope: Scope) -> dict[str, str]:
    """The experiment a request is about: of its path, or the one it has made."""
    found = scope.get("path_params", {}).get("experiment_id") or scope["state"].get("experiment_id")
    return {} if found is None else {"experiment_id": found}


class BodyLimit:
    """Refuses bodies above a size, announced or not, before they are in memory."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            if announced.isdecimal() and int(announced) > self._most_bytes:
                raise self._too_large()
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most_bytes:
                raise self._too_large()
            return message

        await self._app(scope, limited, send)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"the request's body may have {self._most_bytes} bytes at most")


class HeadAsGet:
    """Answers HEAD as GET, without the body; a stream would have no end, so it is left at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        done = False

        async def head(message: Message) -> None:
            nonlocal done
            if message["type"] == "http.response.start":
                scope["method"] = "HEAD"  # the server writes no body then, and says how long it would have been
                await send(message)
            elif not done:
                done = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def gone_once_answered() -> Message:
            return {"type": "http.disconnect"} if done else await receive()

        scope["method"] = "GET"
        await self._app(scope, gone_once_answered, head)
