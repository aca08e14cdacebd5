"""Records to Parquet and back."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.measure.records import EngineSample, RequestRecord
from app.store.parquet import (
    RECORD_SCHEMA,
    SAMPLE_SCHEMA,
    list_records,
    list_samples,
    read_parquet,
    tabulate_records,
    tabulate_samples,
    write_parquet,
)
from tests.support.builders import a_record, an_engine_sample

seconds = st.floats(0, 1e6)
counts = st.integers(0, 2**31 - 1)
text = st.text(st.characters(codec="utf-8"), max_size=8)

records = st.builds(
    RequestRecord,
    request_id=text,
    prompt_index=counts,
    sample_index=counts,
    replica=counts,
    turn=counts,
    prompt_tokens=counts,
    output_tokens=counts,
    cached_tokens=st.none() | counts,
    finish_reason=st.none() | text,
    output_sha256=text,
    arrived_s=seconds,
    sent_s=seconds,
    received_s=st.none() | seconds,
    prepared_s=st.none() | seconds,
    queued_s=st.none() | seconds,
    scheduled_s=st.none() | seconds,
    first_token_s=st.none() | seconds,
    last_token_s=st.none() | seconds,
    left_s=st.none() | seconds,
    delivered_s=seconds,
    agent_worker=st.none() | counts,
    preemptions=st.none() | counts,
    itl_ms=st.none() | st.lists(st.floats(0, 1e6, width=32), max_size=4).map(tuple),
)
samples = st.builds(
    EngineSample,
    at_s=seconds,
    running=counts,
    waiting=counts,
    kv_cache_usage_pct=st.floats(0, 100),
    prompt_tokens=counts,
    output_tokens=counts,
    preemptions=counts,
    drafts=st.none() | counts,
    draft_tokens=st.none() | counts,
    accepted_tokens=st.none() | counts,
)


@settings(deadline=None)
@given(st.lists(records, max_size=5))
def test_records_come_back_as_they_were(before: list[RequestRecord]) -> None:
    table = read_parquet(write_parquet(tabulate_records(before)), RECORD_SCHEMA)

    assert table.schema == RECORD_SCHEMA
    assert list_records(table) == tuple(before)


@settings(deadline=None)
@given(st.lists(samples, max_size=5))
def test_engine_samples_come_back_as_they_were(before: list[EngineSample]) -> None:
    table = read_parquet(write_parquet(tabulate_samples(before)), SAMPLE_SCHEMA)

    assert table.schema == SAMPLE_SCHEMA
    assert list_samples(table) == tuple(before)


def test_the_columns_are_the_fields() -> None:
    assert tuple(RECORD_SCHEMA.names) == RequestRecord.__slots__
    assert tuple(SAMPLE_SCHEMA.names) == EngineSample.__slots__


def test_what_an_earlier_version_did_not_write_is_unknown() -> None:
    before = a_record(left_s=0.5, agent_worker=3)
    columns = ["received_s", "prepared_s", "left_s", "agent_worker"]
    earlier = write_parquet(tabulate_records([before]).drop_columns(columns))
    timeline = write_parquet(tabulate_samples([an_engine_sample(0.5)]).drop_columns(["drafts", "accepted_tokens"]))

    assert list_records(read_parquet(earlier, RECORD_SCHEMA)) == (replace(before, left_s=None, agent_worker=None),)
    assert list_samples(read_parquet(timeline, SAMPLE_SCHEMA)) == (an_engine_sample(0.5),)


def test_unknown_and_zero_are_different() -> None:
    before = (a_record(queued_s=None, cached_tokens=0), a_record(queued_s=0.0, cached_tokens=None))

    assert list_records(tabulate_records(before)) == before


def test_gaps_are_kept_to_a_ten_millionth_of_their_length() -> None:
    gaps = (12.3456789, 0.0001234567)

    (after,) = list_records(tabulate_records([a_record(itl_ms=gaps)]))

    assert after.itl_ms is not None
    assert all(abs(kept - gap) <= gap * 1e-7 for kept, gap in zip(after.itl_ms, gaps, strict=True))


def test_a_record_takes_about_a_hundred_bytes() -> None:
    rng = random.Random(0)
    times: list[dict[str, Any]] = [
        {"start": rng.random(), "first": 1 + rng.random(), "last": 9 + rng.random()} for _ in range(5_000)
    ]
    before = [a_record(**each, prompt_index=number // 4, sample_index=number % 4) for number, each in enumerate(times)]

    assert len(write_parquet(tabulate_records(before))) / len(before) < 120


def test_a_long_timeline_is_small() -> None:
    before = [an_engine_sample(at=0.012 * step, output_tokens=64 * step) for step in range(5_000)]

    assert len(write_parquet(tabulate_samples(before))) / len(before) < 20
