"""The command that makes the same experiment again."""

import json
from typing import Any

from starlette.requests import Request

from app.http.basics import make_link
from app.service.access import Caller
from app.store.actors import ANONYMOUS

_END = "SPEC"


def write_curl(request: Request, submitted: dict[str, Any]) -> str:
    """A curl command with the spec as it was submitted; it can be pasted into a shell as it is."""
    base = f"{request.url.scheme}://{request.url.netloc}{make_link(request, '/v1/experiments')}"
    spec = write_spec(submitted)
    end = _END
    while end in spec.splitlines():
        end += "_"
    caller: Caller = request.state.caller
    token = "" if caller.name == ANONYMOUS else '-H "Authorization: Bearer $ROLLOUT_LAB_TOKEN" '
    return f"curl {token}--json @- '{base}' <<'{end}'\n{spec}\n{end}"


def write_spec(submitted: dict[str, Any]) -> str:
    """The spec as JSON, short lists on one line."""
    return json.dumps(submitted, indent=2, ensure_ascii=False)
