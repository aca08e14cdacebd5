"""An experiment as one file: everything in it, nothing from elsewhere, no script."""

import base64
import hashlib

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app.http.basics import Db
from app.pages.assets import asset
from app.pages.choice import Choice
from app.pages.experiment import Id, Later, later_of, whole
from app.pages.shell import PageRouter, page
from app.pages.subject import load

router = PageRouter()


@router.get("/experiments/{experiment_id}/report.html")
def get_report(request: Request, db: Db, experiment_id: Id) -> Response:
    """The report, as a download."""
    subject = load(db, experiment_id)
    choice = Choice().fitting(subject)
    style = asset("lab.css").body.decode()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    response = page(
        request,
        "report.html",
        **whole(request, db, subject, choice),
        later={part.value: later_of(db, subject, choice, part) for part in Later},
        style=Markup(style),  # noqa: S704 - our own style sheet
        policy=policy,
    )
    response.headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
    response.headers["Content-Disposition"] = f'attachment; filename="rollout-lab-{subject.item.id}.html"'
    return response


def _hash(style: str) -> str:
    """By which a policy lets this style sheet in and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}"
