"""Types as documents see them."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from app.spec.annotations import list_members, strip_annotated, strip_optional, takes_none

POSITIVE = Annotated[int, Field(gt=0)]


@pytest.mark.parametrize(
    ("annotation", "members", "optional"),
    [
        (int, (int,), False),
        (int | None, (int,), True),
        (POSITIVE, (POSITIVE,), False),
        (Annotated[POSITIVE | None, Field()], (POSITIVE,), True),
        (int | (str | None), (int, str), True),
        (tuple[str, ...] | str, (tuple[str, ...], str), False),
        (None, (), True),
    ],
)
def test_a_type_lists_what_it_may_be_beside_none(annotation: Any, members: tuple[Any, ...], optional: bool) -> None:
    annotation = type(None) if annotation is None else annotation
    assert list_members(annotation) == members
    assert takes_none(annotation) is optional


def test_only_a_single_type_loses_its_wrapping() -> None:
    assert strip_annotated(Annotated[POSITIVE, "more"]) is int
    assert strip_optional(Annotated[POSITIVE | None, Field()]) is int
    assert strip_optional(int | str | None) == int | str | None
