"""Metrics of a trial, by hand-computed values."""

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.measure import formulas
from app.measure.columns import Columns
from app.measure.metrics import METRICS, Better, Kind, measure_trial, summarise
from app.measure.records import Conditions, EngineSample, HarnessUse, RequestRecord, TrialState
from app.spec.experiment import ServiceLevels
from tests.support.builders import a_record, a_result, an_engine_sample

NO_LEVELS = ServiceLevels()


def values_of(
    *records: RequestRecord,
    timeline: tuple[EngineSample, ...] = (),
    conditions: Conditions | None = None,
    gpus: int = 0,
    levels: ServiceLevels = NO_LEVELS,
) -> dict[str, float | None]:
    return measure_trial(a_result(*records, timeline=timeline, conditions=conditions), gpus, levels)[0]


def missing_of(*records: RequestRecord, gpus: int = 0) -> dict[str, str]:
    return measure_trial(a_result(*records), gpus, NO_LEVELS)[1]


# --- throughput and time -------------------------------------------------------------------------------------------


def test_the_duration_runs_from_the_first_arrival_to_the_last_delivery() -> None:
    metrics = values_of(a_record(1.0, last=3.0), a_record(2.0, last=4.0, delivered=6.0, sample_index=1))
    assert metrics["duration_s"] == 5.0


def test_throughput_counts_tokens_and_samples_per_second_of_duration() -> None:
    records = [a_record(0.0, delivered=4.0, output_tokens=10, prompt_tokens=6, sample_index=i) for i in range(2)]
    metrics = values_of(*records, gpus=2)
    assert metrics["output_throughput"] == 5.0
    assert metrics["total_token_throughput"] == 8.0
    assert metrics["request_throughput"] == 0.5
    assert metrics["output_throughput_per_gpu"] == 2.5


def test_without_a_gpu_there_is_no_throughput_per_gpu() -> None:
    assert values_of()["output_throughput_per_gpu"] is None
    assert missing_of()["output_throughput_per_gpu"] == "the arm uses no GPU"


# --- latencies -----------------------------------------------------------------------------------------------------


def test_time_to_first_token_runs_from_arrival_to_the_engines_first_token() -> None:
    assert values_of(a_record(start=100, first=110))["ttft_ms.p50"] == 10_000


def test_latencies_count_from_when_a_request_should_have_started() -> None:
    late = a_record(arrived_s=1.0, sent_s=3.0, first=4.0, last=6.0, delivered=7.0)
    metrics = values_of(late)
    assert metrics["ttft_ms.p50"] == 3000
    assert metrics["engine_e2el_ms.p50"] == 5000
    assert metrics["e2el_ms.p50"] == 6000
    assert metrics["client_queue_ms.p50"] == 2000


def test_the_client_s_queue_is_compared_like_any_metric() -> None:
    assert METRICS["client_queue_ms"].compared_keys == (
        "client_queue_ms.p50",
        "client_queue_ms.p90",
        "client_queue_ms.p99",
    )


def test_a_late_client_misses_the_service_level_that_its_request_would_have_met() -> None:
    prompt = a_record(first=1.0, last=2.0)
    late = a_record(arrived_s=0.0, sent_s=5.0, first=6.0, last=7.0, sample_index=1)
    metrics = values_of(prompt, late, levels=ServiceLevels(e2el_ms=2000))
    assert metrics["request_goodput"] == pytest.approx(1 / 7)


def test_time_per_output_token_leaves_out_the_first_token() -> None:
    assert values_of(a_record(first=1.0, last=2.0, output_tokens=11))["tpot_ms.mean"] == pytest.approx(100)


def test_a_sample_of_one_token_has_no_time_per_output_token() -> None:
    metrics = values_of(
        a_record(first=1.0, last=1.0, output_tokens=1), a_record(first=1.0, last=2.0, output_tokens=3, sample_index=1)
    )
    assert metrics["tpot_ms.mean"] == pytest.approx(500)
    assert missing_of(a_record(output_tokens=1))["tpot_ms.mean"] == "no sample has more than one token"


def test_inter_token_latency_pools_the_gaps_of_all_samples() -> None:
    metrics = values_of(a_record(itl_ms=(1.0, 2.0, 3.0)), a_record(itl_ms=(10.0,), sample_index=1))
    assert metrics["itl_ms.mean"] == 4.0
    assert metrics["itl_ms.p50"] == 2.5


def test_gaps_of_few_samples_have_no_percentile_however_many_there_are() -> None:
    stalled = (a_record(itl_ms=(1.0,) * 700), a_record(itl_ms=(500.0,) * 700, sample_index=1))
    assert values_of(*stalled)["itl_ms.p99"] is None
    assert missing_of(*stalled)["itl_ms.p99"] == "p99 needs 662 values, got 2 samples with 1400 between them"
    assert values_of(*stalled)["itl_ms.p50"] is not None


def test_an_arm_that_does_not_stream_has_no_inter_token_latency() -> None:
    assert missing_of(a_record(itl_ms=None))["itl_ms.p50"] == "the arm does not stream tokens"


def test_delivery_is_told_apart_from_the_engines_end() -> None:
    metrics = values_of(a_record(1.0, last=3.0, delivered=3.5))
    assert metrics["e2el_ms.p50"] == 2500
    assert metrics["engine_e2el_ms.p50"] == 2000
    assert metrics["delivery_ms.p50"] == 500


def test_queues_in_the_engine_and_before_it_are_told_apart() -> None:
    metrics = values_of(a_record(arrived_s=1.0, sent_s=1.5, queued_s=2.0, scheduled_s=4.0, first=5.0, last=6.0))
    assert metrics["client_queue_ms.p50"] == 500
    assert metrics["queue_ms.p50"] == 2000


def test_a_part_of_a_request_s_time_is_a_metric_whose_means_add_up() -> None:
    record = a_record(
        arrived_s=0.0, sent_s=0.5, received_s=1.0, prepared_s=1.25, queued_s=2.0, scheduled_s=3.0, first=4.0, last=6.0
    )
    metrics = values_of(replace(record, left_s=7.0, delivered_s=9.0))
    names = ("transport_out", "preparation", "hand_in", "queue", "prefill", "decode", "hand_over", "transport_back")
    parts = [metrics[f"{name}_ms.mean"] for name in ("client_queue", *names)]
    assert parts == [500, 500, 250, 750, 1000, 1000, 2000, 1000, 2000]
    assert sum(part or 0 for part in parts) == metrics["e2el_ms.mean"]
    assert metrics["submission_ms.mean"] == 1500
    assert METRICS["hand_in_ms"].compared_keys == ("hand_in_ms.mean", "hand_in_ms.p99")


def test_a_part_that_cannot_be_told_says_what_it_is_within() -> None:
    assert missing_of()["hand_over_ms.mean"] == (
        "it is within `hand-over + transport back`: nothing tells when a request was left"
    )


def test_a_group_is_complete_when_all_its_samples_are_delivered() -> None:
    metrics = values_of(
        a_record(last=2.0, prompt_index=7, sample_index=0),
        a_record(last=9.0, prompt_index=3, sample_index=0),
        a_record(last=4.0, prompt_index=7, sample_index=1),
    )
    assert metrics["group_completion_s.mean"] == (4.0 + 9.0) / 2


def test_a_percentile_needs_enough_samples() -> None:
    few = a_result(*(a_record(sample_index=i) for i in range(63)))
    metrics, missing = measure_trial(few, 0, NO_LEVELS)
    assert metrics["ttft_ms.p90"] is None
    assert missing["ttft_ms.p90"] == "p90 needs 64 values, got 63"
    assert metrics["ttft_ms.p50"] is not None
    enough = values_of(*(a_record(sample_index=i) for i in range(64)))
    assert enough["ttft_ms.p90"] == pytest.approx(100)


def test_one_sample_has_no_spread() -> None:
    assert values_of(a_record())["ttft_ms.std"] is None


def test_the_spread_has_one_degree_of_freedom_less_than_values() -> None:
    metrics = values_of(a_record(first=1.0, last=4.0), a_record(first=3.0, last=4.0, sample_index=1))
    assert metrics["ttft_ms.std"] == pytest.approx(1000 * math.sqrt(2))


def test_engine_times_that_some_samples_lack_give_no_average_of_the_others() -> None:
    records = (a_record(first_token_s=None), a_record(sample_index=1))
    assert values_of(*records)["ttft_ms.p50"] is None
    assert missing_of(*records)["ttft_ms.p50"] == "the engine reported no first_token_s for 1 of 2 samples"


# --- the shape of a rollout ----------------------------------------------------------------------------------------


def test_completion_times_weigh_samples_by_their_tokens() -> None:
    metrics = values_of(
        a_record(arrived_s=1.0, last=3.0, output_tokens=50),
        a_record(last=5.0, output_tokens=40, sample_index=1),
        a_record(last=11.0, output_tokens=10, sample_index=2, arrived_s=1.0),
    )
    assert metrics["time_to_50pct_s"] == 3.0
    assert metrics["time_to_90pct_s"] == 5.0
    assert metrics["tail_bubble_pct"] == pytest.approx(100 * 6 / 11)


def test_a_batch_delivered_at_once_still_has_a_shape_from_the_engines_times() -> None:
    metrics = values_of(*(a_record(last=i + 1.0, delivered=10.0, sample_index=i) for i in range(10)))
    assert metrics["time_to_50pct_s"] == 5.0
    assert metrics["time_to_90pct_s"] == 9.0
    assert metrics["tail_bubble_pct"] == pytest.approx(10)


def test_without_engine_times_there_is_no_shape() -> None:
    missing = missing_of(a_record(last_token_s=None))
    assert missing["time_to_50pct_s"] == "the engine reported no last_token_s for 1 of 1 samples"
    assert {"time_to_90pct_s", "tail_bubble_pct", "step_ms"} <= set(missing)


def test_steps_are_those_of_the_longest_sample() -> None:
    metrics = values_of(
        a_record(first=1.0, last=2.0, output_tokens=3), a_record(first=1.0, last=6.0, output_tokens=101, sample_index=1)
    )
    assert metrics["decode_steps"] == 100
    assert metrics["step_ms"] == pytest.approx(50)


# --- engine, host, goodput -----------------------------------------------------------------------------------------


def test_the_engines_state_is_averaged_over_time_and_not_over_steps() -> None:
    timeline = (
        an_engine_sample(0.0, running=32, kv_cache_usage_pct=40.0),
        an_engine_sample(3.0, running=4, kv_cache_usage_pct=8.0),
        an_engine_sample(4.0, running=0, kv_cache_usage_pct=0.0),
    )
    metrics = values_of(a_record(), timeline=timeline)
    assert metrics["running_requests"] == 25.0
    assert metrics["kv_cache_usage_pct"] == 32.0


def test_the_longest_step_is_one_in_which_requests_waited_for_it() -> None:
    timeline = tuple(an_engine_sample(at, running=running) for at, running in ((1.0, 2), (1.5, 0), (9.0, 1), (9.75, 0)))
    assert values_of(a_record(scheduled_s=0.9, first=1.0), timeline=timeline)["longest_step_ms"] == 750
    assert values_of(a_record(scheduled_s=0.0, first=1.0), timeline=timeline)["longest_step_ms"] == 1000
    assert missing_of()["longest_step_ms"] == "the engine's state was not sampled"


def test_accepted_tokens_are_counted_where_decoding_is_speculative() -> None:
    timeline = (
        an_engine_sample(0.0, drafts=0, draft_tokens=0, accepted_tokens=0),
        an_engine_sample(1.0, drafts=4, draft_tokens=12, accepted_tokens=6),
    )
    metrics = values_of(a_record(), timeline=timeline)
    assert (metrics["accepted_tokens_per_draft"], metrics["draft_acceptance_pct"]) == (1.5, 50.0)
    plain = measure_trial(a_result(timeline=(an_engine_sample(0.0),)), 0, NO_LEVELS)[1]
    assert plain["accepted_tokens_per_draft"] == "decoding is not speculative"


def test_event_loops_of_callers_and_of_a_server_are_told_apart() -> None:
    harness = HarnessUse(cpu_s=0.0, event_loop_lag_ms=3.0, outputs=1, server_lag_ms=40.0)
    metrics = measure_trial(a_result(harness=harness), 0, NO_LEVELS)[0]
    assert (metrics["event_loop_lag_ms"], metrics["server_lag_ms"]) == (3.0, 40.0)
    assert values_of()["server_lag_ms"] is None


def test_preemptions_come_from_the_samples_or_else_from_the_timeline() -> None:
    timeline = (an_engine_sample(0.0, preemptions=2), an_engine_sample(1.0, preemptions=3))
    assert values_of(a_record(preemptions=4), timeline=timeline)["preemptions"] == 4
    assert values_of(a_record(preemptions=None), timeline=timeline)["preemptions"] == 5
    assert missing_of(a_record(preemptions=None))["preemptions"] == "the engine reported no preemptions"


def test_the_prefix_cache_hit_rate_is_in_tokens() -> None:
    assert values_of(a_record(prompt_tokens=200, cached_tokens=50))["prefix_cache_hit_pct"] == 25.0
    assert values_of(a_record(cached_tokens=None))["prefix_cache_hit_pct"] is None


def test_gpu_telemetry_is_taken_from_the_conditions() -> None:
    conditions = Conditions(gpu_util_pct=97.0, sm_clock_mhz=1980.0, power_w=500.0, energy_j=40.0)
    metrics = values_of(a_record(output_tokens=10), conditions=conditions, gpus=1)
    assert (metrics["gpu_util_pct"], metrics["sm_clock_mhz"], metrics["power_w"]) == (97.0, 1980.0, 500.0)
    assert metrics["energy_j_per_output_token"] == 4.0


def test_without_telemetry_power_is_missing_and_not_0() -> None:
    metrics, missing = measure_trial(a_result(conditions=Conditions()), 1, NO_LEVELS)
    assert metrics["power_w"] is None
    assert "no GPU telemetry" in missing["energy_j_per_output_token"]


def test_goodput_counts_samples_within_every_service_level() -> None:
    records = (
        a_record(first=0.1, last=1.0, output_tokens=10),
        a_record(first=0.9, last=1.8, output_tokens=10, sample_index=1),
        a_record(first=0.1, last=2.0, output_tokens=1, sample_index=2),
    )
    assert values_of(*records, levels=ServiceLevels(ttft_ms=500))["request_goodput"] == 1.0
    assert values_of(*records, levels=ServiceLevels(ttft_ms=500, e2el_ms=1500))["request_goodput"] == 0.5
    assert values_of(*records, levels=ServiceLevels(tpot_ms=1))["request_goodput"] == 0.5


def test_without_service_levels_there_is_no_goodput() -> None:
    assert missing_of()["request_goodput"] == "the experiment sets no service levels"


# --- missing is None with a reason, never 0 ------------------------------------------------------------------------

times = st.none() | st.floats(0, 1e6)
odd_records = st.lists(
    st.builds(
        lambda start, times, counts, gaps: a_record(
            start,
            queued_s=times[0],
            scheduled_s=times[1],
            first_token_s=times[2],
            last_token_s=times[3],
            delivered_s=start + counts[3],
            prompt_tokens=counts[0],
            output_tokens=counts[1],
            cached_tokens=counts[2],
            prompt_index=counts[1],
            itl_ms=gaps,
        ),
        st.floats(0, 1e6),
        st.tuples(times, times, times, times),
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.none() | st.integers(0, 100), st.floats(0, 1e3)),
        st.none() | st.lists(st.floats(0, 1e3), max_size=3).map(tuple),
    ),
    max_size=5,
)


@given(odd_records, st.integers(0, 2), st.lists(st.floats(0, 10), max_size=3))
def test_every_metric_has_a_finite_value_or_a_reason(
    records: list[RequestRecord], gpus: int, moments: list[float]
) -> None:
    timeline = tuple(an_engine_sample(at) for at in sorted(moments))
    result = replace(a_result(), records=tuple(records), timeline=timeline)
    metrics, missing = measure_trial(result, gpus, ServiceLevels(ttft_ms=1, tpot_ms=1))
    assert list(metrics) == [key for metric in METRICS.values() for key in metric.value_keys]
    assert set(missing) == {key for key, value in metrics.items() if value is None}
    assert all(missing.values())
    assert all(math.isfinite(value) for value in metrics.values() if value is not None)


@given(st.permutations(range(6)))
def test_the_order_of_records_does_not_matter(order: list[int]) -> None:
    records = [a_record(last=1.0 + index % 4, prompt_index=index % 3, sample_index=index) for index in range(6)]
    shuffled = [records[index] for index in order]
    assert values_of(*shuffled) == {
        key: None if value is None else pytest.approx(value) for key, value in values_of(*records).items()
    }


def test_a_trial_that_failed_has_no_values_at_all() -> None:
    result = a_result(a_record(), state=TrialState.FAILED, error="the engine died")
    metrics, missing = measure_trial(result, 0, NO_LEVELS)
    assert set(metrics.values()) == {None}
    assert set(missing.values()) == {"the trial failed"}


APP = Path(formulas.__file__).parents[1]
JUDGES = ("results.py", "comparison.py", "fairness.py")


@pytest.mark.parametrize(
    "path",
    [*sorted((APP / "measure").glob("*.py")), *(APP / "judge" / name for name in JUDGES)],
    ids=lambda path: path.stem,
)
def test_no_missing_value_is_turned_into_a_number(path: Path) -> None:
    """`x or 0` and `dict.get(key, 0)` would do it."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            assert not any(_is_number(value) for value in node.values), ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            assert not any(_is_number(value) for value in node.args[1:]), ast.unparse(node)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


# --- the table -----------------------------------------------------------------------------------------------------


def test_the_table_has_every_metric_once_under_its_functions_name() -> None:
    assert len(METRICS) == 41
    assert all(metric.measure.__name__ == key for key, metric in METRICS.items())


def test_every_metric_says_how_it_is_computed() -> None:
    assert all(metric.formula.endswith(".") and metric.unit for metric in METRICS.values())


def test_throughput_and_duration_are_primary() -> None:
    assert [key for key, metric in METRICS.items() if metric.primary] == ["duration_s", "output_throughput"]


def test_neutral_metrics_are_never_compared() -> None:
    compared = [metric for metric in METRICS.values() if metric.compared_keys]
    assert all(metric.better is not Better.NEUTRAL for metric in compared)
    assert METRICS["ttft_ms"].compared_keys == ("ttft_ms.p50", "ttft_ms.p90", "ttft_ms.p99")


def test_a_unit_in_a_key_is_the_metrics_unit() -> None:
    suffixes = {"_ms": "ms", "_s": "s", "_pct": "%", "_pct_s": "s", "_w": "W", "_mhz": "MHz"}
    for key, metric in METRICS.items():
        for suffix, unit in suffixes.items():
            if key.endswith(suffix) and not (suffix == "_s" and key.endswith(("_ms", "_pct_s"))):
                assert metric.unit == unit, key


def test_kinds_agree_with_what_the_functions_return() -> None:
    metrics = values_of(a_record(itl_ms=(1.0,)), a_record(sample_index=1, itl_ms=(1.0,)))
    for metric in METRICS.values():
        assert (metric.key in metrics) == (metric.kind is Kind.SCALAR)


# --- summaries and size --------------------------------------------------------------------------------------------


def test_a_summary_keeps_everything_but_the_records() -> None:
    result = a_result(a_record(output_tokens=7))
    summary = summarise(result, 2, gpus=0, service_levels=NO_LEVELS)
    assert (summary.attempt, summary.planned, summary.harness) == (2, result.planned, result.harness)
    assert summary.metrics["decode_steps"] == 6
    assert summary.work is not None
    assert summary.work.output_tokens == 7


def test_the_summary_of_a_failed_trial_says_why_and_counts_no_work() -> None:
    result = a_result(state=TrialState.FAILED, error="the engine died")
    summary = summarise(result, 1, gpus=0, service_levels=NO_LEVELS)
    assert summary.error == "the engine died"
    assert summary.work is None


def test_columns_keep_unknown_values_apart_from_0() -> None:
    columns = Columns.of([a_record(cached_tokens=None), a_record(cached_tokens=0, sample_index=1)])
    assert math.isnan(columns.cached_tokens[0])
    assert columns.cached_tokens[1] == 0


def test_the_gaps_of_a_batch_in_which_one_sample_was_not_streamed_are_unknown() -> None:
    mixed: Sequence[RequestRecord] = [a_record(itl_ms=(1.0,)), a_record(itl_ms=None, sample_index=1)]
    assert Columns.of(mixed).itl_ms is None
