"""All pages as one router."""

from starlette.requests import Request
from starlette.responses import Response

from app.errors import NotFound
from app.pages import (
    description,
    experiment_list,
    experiment_page,
    login,
    machines,
    report,
    side_by_side,
    submission_form,
)
from app.pages.assets import FILES, read_asset
from app.pages.shell import PageRouter

_FOR_EVER = "public, max-age=31536000, immutable"  # an address carries the file's hash

router = PageRouter()


@router.get("/static/{name:path}")
def get_asset(request: Request, name: str) -> Response:
    """A file that pages load, to be kept as long as its address is in use."""
    if name not in FILES:
        raise NotFound(f"there is no file {name}")
    found = read_asset(name)
    current = request.query_params.get("v") == found.digest
    headers = {"Cache-Control": _FOR_EVER if current else "no-cache"}
    return Response(found.body, media_type=found.media_type, headers=headers)


for part in (experiment_list, report, experiment_page, submission_form, side_by_side, machines, login, description):
    router.include_router(part.router)
