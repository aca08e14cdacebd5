"""The API's description as a page: no script, nothing from elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.pages.shell import PageRouter, render_page

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
    groups = {tag["name"]: (tag["description"], list_operations(document, tag["name"])) for tag in document["tags"]}
    schemas = {name: (schema, list_fields(schema)) for name, schema in document["components"]["schemas"].items()}
    return render_page(request, "docs.html", info=document["info"], groups=groups, schemas=schemas)


def list_operations(document: Mapping[str, Any], tag: str) -> list[Operation]:
    """Calls that carry a tag, in the description's order."""
    return [
        Operation(
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            description=operation["description"],
            parameters=tuple(
                Value(
                    name=one["name"],
                    place=one["in"],
                    required=one.get("required", False),
                    kind=tuple(_name_kind(one["schema"])),
                    description=one.get("description") or one["schema"].get("description", ""),
                )
                for one in operation.get("parameters", ())
            ),
            body=_list_contents(operation.get("requestBody", {})),
            answers=tuple(
                Answer(status, answer["description"], _list_contents(answer))
                for status, answer in operation["responses"].items()
            ),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]


def list_fields(schema: Mapping[str, Any]) -> list[Value]:
    """Fields of a schema, in its order."""
    needed = schema.get("required", ())
    return [
        Value(name, "", name in needed, tuple(_name_kind(field)), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]


def _list_contents(holder: Mapping[str, Any]) -> tuple[tuple[str, tuple[NamePart, ...]], ...]:
    return tuple((media, tuple(_name_kind(one.get("schema", {})))) for media, one in holder.get("content", {}).items())


def _name_kind(schema: Mapping[str, Any]) -> Iterator[NamePart]:
    """What a schema takes, in words."""
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        yield NamePart(name, name)
    elif choices:
        for number, choice in enumerate(choices):
            if number:
                yield NamePart(" or ")
            yield from _name_kind(choice)
    elif "const" in schema or "enum" in schema:
        yield NamePart(" or ".join(repr(one) for one in schema.get("enum", [schema.get("const")])))
    elif schema.get("type") == "array":
        yield NamePart("list of ")
        yield from _name_kind(schema.get("items", {}))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield NamePart("object of ")
        yield from _name_kind(schema["additionalProperties"])
    else:
        yield NamePart(str(schema.get("format") or schema.get("type") or "anything"))
