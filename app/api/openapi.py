"""The API's description."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.problems import Problem
from app.spec.experiment import Experiment

DESCRIPTION = """\
Does the way you drive vLLM change how fast your rollouts are, by how much, and how sure can you be?

Times are RFC 3339 in UTC; the unit of a duration is in its key. Errors are problem details (RFC 9457). Lists are
`{items, next_cursor}`. GET answers carry an ETag and become 304 for who sends it back as If-None-Match.
"""

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
            self.openapi_schema = _described(self)
        return self.openapi_schema


def _described(app: FastAPI) -> dict[str, Any]:
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
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _leave_out_fastapis_own_errors(document: dict[str, Any]) -> None:
    """It adds them to every route with a parameter; a route that can answer 422 says so itself, as a problem."""
    for methods in document["paths"].values():
        for operation in methods.values():
            if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
