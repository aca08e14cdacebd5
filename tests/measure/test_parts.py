"""Where a request's time goes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.measure.columns import Columns
from app.measure.parts import MOMENTS, TimePart, find_spans, split_time
from app.measure.records import RequestRecord
from tests.support.builders import a_record

SERVED = a_record(
    arrived_s=0.0,
    sent_s=1.0,
    received_s=3.0,
    prepared_s=6.0,
    queued_s=10.0,
    scheduled_s=15.0,
    first_token_s=21.0,
    last_token_s=28.0,
    left_s=36.0,
    delivered_s=45.0,
)
INNER = [moment for moment in MOMENTS if moment not in ("arrived_s", "sent_s", "delivered_s")]


def parts_of(*records: RequestRecord) -> dict[str, list[float]]:
    return {span.name: seconds.tolist() for span, seconds in split_time(Columns.of(records))}


def test_a_part_lies_between_each_two_moments() -> None:
    assert len(TimePart) == len(MOMENTS) - 1
    assert parts_of(SERVED) == {
        "client queue": [1.0],
        "transport out": [2.0],
        "preparation": [3.0],
        "hand-in": [4.0],
        "engine queue": [5.0],
        "prefill": [6.0],
        "decode": [7.0],
        "hand-over": [8.0],
        "transport back": [9.0],
    }


def test_parts_around_a_moment_that_is_not_known_are_one_which_says_so() -> None:
    direct = replace(SERVED, received_s=None, prepared_s=None, left_s=None)
    assert parts_of(direct) == {
        "client queue": [1.0],
        "transport out + preparation + hand-in": [9.0],
        "engine queue": [5.0],
        "prefill": [6.0],
        "decode": [7.0],
        "hand-over + transport back": [17.0],
    }
    reasons = {span.name: span.reason for span in find_spans(["received_s", "prepared_s", "left_s"]) if span.unknown}
    assert reasons == {
        "transport out + preparation + hand-in": "nothing tells when a request was received and prepared",
        "hand-over + transport back": "nothing tells when a request was left",
    }


def test_a_moment_that_one_sample_lacks_is_unknown_for_all() -> None:
    found = parts_of(SERVED, replace(SERVED, left_s=None))
    assert found["hand-over + transport back"] == [17.0, 17.0]
    assert "hand-over" not in found


def test_a_part_that_ends_before_it_begins_is_not_hidden() -> None:
    early = replace(SERVED, received_s=0.5)
    assert parts_of(early)["transport out"] == [-0.5]


@given(
    st.lists(st.floats(0, 1e5), min_size=len(MOMENTS), max_size=len(MOMENTS)),
    st.sets(st.sampled_from(INNER)),
)
def test_parts_add_up_whatever_is_unknown(times: list[float], unknown: set[str]) -> None:
    moments: dict[str, Any] = dict(zip(MOMENTS, sorted(times), strict=True))
    record = replace(SERVED, **(moments | dict.fromkeys(unknown)))
    found = split_time(Columns.of([record]))
    assert sum(float(seconds[0]) for _, seconds in found) == pytest.approx(
        record.delivered_s - record.arrived_s, abs=1e-6
    )
    assert all(seconds[0] >= 0 for _, seconds in found)
    assert [part for span, _ in found for part in span.parts] == list(TimePart)
    assert sorted(moment for span, _ in found for moment in span.unknown) == sorted(unknown)
