"""The API's description as a page: no script, nothing from elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.pages.shell import PageRouter, page

router = PageRouter()
_REF = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class NamePart:
    """A piece of a type's name; ``schema`` is the one it leads to."""

    text: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter or a field."""

    name: str
    place: str  # query, path, header; empty for a field
    required: bool
    kind: tuple[NamePart, ...]
    description: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back with a status."""

    status: str
    description: str
    kinds: tuple[tuple[str, tuple[NamePart, ...]], ...]  # media type and what it holds


@dataclass(frozen=True, slots=True)
class Operation:
    """A call."""

    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Value, ...]
    body: tuple[tuple[str, tuple[NamePart, ...]], ...]
    answers: tuple[Answer, ...]

    @property
    def anchor(self) -> str:
        """Where on the page it is."""
        return f"{self.method} {self.path}".lower().replace(" ", "").replace("/", "-").replace("{", "").replace("}", "")


@router.get("/docs")
def get_docs(request: Request) -> Response:
    """Every call, parameter, answer and field."""
    document: dict[str, Any] = request.app.openapi()
    groups = {tag["name"]: (tag["description"], _operations(document, tag["name"])) for tag in document["tags"]}
    schemas = {name: (schema, _fields(schema)) for name, schema in document["components"]["schemas"].items()}
    return page(request, "docs.html", info=document["info"], groups=groups, schemas=schemas)


def _operations(document: Mapping[str, Any], tag: str) -> list[Operation]:
    return [
        Operation(
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            description=operation["description"],
            parameters=tuple(_parameter(one) for one in operation.get("parameters", ())),
            body=_contents(operation.get("requestBody", {})),
            answers=tuple(
                Answer(status, answer["description"], _contents(answer))
                for status, answer in operation["responses"].items()
            ),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]


def _parameter(found: Mapping[str, Any]) -> Value:
    said = found.get("description") or found["schema"].get("description", "")
    return Value(found["name"], found["in"], found.get("required", False), tuple(_kind(found["schema"])), said)


def _fields(schema: Mapping[str, Any]) -> list[Value]:
    needed = schema.get("required", ())
    return [
        Value(name, "", name in needed, tuple(_kind(field)), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]


def _contents(holder: Mapping[str, Any]) -> tuple[tuple[str, tuple[NamePart, ...]], ...]:
    return tuple((media, tuple(_kind(one.get("schema", {})))) for media, one in holder.get("content", {}).items())


def _kind(schema: Mapping[str, Any]) -> Iterator[NamePart]:
    """What a schema takes, in words."""
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        yield NamePart(name, name)
    elif choices:
        for number, choice in enumerate(choices):
            if number:
                yield NamePart(" or ")
            yield from _kind(choice)
    elif "const" in schema or "enum" in schema:
        yield NamePart(" or ".join(repr(one) for one in schema.get("enum", [schema.get("const")])))
    elif schema.get("type") == "array":
        yield NamePart("list of ")
        yield from _kind(schema.get("items", {}))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield NamePart("object of ")
        yield from _kind(schema["additionalProperties"])
    else:
        yield NamePart(str(schema.get("format") or schema.get("type") or "anything"))
