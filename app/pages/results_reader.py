"""Stored results, whatever version wrote them: what this version knows is shown, what it lacks is said.

A results document is kept for as long as its experiment, so a page may meet one with keys it has never heard of, or
without keys it would like.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from app.judge.results import Results
from app.spec.annotations import list_members, strip_annotated, strip_optional, takes_none

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Reading:
    """Results, and what could not be read of them."""

    results: Results
    notes: tuple[str, ...] = ()
    method: str = ""


@dataclass(slots=True)
class _Findings:
    unknown: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        for paths, said in (
            (self.unknown, "hold what this version does not know, and it is not shown"),
            (self.missing, "lack what this version expects"),
            (self.unreadable, "hold what this version cannot read, and it is left out"),
        ):
            found = sorted(set(paths))
            if found:
                more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
                yield f"These results {said}: {', '.join(found[:_MOST_NAMED])}{more}."


class _Unfit(Exception):
    """Nothing of the wanted type can be made of a value."""


def read_results(document: Mapping[str, Any], known: Mapping[str, Any]) -> Reading:
    """The results in a stored document; `known` is what is true of the experiment whatever the document says."""
    document = {**document, **known}
    method = name_method(document.get("method"))
    try:
        return Reading(Results.model_validate(document), method=method)
    except ValidationError:
        findings = _Findings()
        fitted = _fit_model(Results, document, "", findings)
        return Reading(Results.model_validate(fitted), tuple(findings.notes()), method)


def name_method(found: object) -> str:
    """By which method a document's results were computed."""
    if isinstance(found, dict) and "name" in found:
        return f"{found['name']} {found.get('version', '')}".strip()
    return "a method that is not named"


def _fit_model(model: type[BaseModel], value: object, path: str, findings: _Findings) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unfit
    findings.unknown += [_join(path, key) for key in value if key not in model.model_fields]
    fitted: dict[str, Any] = {}
    for key, info in model.model_fields.items():
        where = _join(path, key)
        if key not in value:
            if info.is_required():
                fitted[key] = _make_blank(info.annotation)
                findings.missing.append(where)
            continue
        try:
            fitted[key] = _fit(info.annotation, value[key], where, findings)
        except _Unfit:
            findings.unreadable.append(where)
            if info.is_required():
                fitted[key] = _make_blank(info.annotation)
    return fitted


def _fit(annotation: Any, value: object, path: str, findings: _Findings) -> Any:
    if value is None and takes_none(annotation):
        return None
    kind = strip_optional(annotation)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _fit_model(kind, value, path, findings)
    arguments = get_args(kind)
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is ...:
        return fit_items(arguments[0], value, path, findings)
    try:
        make_adapter(kind).validate_python(value)
    except ValidationError:
        raise _Unfit from None
    return value


@cache
def make_adapter(kind: Any) -> TypeAdapter[Any]:
    """The validator of a type, made once."""
    return TypeAdapter(kind)


def fit_items(annotation: Any, value: object, path: str, findings: _Findings) -> list[Any]:
    """Items that can be read; the others are named in the findings."""
    if not isinstance(value, list | tuple):
        raise _Unfit
    found: list[Any] = []
    for item in value:
        try:
            found.append(_fit(annotation, item, path, findings))
        except _Unfit:
            findings.unreadable.append(f"an item of {path}")
    return found


def _make_blank(annotation: Any) -> Any:
    """What stands for a value that is not there; there is none for a number, a verdict or a yes or no."""
    if takes_none(annotation):
        return None
    kind = strip_annotated(list_members(annotation)[0])
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {key: _make_blank(info.annotation) for key, info in kind.model_fields.items() if info.is_required()}
    if get_origin(kind) is tuple:
        return []
    if get_origin(kind) is dict:
        return {}
    if kind is str:
        return ""
    raise _Unfit


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)
