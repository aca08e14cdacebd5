"""How numbers and times read."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import format
from app.format import percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (8240.4, "8,240"),
        (51.234, "51.23"),
        (0.0123456, "0.01235"),
        (0.0, "0"),
        (-3.5, "−3.500"),
        (float("inf"), "inf"),
        (1_048_576, "1,048,576"),
        ("text", "text"),
    ],
)
def test_four_digits_matter(value: object, text: str) -> None:
    assert format.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.0, "± 0"), (0.7908, "± 0.79"), (284.2, "± 284")])
def test_two_digits_of_a_spread_matter(value: float | None, text: str) -> None:
    assert format.spread(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.41, "0.41"), (0.00042, "0.0004"), (1e-14, "< 0.0001"), (1.0, "1")]
)
def test_a_small_chance_is_small(value: float | None, text: str) -> None:
    assert format.chance(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (4.25, "4.2 s"), (31.5, "32 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_durations_read_as_people_say_them(value: float | None, text: str) -> None:
    assert format.seconds(value) == text


def test_times_are_relative_and_utc() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for gone, text in ((1, "just now"), (40, "40 s ago"), (600, "10 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")):
        assert format.ago(now - timedelta(seconds=gone), now) == text
    assert format.utc(now) == "2026-01-31 12:00:00 UTC"
    assert format.ago(None) == format.utc(None) == "–"


@pytest.mark.parametrize(
    ("number", "text"),
    [(12.34, "12.3 %"), (-0.4, "−0.4 %"), (0.04, "0.04 %"), (0.004, "0.004 %"), (0.0001, "0.0 %"), (-0.0001, "0.0 %")],
)
def test_percent_has_a_typographic_minus_and_enough_digits(number: float, text: str) -> None:
    assert percent(number) == text


def test_a_signed_percent_has_a_plus() -> None:
    assert percent(0.8, signed=True) == "+0.8 %"


@given(st.floats(-1000, 1000))
def test_percent_never_has_a_hyphen_for_a_minus(number: float) -> None:
    assert "-" not in percent(number)


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_text_that_a_spreadsheet_would_run_stays_text_and_numbers_stay_numbers(text: str) -> None:
    assert format.spreadsheet_cell(text) == f"'{text}"
    assert format.spreadsheet_cell(-1.5) == -1.5
    assert format.spreadsheet_cell("async = fast") == "async = fast"


def test_what_was_sent_is_quoted_short() -> None:
    assert format.quoted("x" * 60) == repr("x" * 60)
    assert format.quoted("x" * 5000) == repr("x" * 57) + "…"
    assert format.listing(["a", "b"]) == "a, b"
    assert format.listing(list("abcd"), most=2) == "a, b and 2 more"
