"""From plain values to an Experiment, or to every problem: where it is in the user's document, and what to do."""

import difflib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import Tag, ValidationError
from pydantic_core import ErrorDetails

from app.errors import FieldError, InvalidInput
from app.format import quoted
from app.spec.annotations import list_members, strip_annotated, strip_optional
from app.spec.document import MAX_DEPTH, escape
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.values import LONGEST_WORD

MOST_ERRORS = 50
_BIGGEST = 2**63


def parse_experiment(raw: object) -> Experiment:
    """Validate a submitted document; raise InvalidInput with one error per problem."""
    errors = list(_find_impossible(raw))
    if errors:
        raise _refuse(errors)
    try:
        return Experiment.model_validate(_make_whole(raw))
    except ValidationError as error:
        raise _refuse(_build_errors(error)) from None


def _make_whole(raw: object) -> object:
    """The document with 1e3 and 6.0 as whole numbers, which JSON does not tell from 1000 and 6."""
    match raw:
        case dict():
            return {key: _make_whole(value) for key, value in raw.items()}
        case list():
            return [_make_whole(value) for value in raw]
        case float() if raw.is_integer() and abs(raw) < 2**53:
            return int(raw)
        case _:
            return raw


def _refuse(errors: list[FieldError]) -> InvalidInput:
    if len(errors) > MOST_ERRORS:
        errors = [*errors[:MOST_ERRORS], FieldError("", f"has more problems than these {MOST_ERRORS}")]
    return InvalidInput.of(tuple(errors))


# --- values no document may hold -----------------------------------------------------------------------------------


def _find_impossible(raw: object) -> Iterator[FieldError]:
    """Values that JSON, the database or a terminal cannot hold, wherever they are."""
    waiting: list[tuple[str, object, int]] = [("", raw, 0)]
    while waiting:
        pointer, value, depth = waiting.pop()
        problem = _find_problem(value, depth)
        if problem is not None:
            yield FieldError(pointer, problem)
        elif isinstance(value, dict):
            for key, below in value.items():
                key_problem = _find_problem(key, 0) if isinstance(key, str) else f"key {key!r:.40} must be text"
                if key_problem is not None:
                    yield FieldError(pointer, f"a key: {key_problem}" if isinstance(key, str) else key_problem)
                else:
                    waiting.append((_step_below(pointer, key), below, depth + 1))
        elif isinstance(value, list):
            waiting += ((f"{pointer}/{index}", item, depth + 1) for index, item in enumerate(value))


def _find_problem(value: object, depth: int) -> str | None:
    if depth > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH} levels"
    match value:
        case None | bool() | dict() | list():
            return None
        case str():
            if "\x00" in value:
                return "contains a NUL character"
            return None if value.isascii() or _is_encodable(value) else "contains half a surrogate pair"
        case int():
            return None if -_BIGGEST <= value < _BIGGEST else "is too large a number"
        case float():
            return None if math.isfinite(value) else "must be a finite number"
        case _:
            return f"a {type(value).__name__} is no JSON value"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _step_below(pointer: str, step: str) -> str:
    """One step further into the document; a key longer than any there is, is not repeated: its object will do."""
    return f"{pointer}/{escape(step)}" if len(step) <= 2 * LONGEST_WORD else pointer


# --- where a problem is --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the document an error is, and what else could stand there."""

    pointer: str = ""
    siblings: tuple[str, ...] = ()  # fields of the object around it
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # what that object says of names it does not have
    either: tuple[str, ...] = ()  # keys of which that object needs one
    in_union: bool = False  # whether the value may also be of another type
    members: tuple[str, ...] = ()  # of the union the value is of: what its tag may say, and what goes with it


def _follow(loc: tuple[int | str, ...]) -> _Place:
    """Follow pydantic's location along the types: it also names the members of unions, which no document does."""
    place, either = _Place(), tuple[str, ...]()
    annotation: Any = Experiment
    for step in map(str, loc):
        annotation = strip_optional(annotation)
        models = _list_models(annotation)
        if len(models) > 1:
            annotation, either = models[step], _list_keys(annotation)
            place = _Place(place.pointer)
            continue
        if get_origin(annotation) in (Union, UnionType) and not models:
            annotation = _find_member(annotation, step)
            place = _Place(place.pointer, in_union=True)
            continue
        if step == "[key]":
            continue
        elsewhere = next(iter(models.values()), SpecModel).elsewhere
        siblings, annotation = _look_inside(annotation, step)
        place = _Place(_step_below(place.pointer, step), siblings, elsewhere, either)
        either = ()
    models = _list_models(annotation)
    return replace(place, members=tuple(starmap(_describe_member, models.items()))) if len(models) > 1 else place


def _describe_member(tag: str, model: type[SpecModel]) -> str:
    fields = model.model_fields.items()
    needed = [name for name, field in fields if field.is_required() and get_origin(field.annotation) is not Literal]
    return f"{tag!r} (with {', '.join(needed)})" if needed else repr(tag)


def _look_inside(annotation: Any, step: str) -> tuple[tuple[str, ...], Any]:
    """Names of the fields of an object, and the type of one of them; or the type of a container's items."""
    for model in _list_models(annotation).values():
        field = model.model_fields.get(step)
        return tuple(model.model_fields), field.annotation if field else None
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return (), arguments[1]
    return (), arguments[0] if arguments else None


def _list_models(annotation: Any) -> dict[str, type[SpecModel]]:
    """The models a value may be, by the tag pydantic calls each of them in a union."""
    found: dict[str, type[SpecModel]] = {}
    for member in list_members(annotation):
        model = strip_annotated(member)
        if isinstance(model, type) and issubclass(model, SpecModel):
            found[_read_tag(member, model)] = model
    return found


def _read_tag(member: Any, model: type[SpecModel]) -> str:
    explicit = (mark.tag for mark in get_args(member)[1:] if isinstance(mark, Tag))
    kinds = (field.annotation for field in model.model_fields.values())
    literal = (str(get_args(kind)[0]) for kind in kinds if get_origin(kind) is Literal)
    return next(explicit, None) or next(literal, "")


def _list_keys(union: Any) -> tuple[str, ...]:
    """The keys that tell the members of a union apart, where there is no field that names them."""
    return tuple(mark.tag for member in list_members(union) for mark in get_args(member)[1:] if isinstance(mark, Tag))


def _find_member(union: Any, label: str) -> Any:
    wanted = tuple if label.startswith(("tuple", "constrained-tuple")) else str
    return next(
        (member for member in map(strip_annotated, list_members(union)) if (get_origin(member) or member) is wanted),
        None,
    )


# --- what to say about it ------------------------------------------------------------------------------------------


def _build_errors(error: ValidationError) -> list[FieldError]:
    found: dict[FieldError, None] = {}
    for details in error.errors(include_url=False)[: 4 * MOST_ERRORS]:
        place = _follow(details["loc"])
        if not _is_noise(details, place):
            found[FieldError(_find_pointer(details, place), _explain(details, place))] = None
    return list(found)


def _is_noise(error: ErrorDetails, place: _Place) -> bool:
    """Consequences of other errors: a list is "too short" once its items are wrong; a union fails for each member."""
    value = error["input"]
    if error["type"] == "too_short":
        return bool(len(value) >= error["ctx"]["min_length"])
    return place.in_union and (
        (error["type"] == "string_type" and isinstance(value, list))
        or (error["type"] == "tuple_type" and isinstance(value, str))
    )


def _find_pointer(error: ErrorDetails, place: _Place) -> str:
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{place.pointer}/{_unquote(error['ctx']['discriminator'])}"
    if error["type"] == "missing" and place.either:
        return place.pointer.rpartition("/")[0]
    return place.pointer


def _explain(error: ErrorDetails, place: _Place) -> str:
    context = error.get("ctx", {})
    value = error["input"]
    match error["type"]:
        case "missing":
            return f"needs {' or '.join(map(repr, place.either))}" if place.either else "is required"
        case "extra_forbidden":
            return _explain_unknown(str(error["loc"][-1]), place)
        case "literal_error" | "enum":
            expected = "false" if context["expected"] == "False" else context["expected"]
            return f"must be {expected}, not {_show(value)}{_suggest(value, expected)}"
        case "union_tag_invalid":
            tags = context["expected_tags"]
            return f"must be one of {tags}, not {_show(context['tag'])}{_suggest(context['tag'], tags)}"
        case "union_tag_not_found":
            return f"is required here: {', '.join(place.members[:-1])} or {place.members[-1]}"
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch" | "string_too_short" | "string_too_long":
            return _explain_text(error)
        case _:
            return _explain_type(error, place)


def _explain_unknown(name: str, place: _Place) -> str:
    if name in place.elsewhere:
        return f"{quoted(name)} is no setting here: {place.elsewhere[name]}"
    known = [*place.either, *(sibling for sibling in place.siblings if sibling not in place.either)]
    near = difflib.get_close_matches(name[:100], known, n=1)
    if near:
        return f"unknown field {_show(name)}; did you mean {near[0]!r}?"
    return f"unknown field {_show(name)}; " + (f"there are {', '.join(known)}" if known else "there are none")


def _suggest(value: object, choices: str) -> str:
    near = difflib.get_close_matches(str(value)[:100], choices.replace(" or ", ", ").replace("'", "").split(", "), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _explain_text(error: ErrorDetails) -> str:
    context = error["ctx"]
    subject = "a key here" if error["loc"][-1] == "[key]" else "text here"
    match error["type"]:
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"{subject} has at most {context['max_length']} characters, not {len(error['input'])}"
        case _:
            pattern = context["pattern"]
            if "x7f" in pattern:
                return "must be printable text on one line"
            return f"{subject} must match {pattern}, unlike {_show(error['input'])}"


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "model": "an object (keys and values)",
    "dict": "an object (keys and values)",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def _explain_type(error: ErrorDetails, place: _Place) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}, not {_show(value)}"
    if kind in ("too_short", "too_long"):
        few, bound = ("at least", "min_length") if kind == "too_short" else ("at most", "max_length")
        return f"must have {few} {context[bound]}, not {context['actual_length']}"
    if place.in_union and kind in ("string_type", "tuple_type"):
        return f"must be text or a list, not {_show(value)}"
    wanted = _TYPES.get(kind.partition("_")[0])
    if wanted is None:
        return error["msg"]
    hint = "; put it in quotes" if wanted == "text" and isinstance(value, int | float) else ""
    return f"must be {wanted}, not {_show(value)}{hint}"


def _show(value: object) -> str:
    """A value as the user wrote it, short."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return quoted(value)
        case _:
            return json.dumps(value)


def _unquote(text: str) -> str:
    return text.strip("'")
