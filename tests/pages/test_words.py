"""How numbers, times and names read."""

from datetime import UTC, datetime, timedelta

import pytest

from app.measure.metrics import METRICS
from app.pages import words


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
    assert words.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.0, "± 0"), (0.7908, "± 0.79"), (284.2, "± 284")])
def test_two_digits_of_a_spread_matter(value: float | None, text: str) -> None:
    assert words.spread(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.41, "0.41"), (0.00042, "0.0004"), (1e-14, "< 0.0001"), (1.0, "1")]
)
def test_a_small_chance_is_small(value: float | None, text: str) -> None:
    assert words.chance(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (4.25, "4.2 s"), (31.5, "32 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_durations_read_as_people_say_them(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


def test_a_change_keeps_its_percent_sign() -> None:
    assert words.signed(-0.25) == "−0.2\u00a0%"
    assert words.interval((-1.0, 0.5)) == "−1.0\u00a0% to +0.5\u00a0%"
    assert words.interval(None) == words.signed(None) == words.share(None) == "–"


def test_times_are_relative_and_utc() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for gone, text in ((1, "just now"), (40, "40 s ago"), (600, "10 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")):
        assert words.ago(now - timedelta(seconds=gone), now) == text
    assert words.utc(now) == "2026-01-31 12:00:00 UTC"
    assert words.ago(None) == words.utc(None) == "–"


def test_every_metric_has_a_name_and_an_unknown_one_is_shown_as_it_is() -> None:
    assert all(words.metric_name(key) != key for key in METRICS)
    assert words.metric_name("ttft_ms.p99") == "Time to first token p99"
    assert words.metric_name("moon_phase.p50") == "moon phase p50"
    assert words.metric_unit("moon_phase") == words.formula("moon_phase") == ""
    assert words.direction("moon_phase") == "neutral"


def test_a_name_from_the_right_keeps_its_direction_to_itself() -> None:
    assert words.isolate("async") == "async"
    assert words.isolate("مزامنة") == "\u2068مزامنة\u2069"
    assert words.isolated_in("مزامنة is 2 % slower", ["sync", "مزامنة"]) == "\u2068مزامنة\u2069 is 2 % slower"
    assert words.isolate("a\u202eb") == "\u2068a\u202eb\u2069"


def test_facts_of_a_host_have_units() -> None:
    assert words.fact_name("gpu_memory_mib") == "GPU memory, MiB"
    assert words.fact_name("cpu_cores") == "CPU cores"


def test_names_in_a_description_are_code() -> None:
    assert words.coded("as `n` <b>") == "as <code>n</code> &lt;b&gt;"
