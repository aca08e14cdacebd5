"""No trial is held up for what was loaded before it."""

import gc
from collections.abc import Iterator

import pytest

from workers.heap import freeze_heap


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """The process of the tests goes on as before."""
    yield
    gc.unfreeze()


def test_what_is_loaded_is_no_longer_walked() -> None:
    loaded: list[list[int]] = [[] for _ in range(1000)]
    freeze_heap()
    walked = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in walked for one in loaded)
    assert any(one is loaded[0] for one in loaded)


def test_what_comes_later_is_collected_as_ever() -> None:
    freeze_heap()
    circle: list[object] = []
    circle.append(circle)
    del circle
    assert gc.collect() > 0
