"""How a browser gets in with a token, and out again."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.http.admission import SESSION_COOKIE, read_credentials
from app.http.basics import Db, make_link
from app.pages.forms import Form
from app.pages.shell import PageRouter, render_page
from app.service.access import Credentials, Gate
from app.store import tokens

router = PageRouter()
_HOME = "/experiments"


@router.get("/login")
def get_login(request: Request, then: str = _HOME) -> Response:
    """The form for a token."""
    return render_page(request, "login.html", then=then, trouble="")


@router.post("/login")
async def log_in(request: Request, db: Db, form: Form) -> Response:
    """Begin a session with a token, and go where the browser wanted to."""
    gate: Gate = request.app.state.gate
    then = form.get("then", _HOME)
    given = Credentials(form.get("token", "").strip(), None, read_credentials(request).source)
    caller = await gate.identify(given)
    if caller.scope is None:
        return render_page(request, "login.html", 401, then=then, trouble=caller.trouble)
    secret = await run_in_threadpool(tokens.log_in, db, caller.name, caller.actor)
    response = RedirectResponse(make_link(request, keep_here(then)), 303)
    response.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=int(tokens.SESSION_S),
        path=make_link(request, "/"),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/logout")
def log_out(request: Request, db: Db) -> Response:
    """End the session."""
    given = read_credentials(request)
    if given.session is not None:
        tokens.log_out(db, tokens.hash_secret(given.session), given.source)
        request.app.state.gate.forget()
    response = RedirectResponse(make_link(request, "/login"), 303)
    response.delete_cookie(SESSION_COOKIE, path=make_link(request, "/"))
    return response


def keep_here(place: str) -> str:
    """A place of this service: `//elsewhere` and `/\\elsewhere` would lead a browser to another."""
    return place if place.startswith("/") and not place.startswith(("//", "/\\")) else _HOME
