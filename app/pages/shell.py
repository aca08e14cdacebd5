"""What every page stands in: templates, headers, errors as pages."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app import format
from app.errors import DatabaseUnavailable, RolloutLabError, Unauthorized
from app.http.basics import make_link
from app.http.problems import make_headers
from app.pages import words
from app.pages.assets import make_asset_path
from app.version import VERSION

STOP_POLLING = 286  # htmx takes it for "and do not ask again"
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_SERVER_ERROR = 500

templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters |= {
    "ago": format.ago,
    "capitalized": words.capitalize,
    "chance": format.chance,
    "coded": words.mark_code,
    "direction": words.find_direction,
    "fact_name": words.name_fact,
    "formula": words.find_formula,
    "interval": words.write_interval,
    "isolate": words.isolate,
    "listing": format.listing,
    "metric_name": words.name_metric,
    "metric_unit": words.find_unit,
    "number": format.number,
    "plural": format.plural,
    "seconds": format.seconds,
    "share": words.write_share,
    "shortened": words.shorten,
    "signed": words.write_change,
    "utc": format.utc,
}

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose errors are pages, and whose answers carry the security headers."""

    def get_route_handler(self) -> _Handler:
        """Wrap FastAPI's own handler."""
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                response = await handler(request)
            except Unauthorized as error:
                response = lead_to_login(request, error)
            except RolloutLabError as error:
                if error.status >= _SERVER_ERROR and not isinstance(error, DatabaseUnavailable):
                    raise
                response = render_error(request, error.status, error.title, error.detail)
                response.headers.update(make_headers(error))
            except RequestValidationError as error:
                said = "; ".join(f"{found['loc'][-1]}: {found['msg']}" for found in error.errors())
                response = render_error(request, 422, "Invalid input", said)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return guarded


class PageRouter(APIRouter):
    """Routes of pages: no part of the API's description."""

    def __init__(self) -> None:
        super().__init__(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)


def wants_fragment(request: Request) -> bool:
    """Whether htmx asks for a part of a page that is there already."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def render_page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A whole page."""
    return HTMLResponse(_render(request, template, context), status, {"Cache-Control": "no-cache"})


def render_fragment(
    request: Request, template: str, *, title: str, back: str = "/experiments", final: bool = True, **context: Any
) -> Response:
    """A part of a page for htmx; the same as a page of its own for everybody else.

    `final`: it will not change again, so whoever polls may stop.
    """
    headers = {"Cache-Control": "no-cache", "Vary": "HX-Request"}
    body = _render(request, template, context)
    if wants_fragment(request):
        return HTMLResponse(body, STOP_POLLING if final else 200, headers)
    alone = {"title": title, "back": back, "body": templates.filters["safe"](body)}
    return HTMLResponse(_render(request, "alone.html", alone), 200, headers)


def keep_unchanged() -> Response:
    """Nothing to swap in."""
    return Response(status_code=204, headers={"Cache-Control": "no-cache", "Vary": "HX-Request"})


def render_error(request: Request, status: int, title: str, detail: str) -> Response:
    """What went wrong, in the frame of all pages; htmx shows it in place of what it asked for."""
    template = "error_part.html" if wants_fragment(request) else "error.html"
    target = request.headers.get("hx-target", "")  # it keeps its place, so that what is right comes in there again
    return render_page(request, template, status, title=title, detail=detail, code=status, target=target)


def lead_to_login(request: Request, error: Unauthorized) -> Response:
    """Where a browser gets in; whoever has sent a token is told what is wrong with it."""
    if "authorization" in request.headers:
        response = render_error(request, error.status, error.title, error.detail)
        response.headers.update(make_headers(error))
        return response
    if wants_fragment(request):
        there = urlsplit(request.headers.get("hx-current-url", ""))
        return Response(status_code=401, headers={"HX-Redirect": _make_login_link(request, there.path, there.query)})
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        # A link elsewhere led here, and the browser keeps a strict cookie to itself: a page of ours asks again.
        return render_page(request, "again.html")
    return RedirectResponse(_make_login_link(request, request.scope["path"], request.url.query), 303)


def _make_login_link(request: Request, path: str, query: str) -> str:
    then = path.removeprefix(request.scope.get("root_path", "").rstrip("/")) + (f"?{query}" if query else "")
    return f"{make_link(request, '/login')}?{urlencode({'then': then})}"


def _render(request: Request, template: str, context: Mapping[str, Any]) -> str:
    return templates.get_template(template).render(
        **context,
        href=partial(make_link, request),
        static=lambda name: make_link(request, make_asset_path(name)),
        path=request.url.path,
        version=VERSION,
        caller=getattr(request.state, "caller", None),
    )
