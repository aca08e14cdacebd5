"""What a model's field may hold, read off its annotation: for whoever follows a document along its types."""

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin


def strip_annotated(annotation: Any) -> Any:
    """The type without `Annotated`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def list_members(annotation: Any) -> tuple[Any, ...]:
    """The types a value may be of, each as the union names it (with its tag, if it has one); None is left out."""
    kind = strip_annotated(annotation)
    if get_origin(kind) not in (Union, UnionType):
        return () if kind is NoneType else (annotation,)
    return tuple(member for alternative in get_args(kind) for member in list_members(alternative))


def takes_none(annotation: Any) -> bool:
    """Whether the value may be null."""
    kind = strip_annotated(annotation)
    if get_origin(kind) in (Union, UnionType):
        return any(takes_none(member) for member in get_args(kind))
    return kind is NoneType


def strip_optional(annotation: Any) -> Any:
    """The type without `Annotated` and without None; a union of several stays one."""
    members = list_members(annotation)
    return strip_annotated(members[0] if len(members) == 1 else annotation)
