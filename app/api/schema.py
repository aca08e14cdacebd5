"""The API's description."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.errors import DatabaseUnavailable, Forbidden, FromElsewhere, TooManyRequests, Unauthorized, UnknownHost
from app.http.admission import SESSION_COOKIE
from app.http.problems import Problem, list_responses
from app.http.rules import find_rule
from app.spec.experiment import Experiment

DESCRIPTION = """\
Does the way you drive vLLM change how fast your rollouts are, by how much, and how sure can you be?

Times are RFC 3339 in UTC; the unit of a duration is in its key. Errors are problem details (RFC 9457). Lists are
`{items, next_cursor}`. GET answers carry an ETag and become 304 for who sends it back as If-None-Match.

Once there is a token (`rollout-lab tokens create NAME`), every request that does not say otherwise needs one, as
`Authorization: Bearer …`. Scopes: `read` < `submit` < `admin`.
"""
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of `rollout-lab tokens create`. None is needed while there is none and the service listens "
    "on loopback only.",
}
_SESSION = {
    "type": "apiKey",
    "in": "cookie",
    "name": SESSION_COOKIE,
    "description": "What a browser gets when it logs in with a token at `/login`.",
}
_EVERYWHERE = (UnknownHost, TooManyRequests)

TAGS = [
    {"name": "experiments", "description": "Submit, follow, read."},
    {"name": "catalogue", "description": "What a spec can name."},
    {"name": "service", "description": "Workers, health, metrics."},
    {"name": "problems", "description": "What errors mean."},
]
_REF = "#/components/schemas/{model}"


class DescribedApp(FastAPI):
    """An application that describes what its routes read and answer beside their models, too."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = _describe(self)
        return self.openapi_schema


def _describe(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=DESCRIPTION,
        routes=app.routes,
        tags=TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    schemas: dict[str, Any] = document["components"]["schemas"]
    for model in (Experiment, Problem):
        schema = model.model_json_schema(ref_template=_REF)
        schemas |= schema.pop("$defs", {}) | {model.__name__: schema}
    _leave_out_fastapis_own_errors(document)
    _say_what_it_takes(document)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _say_what_it_takes(document: dict[str, Any]) -> None:
    """The scope of every operation, and the answers it gives to whoever is kept out."""
    document["components"]["securitySchemes"] = {"token": _TOKEN, "session": _SESSION}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = find_rule(method.upper(), path)
            kinds = [*_EVERYWHERE]
            if method != "get":
                kinds.append(FromElsewhere)
            if needed is not None:
                kinds += [Unauthorized, Forbidden]
                operation["description"] += f"\n\nScope: `{needed}`."
            operation["security"] = [] if needed is None else [{"token": [needed]}, {"session": [needed]}]
            refusals = {str(status): answer for status, answer in list_responses(*kinds).items()}
            if needed is None:
                del refusals[str(DatabaseUnavailable.status)]  # nobody is looked up
            operation["responses"] = dict(sorted((refusals | operation["responses"]).items()))


def _leave_out_fastapis_own_errors(document: dict[str, Any]) -> None:
    """It adds them to every route with a parameter; a route that can answer 422 says so itself, as a problem."""
    for methods in document["paths"].values():
        for operation in methods.values():
            if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
