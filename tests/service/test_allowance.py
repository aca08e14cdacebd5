"""What one client may ask at a time."""

import pytest

from app.errors import TooManyRequests
from app.service import allowance
from app.service.allowance import Allowance


class Clock:
    """A clock that stands still unless it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock the buckets read."""
    found = Clock()
    monkeypatch.setattr(allowance, "time", found)
    return found


def spent(found: Allowance, client: str) -> int:
    """How many requests go through before one is refused."""
    for count in range(10_000):
        try:
            found.spend(client)
        except TooManyRequests:
            return count
    raise AssertionError("never refused")


def test_a_client_may_send_a_burst_and_then_its_rate(clock: Clock) -> None:
    found = Allowance(10.0, 1)
    assert spent(found, "a") == 20
    clock.now += 0.5
    assert spent(found, "a") == 5
    clock.now += 3600.0
    assert spent(found, "a") == 20, "no more is saved up than a burst"


def test_a_refusal_says_when_to_come_back(clock: Clock) -> None:
    found = Allowance(0.1, 1)
    found.spend("a")
    clock.now += 4.0
    with pytest.raises(TooManyRequests) as refused:
        found.spend("a")
    assert refused.value.retry_after_s == pytest.approx(6.0)


def test_one_client_takes_nothing_from_another(clock: Clock) -> None:
    del clock
    found = Allowance(10.0, 1)
    spent(found, "a")
    assert spent(found, "b") == 20


def test_clients_without_number_take_no_more_memory(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    del clock
    monkeypatch.setattr(allowance, "_MOST_CLIENTS", 3)
    found = Allowance(10.0, 1)
    for number in range(1000):
        found.spend(f"client {number}")
    assert len(vars(found)["_buckets"]) == 3


def test_streams_are_counted_while_they_are_open() -> None:
    found = Allowance(10.0, 2)
    with found.stream("a"), found.stream("a"):
        with pytest.raises(TooManyRequests):
            found.require_stream("a")
        found.require_stream("b")
    found.require_stream("a")
    assert not vars(found)["_streams"]
