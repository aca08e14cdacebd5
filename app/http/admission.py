"""What every request passes before its route does anything: whom it is addressed to, who sends it, what they may do."""

import socket
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import Request

from app.errors import DatabaseUnavailable, FromElsewhere, UnknownHost, UnsupportedMediaType
from app.http.rules import find_rule
from app.service.access import Caller, Credentials, Gate
from app.service.allowance import Allowance
from app.settings import Settings, is_loopback
from app.store.tokens import Scope

JSON_TYPES = frozenset({"application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
SESSION_COOKIE = "rollout_lab_session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_RELAYED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_HERE = socket.gethostname().lower()


async def admit(request: Request) -> None:
    """Let the request in, or raise what keeps it out; whoever sends it is in its state afterwards."""
    settings: Settings = request.app.state.settings
    path: str = request.scope["route"].path
    _require_own_host(request, settings)
    if request.method not in _SAFE:
        _require_own_page(request)
        if path.startswith("/v1/"):
            _require_media_type(request)
    needed, given = find_rule(request.method, path), read_credentials(request)
    allowance: Allowance = request.app.state.allowance
    allowance.spend(f"address {given.source}")
    if needed is None:
        return
    gate: Gate = request.app.state.gate
    caller = await gate.identify(given)
    request.state.caller = caller
    if caller.client != f"address {given.source}":
        allowance.spend(caller.client)
    if caller.session is not None and request.method not in _SAFE and not _says_from_where(request):
        raise FromElsewhere("a browser says which page a request is from, and this one does not")
    caller.require(needed)


async def require_still_admitted(request: Request) -> None:
    """Raise what would keep the request out now: an answer may go on for hours, and its token be revoked meanwhile."""
    needed = find_rule(request.method, request.scope["route"].path)
    if needed is not None:
        gate: Gate = request.app.state.gate
        (await gate.identify(read_credentials(request))).require(needed)


async def _find_whether_may_read(request: Request) -> bool:
    gate: Gate = request.app.state.gate
    try:
        return (await gate.identify(read_credentials(request))).may(Scope.READ)
    except DatabaseUnavailable:
        return False


MayRead = Annotated[bool, Depends(_find_whether_may_read)]  # at a route that is open to all


async def _get_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Who = Annotated[Caller, Depends(_get_caller)]


def read_credentials(request: Request) -> Credentials:
    """What a request says of who sends it."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return Credentials(
        token=token.strip() if kind.lower() == "bearer" else None,
        session=request.cookies.get(SESSION_COOKIE),
        source=request.client.host if request.client else "unknown",
        relayed=_is_relayed(request),
    )


def _is_relayed(request: Request) -> bool:
    """Whether a reverse proxy is in between: it says so, or has left the name that it was asked under."""
    host = _read_host(f"//{request.headers.get('host', '')}")
    return host is None or not is_loopback(host) or any(name in request.headers for name in _RELAYED)


def read_media_type(request: Request) -> str:
    """The Content-Type without its parameters; empty if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _require_own_host(request: Request, settings: Settings) -> None:
    """A name that leads here today may have been made up by a page elsewhere, to be taken for this service's own."""
    named = request.headers.get("host", "")
    host = _read_host(f"//{named}")
    if host is None or not (_is_address(host) or is_loopback(host) or host in {_HERE, settings.host, *settings.names}):
        raise UnknownHost(f"{named!r} is not a name of this service; ROLLOUT_LAB_ALLOWED_HOSTS lists those that are")


def _read_host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    """Whether it is an IP address, which no page can have bent to lead here."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _says_from_where(request: Request) -> bool:
    return "sec-fetch-site" in request.headers or "origin" in request.headers


def _require_own_page(request: Request) -> None:
    """A page elsewhere can make a browser send a request here, but the browser says where that page is from."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        foreign = site not in {"same-origin", "none"}
    else:
        origin = request.headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host")
    if foreign:
        raise FromElsewhere("this request was not sent by a page of this service")


def _require_media_type(request: Request) -> None:
    """A form elsewhere can send some types without asking; whatever has no body needs none."""
    given = read_media_type(request)
    if given and given not in JSON_TYPES | YAML_TYPES:
        raise wrong_media_type(given)


def wrong_media_type(given: str) -> UnsupportedMediaType:
    """What is wrong with a Content-Type, and how to send another."""
    return UnsupportedMediaType(
        f"the Content-Type is {given or 'missing'}; a body is application/json or application/yaml; with curl --json "
        "@spec.json, or --data-binary @spec.yaml --header 'Content-Type: application/yaml'"
    )
