"""Specs that are wrong somewhere, made from the JSON schema outward."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from app.spec.experiment import Experiment

Schema = dict[str, Any]
SCHEMA: Schema = Experiment.model_json_schema()

_WRONG: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2, 6.0, 0.5, 1e3, 1e308, -1e308, 5e-324, float("nan"), float("inf")),
    *(
        2**31,
        2**32,
        2**53,
        2**63,
        10**30,
        -(10**30),
        "",
        "6",
        "true",
        "yes",
        "null",
        "\x00",
        "\ud800",
        "\u202e",
        "a\nb",
    ),
    *("x" * 61, "x" * 5_000, "${HF_TOKEN}", "../../etc/passwd", "file:///etc/passwd", "s3://b/k?endpoint_override=x"),
    *("=cmd|' /C calc'!A0", "<script>alert(1)</script>", "{{7*7}}", "%s%n", "~0~1/", [], {}, [[]], [{}], {"": {}}),
    *([None], [True], ["6"], {"x" * 5_000: 1}, {"api": None}, {"__class__": "x"}, [0] * 500, {"a": {"b": {"c": {}}}}),
)


def resolved(schema: Schema) -> Schema:
    """The schema behind a reference."""
    while "$ref" in schema:
        schema = {
            **SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]],
            **{k: v for k, v in schema.items() if k != "$ref"},
        }
    return schema


def sound(schema: Schema, rng: random.Random, depth: int = 0) -> Any:
    """A value that a schema allows, as far as it is told by the schema alone."""
    schema = resolved(schema)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return sound(rng.choice(schema[several]), rng, depth)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or rng.choice(schema.get("enum", [False]))
    if schema.get("examples") and rng.random() < 0.9:
        return copy.deepcopy(rng.choice(schema["examples"]))
    if schema.get("type") == "object":
        return _object(schema, rng, depth)
    if schema.get("type") == "array":
        most = min(schema.get("maxItems", 3), 3)
        return [sound(schema["items"], rng, depth + 1) for _ in range(rng.randint(schema.get("minItems", 0), most))]
    return _plain(schema, rng)


def _plain(schema: Schema, rng: random.Random) -> Any:
    match schema.get("type"):
        case "integer":
            return rng.choice((schema.get("minimum", 0), schema.get("maximum", 7)))
        case "number":
            low = schema["minimum"] if "minimum" in schema else schema["exclusiveMinimum"]
            return low + 0.25
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return "x" * max(1, schema.get("minLength", 1))
        case _:
            return None


def _object(schema: Schema, rng: random.Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    kept = 0.9 if depth == 0 else 0.4
    found = {
        key: sound(below, rng, depth + 1)
        for key, below in schema.get("properties", {}).items()
        if key in required or rng.random() < kept / (depth + 1)
    }
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], dict) and rng.random() < 0.5:
        found["x"] = sound(schema["additionalProperties"], rng, depth + 1)
    return found


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    found: list[tuple[Any, Any]] = []
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    for key in keys:
        found.append((value, key))
        found += places(value[key])
    return found


def _replace(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = copy.deepcopy(rng.choice(_WRONG))


def _remove(container: Any, key: Any, rng: random.Random) -> None:
    del rng
    del container[key]


def _rename(container: Any, key: Any, rng: random.Random) -> None:
    value = container.pop(key)
    if isinstance(container, dict):
        container[rng.choice((f"{key}x", "", "x" * 3_000, "\ud800", "a/b~c", key))] = value


def _repeat(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = [container[key]] * rng.choice((1, 2, 70))


def _enlarge(container: Any, key: Any, rng: random.Random) -> None:
    if type(container[key]) in (int, float):
        container[key] *= rng.choice((-1, 10, 1_000, 1_000_000))
    else:
        container[key] = {"x": container[key]}


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _replace,
    _replace,
    _remove,
    _rename,
    _repeat,
    _enlarge,
)


def malformed(count: int, seed: int = 0) -> Iterator[Any]:
    """Documents with one to three changes each; some stay right, as it happens."""
    rng = random.Random(seed)
    for _ in range(count):
        document = sound(SCHEMA, rng)
        for _ in range(rng.randint(1, 3)):
            around = places(document)
            if around:
                rng.choice(_CHANGES)(*rng.choice(around), rng)
        yield document
