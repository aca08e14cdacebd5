"""A spec takes no value that its JSON schema does not."""

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from app.errors import InvalidInput
from app.spec.parsing import parse_experiment
from tests.support.malformed import SCHEMA, Schema, resolved

SPEC: dict[str, Any] = {"model": {"preset": "tiny-qwen2"}, "arms": [{"name": "a", "profile": "simulated"}]}
OTHER_KINDS: dict[str, tuple[object, ...]] = {
    "integer": ("6", "1", True, False, 1.5, [1], {}),
    "number": ("0.5", "1", True, False, [1], {}),
    "boolean": ("yes", "true", "on", 0, 1, 1.0, [], {}),
    "string": (1, True, 1.5, [], {}),
    "array": ("x", 1, True, {}),
    "object": ("x", 1, True, []),
}


def fields(schema: Schema, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Schema, dict[str, Any]]]:
    """Every field that can be put into SPEC, as its way there; of a union every member by itself."""
    schema = resolved(schema)
    for member in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from fields(member, path)
    for key, below in schema.get("properties", {}).items():
        beside = {one: example(schema["properties"][one]) for one in needed(schema) if one != key}
        yield (*path, key), resolved(below), beside
        yield from fields(below, (*path, key))
    if "items" in schema and "properties" in resolved(schema["items"]):
        yield from fields(schema["items"], (*path, 0))


def needed(schema: Schema) -> set[str]:
    """Fields an object cannot do without, and those that tell it from other members of a union."""
    return {*schema.get("required", ()), *(key for key, one in schema["properties"].items() if "const" in one)}


def example(schema: Schema) -> Any:
    schema = resolved(schema)
    return schema.get(
        "const", schema["examples"][0] if schema.get("examples") else [{"name": "a", "profile": "simulated"}]
    )


def put(path: tuple[Any, ...], value: object, beside: dict[str, Any] | None = None) -> dict[str, Any]:
    document = copy.deepcopy(SPEC)
    here: Any = document
    for step, below in pairwise(path):
        here = here[step] if isinstance(step, int) else here.setdefault(step, [{}] if below == 0 else {})
    if len(path) > 1 and beside is not None:
        here.clear()
        here.update(beside)
    here[path[-1]] = value
    return document


FIELDS = [
    (path, schema, beside)
    for path, schema, beside in fields(SCHEMA)
    if schema.get("type") in OTHER_KINDS or any(one.get("type") in OTHER_KINDS for one in schema.get("anyOf", ()))
]


def kinds(schema: Schema) -> set[str]:
    return {one["type"] for one in (schema, *map(resolved, schema.get("anyOf", ()))) if "type" in one}


def test_there_are_many_fields() -> None:
    assert len(FIELDS) > 80


@pytest.mark.parametrize(("path", "schema", "beside"), FIELDS, ids=["/".join(map(str, one[0])) for one in FIELDS])
def test_a_field_takes_no_other_kind_of_value(path: tuple[Any, ...], schema: Schema, beside: dict[str, Any]) -> None:
    allowed = kinds(schema)
    values = {repr(value): value for kind in allowed - {"null"} for value in OTHER_KINDS[kind]}
    if "null" not in allowed:
        values["None"] = None
    pointer = "/" + "/".join(map(str, path))
    for value in values.values():
        if type(value) in {"string": (str,), "array": (list,), "object": (dict,)}.get(next(iter(allowed)), ()):
            continue
        with pytest.raises(InvalidInput) as caught:
            parse_experiment(put(path, value, beside))
        assert any(error.pointer.startswith(pointer) for error in caught.value.errors), (value, caught.value.errors)


@pytest.mark.parametrize(
    ("pointer", "value", "kept"),
    [
        ("plan/blocks", 6.0, 6),
        ("plan/blocks", 1e1, 10),
        ("limits/timeout_s", 60, 60.0),
        ("engine/max_num_seqs", 2.56e2, 256),
        ("engine/max_num_seqs", None, None),
    ],
)
def test_a_number_may_be_written_as_json_and_yaml_do(pointer: str, value: object, kept: object) -> None:
    section, key = pointer.split("/")
    assert getattr(getattr(parse_experiment(put((section, key), value)), section), key) == kept


@pytest.mark.parametrize("key", ["api", "samples", "detokenize", "noise_pct", "failing_slots"])
def test_null_is_no_driver_setting(key: str) -> None:
    document = put(("arms", 0, "driver"), {key: None})
    with pytest.raises(InvalidInput) as caught:
        parse_experiment(document)
    assert caught.value.errors[0].pointer == f"/arms/0/driver/{key}"


def test_every_text_and_list_and_number_has_an_end() -> None:
    endless = [
        "/".join(map(str, path))
        for path, schema, _ in FIELDS
        for one in (schema, *map(resolved, schema.get("anyOf", ())))
        if (one.get("type") == "string" and not {"enum", "const", "maxLength"} & set(one))
        or (one.get("type") == "array" and "maxItems" not in one)
        or (
            one.get("type") in ("integer", "number") and not {"enum", "const", "maximum", "exclusiveMaximum"} & set(one)
        )
        or (
            one.get("type") == "object"
            and "properties" not in one
            and "maxProperties" not in one
            and one.get("title") != "Sweep"
        )
    ]
    assert sorted(set(endless)) == []
