"""Results for the PyTorch benchmark database."""

from app.report import pytorch_benchmark
from tests.support.documents import RESOLVED, SPEC, a_document


def test_there_is_a_record_per_arm_and_metric() -> None:
    records = pytorch_benchmark.write(a_document(blocks=2), RESOLVED, SPEC.name)
    by_metric = {(r["benchmark"]["extra_info"]["arm"], r["metric"]["name"]): r for r in records}
    assert by_metric["async", "output_throughput"]["metric"]["benchmark_values"] == [80.0, 80.0]
    assert by_metric["sync", "e2el_ms.p50"]["metric"]["benchmark_values"] == [12.0]
    assert ("sync", "itl_ms.p50") not in by_metric
    assert by_metric["sync", "duration_s"]["model"] == {"name": "tiny-qwen2"}
    about = by_metric["sync", "duration_s"]["metric"]["extra_info"]
    assert (about["unit"], about["better"], about["values"]) == ("s", "lower", "one per trial")


def test_every_value_says_what_it_is() -> None:
    for record in pytorch_benchmark.write(a_document(blocks=2), RESOLVED, SPEC.name):
        about = record["metric"]["extra_info"]
        assert about["formula"].endswith(".")
        one_per_trial = "." not in record["metric"]["name"]
        assert about["values"] == ("one per trial" if one_per_trial else "mean over the trials")
