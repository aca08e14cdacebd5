"""An experiment as one file: everything in it, nothing from elsewhere, no script."""

import base64
import hashlib

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Db
from app.pages.assets import read_asset
from app.pages.choice import Choice
from app.pages.experiment_page import Id, Later, list_everything, list_later
from app.pages.shell import PageRouter, render_page
from app.pages.subject import load

router = PageRouter()


@router.get("/experiments/{experiment_id}/report.html")
def get_report(request: Request, db: Db, experiment_id: Id) -> Response:
    """The report, as a download."""
    subject = load(db, experiment_id)
    choice = Choice().fit(subject)
    style = read_asset("lab.css").body.decode()
    policy = f"default-src 'none'; style-src '{hash_style(style)}'; base-uri 'none'; form-action 'none'"
    response = render_page(
        request,
        "report.html",
        **list_everything(request, db, subject, choice),
        later={part.value: list_later(db, subject, choice, part) for part in Later},
        style=Markup(style),  # noqa: S704 - our own style sheet
        policy=policy,
    )
    response.headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
    response.headers["Content-Disposition"] = f'attachment; filename="rollout-lab-{subject.item.id}.html"'
    return response


def hash_style(style: str) -> str:
    """By which a policy lets this style sheet in and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}"
