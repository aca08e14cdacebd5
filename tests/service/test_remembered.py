"""Answers that many ask for at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.service.remembered import Remembered


def test_an_answer_is_made_once_for_all_who_ask_for_it() -> None:
    made: list[int] = []

    def make() -> bytes:
        time.sleep(0.05)
        made.append(1)
        return b"answer"

    remembered = Remembered()
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: remembered.get("tag", make), range(20)))
    assert found == [b"answer"] * 20
    assert made == [1]


def test_another_version_is_another_answer_and_old_ones_are_forgotten() -> None:
    remembered = Remembered(most=2)
    for tag in ("a", "b", "c"):
        assert remembered.get(tag, tag.encode) == tag.encode()
    assert remembered.get("c", lambda: b"anew") == b"c"
    assert remembered.get("a", lambda: b"anew") == b"anew"


def test_an_error_is_not_remembered() -> None:
    def fail() -> bytes:
        raise OSError("away")

    remembered = Remembered()
    with pytest.raises(OSError, match="away"):
        remembered.get("tag", fail)
    assert remembered.get("tag", lambda: b"back") == b"back"
