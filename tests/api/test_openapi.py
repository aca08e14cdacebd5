"""The API's description."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.api import events, health, models, profiles, requests, selection, timeline, views, workers
from app.http import problems
from app.openapi import TARGET, description
from app.service import cost


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The description as the application gives it."""
    found: dict[str, Any] = json.loads(description())
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def properties(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            yield f"{name}.{field}", described


def test_the_committed_description_is_the_applications() -> None:
    """`python -m app.openapi` writes it."""
    assert TARGET.read_text() == description()


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation.get("summary"), name
        assert operation.get("description"), name
        assert operation.get("tags"), name


def test_every_parameter_and_field_is_described(document: dict[str, Any]) -> None:
    unsaid = [
        f"{name} {parameter['name']}"
        for name, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if not (parameter.get("description") or parameter["schema"].get("description"))
    ]
    schemas = document["components"]["schemas"]
    for name, field in properties(document):
        target = schemas.get(field.get("$ref", "").removeprefix("#/components/schemas/"), {})
        if not (field.get("description") or target.get("description") or "const" in field):
            unsaid.append(name)
    assert unsaid == []


def test_every_plain_field_of_an_answer_has_an_example() -> None:
    bare = [
        f"{model.__name__}.{name}"
        for module in (
            cost,
            events,
            health,
            models,
            problems,
            profiles,
            requests,
            selection,
            timeline,
            views,
            workers,
        )
        for model in vars(module).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
        for name, field in model.model_fields.items()
        if not field.examples and field.annotation in (str, int, float, bool) and field.is_required()
    ]
    assert bare == []


def test_errors_are_described_as_problems(document: dict[str, Any]) -> None:
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if status >= "400" and name != "GET /readyz":
                assert list(response["content"]) == ["application/problem+json"], (name, status)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in schemas


def test_a_spec_may_be_json_or_yaml(document: dict[str, Any]) -> None:
    content = document["paths"]["/v1/experiments"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "application/yaml"}
    experiment = document["components"]["schemas"]["Experiment"]
    assert experiment["required"] == ["model", "arms"]
    assert experiment["additionalProperties"] is False
