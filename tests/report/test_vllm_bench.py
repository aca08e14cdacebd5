"""Trials as `vllm bench serve` writes them."""

import warnings

import numpy as np
import pytest

from app.measure.columns import Columns
from app.measure.records import RequestRecord
from app.report import vllm_bench
from tests.support.builders import a_record
from tests.support.documents import RESOLVED, SPEC, a_document

LATENCIES = ("ttft", "tpot", "itl", "e2el")
# 16 samples of 10 tokens in one call: the engine takes 10 ms a token, and all are delivered when the last is done.
BATCH = [
    a_record(arrived_s=0.0, sent_s=0.001 * i, first=0.1 + 0.02 * i, last=0.19 + 0.02 * i, delivered=0.6, sample_index=i)
    for i in range(16)
]


def theirs(records: list[RequestRecord], percentiles: list[float]) -> dict[str, float]:
    """What vLLM's own function says of the same requests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput
        from vllm.benchmarks.serve import calculate_metrics
    outputs = [
        RequestFuncOutput(
            success=True,
            latency=r.delivered_s - r.sent_s,
            ttft=r.first_token_s - r.sent_s if r.first_token_s is not None else 0.0,
            itl=[gap / 1000.0 for gap in r.itl_ms or ()],
            output_tokens=r.output_tokens,
            prompt_len=r.prompt_tokens,
            start_time=r.sent_s,
        )
        for r in records
    ]
    found, _ = calculate_metrics([], outputs, 0.6, None, percentiles, {})
    named = {
        f"{name}_{key}_ms": getattr(found, f"{name}_{key}_ms")
        for key in LATENCIES
        for name in ("mean", "median", "std")
    }
    for key in LATENCIES:
        named |= {f"p{p:g}_{key}_ms": value for p, value in getattr(found, f"percentiles_{key}_ms")}
    totals = {"total_input_tokens": found.total_input, "total_output_tokens": found.total_output}
    return named | totals | {"completed": found.completed}


@pytest.mark.parametrize(("count", "percentiles"), [(16, []), (80, [90])])
def test_figures_are_those_that_vllm_itself_computes(count: int, percentiles: list[float]) -> None:
    rng = np.random.default_rng(7)
    records = [
        a_record(
            arrived_s=0.0,
            sent_s=0.01,
            first=0.1 + rng.random(),
            last=1.5,
            delivered=2.0 + rng.random(),
            output_tokens=int(tokens),
            itl_ms=tuple(rng.random(int(tokens) - 1)),
            sample_index=i,
        )
        for i, tokens in enumerate(rng.integers(1, 30, size=count))
    ]
    ours = vllm_bench.compute_figures(Columns.of(records))
    for key, value in theirs(records, percentiles).items():
        assert ours[key] == pytest.approx(value), key


def test_time_per_output_token_ends_with_the_delivery_as_theirs_does() -> None:
    found = vllm_bench.compute_figures(Columns.of(BATCH))
    assert found["mean_tpot_ms"] == pytest.approx(theirs(BATCH, [])["mean_tpot_ms"]) != pytest.approx(10.0)


def test_latencies_run_from_sent_and_the_client_s_queue_stands_beside_them() -> None:
    late = a_record(arrived_s=1.0, sent_s=3.0, first=4.0, last=6.0, delivered=7.0)
    found = vllm_bench.compute_figures(Columns.of([late]))
    assert (found["mean_ttft_ms"], found["mean_e2el_ms"]) == (1000.0, 4000.0)
    assert (found["mean_client_queue_time_ms"], found["mean_e2el_including_client_queue_ms"]) == (2000.0, 6000.0)


def test_what_is_unknown_is_null_and_not_zero() -> None:
    found = vllm_bench.compute_figures(Columns.of([a_record(first_token_s=None, output_tokens=1, itl_ms=None)]))
    for key in ("mean_ttft_ms", "mean_tpot_ms", "std_itl_ms", "p99_e2el_ms"):
        assert found[key] is None, key


def test_there_is_an_object_per_measured_trial() -> None:
    found = vllm_bench.write(a_document(), RESOLVED, SPEC.name, {0: vllm_bench.compute_figures(Columns.of(BATCH))})
    assert len(found) == 12
    first, second = found[:2]
    assert (first["label"], first["model_id"], first["backend"]) == ("sync", "tiny-qwen2", "simulated")
    assert (first["output_throughput"], first["duration"], first["total_output_tokens"]) == (100.0, 0.4, 160)
    assert first["definitions"]["std"] == "ddof 0, as numpy.std"
    assert set(second) == set(first)
    assert second["mean_tpot_ms"] is None


def test_failed_trials_are_left_out() -> None:
    document = a_document()
    document["trials"][1] |= {"state": "failed", "metrics": {}}
    assert len(vllm_bench.write(document, RESOLVED, SPEC.name, {})) == 11


def test_trials_that_do_not_count_are_left_out_and_documents_that_do_not_say_are_read() -> None:
    document = a_document()
    document["trials"][1] |= {"dropped": "sync was disturbed: other processes took 48 % of the CPUs"}
    assert len(vllm_bench.write(document, RESOLVED, SPEC.name, {})) == 11
    for trial in document["trials"]:
        del trial["dropped"]
    assert len(vllm_bench.write(document, RESOLVED, SPEC.name, {})) == 12
