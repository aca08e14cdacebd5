"""Results in the formats of other tools."""

from typing import Any
from xml.etree import ElementTree

import pytest

from app.errors import FailureCode
from app.judge.results import build_results
from app.report.exports import junit, markdown, pytorch_benchmark, vllm_bench
from app.spec.lifecycle import Failure, Status
from app.spec.plan import Phase, plan_trials
from app.spec.resolution import ResolvedExperiment, resolve
from tests.builders import a_resolved_arm, a_simulated_spec, a_trial

SPEC = a_simulated_spec(name="sync | async")
RESOLVED: ResolvedExperiment = resolve(SPEC)


def a_document(sync: float = 100.0, candidate: float = 80.0, blocks: int = 6, **changes: Any) -> dict[str, Any]:
    """Results of an experiment whose candidate has another throughput; ABBA."""
    trials = [a_trial("sync", 0, 0, sync, phase=Phase.WARMUP, slot=0)]
    for block in range(blocks):
        first = block % 2
        noise = 1.0 + 0.002 * (block % 3)
        trials.append(a_trial("sync", block, first, sync * noise, metrics={"e2el_ms.p50": 12.0}))
        trials.append(a_trial("async", block, 1 - first, candidate, metrics={"e2el_ms.p50": 15.0}))
    found = build_results(
        "0f8e",
        spec=SPEC,
        resolved=RESOLVED,
        plan=plan_trials(SPEC, RESOLVED),
        status=Status.SUCCEEDED,
        arms=[a_resolved_arm(arm.name, {}, simulated=True) for arm in RESOLVED.arms],
        trials=trials,
        **changes,
    )
    return found.model_dump(mode="json")


def test_vllm_bench_has_an_object_per_measured_trial() -> None:
    found = vllm_bench(a_document(), RESOLVED, SPEC.name)
    assert len(found) == 12
    first = found[0]
    assert (first["label"], first["model_id"], first["backend"]) == ("sync", "tiny-qwen2", "simulated")
    assert (first["output_throughput"], first["duration"], first["total_output_tokens"]) == (100.0, 0.4, 40)
    assert (first["median_e2el_ms"], first["p99_ttft_ms"]) == (12.0, None)


def test_vllm_bench_leaves_failed_trials_out() -> None:
    document = a_document()
    document["trials"][1] |= {"state": "failed", "metrics": {}}
    assert len(vllm_bench(document, RESOLVED, SPEC.name)) == 11


def test_pytorch_benchmark_has_a_record_per_arm_and_metric() -> None:
    records = pytorch_benchmark(a_document(blocks=2), RESOLVED, SPEC.name)
    by_metric = {(r["benchmark"]["extra_info"]["arm"], r["metric"]["name"]): r for r in records}
    assert by_metric["async", "output_throughput"]["metric"]["benchmark_values"] == [80.0, 80.0]
    assert by_metric["sync", "e2el_ms.p50"]["metric"]["benchmark_values"] == [12.0]
    assert ("sync", "itl_ms.p50") not in by_metric
    assert by_metric["sync", "duration_s"]["model"] == {"name": "tiny-qwen2"}
    assert by_metric["sync", "duration_s"]["metric"]["extra_info"] == {"unit": "s"}


def cases(document: dict[str, Any]) -> dict[str, ElementTree.Element]:
    suites = ElementTree.fromstring(junit(document, SPEC.name).encode())  # noqa: S314 - our own
    return {case.get("name", ""): case for case in suites.iter("testcase")}


@pytest.mark.parametrize(
    ("candidate", "blocks", "child"), [(80.0, 6, "failure"), (120.0, 6, "system-out"), (90.0, 1, "skipped")]
)
def test_junit_fails_what_got_slower(candidate: float, blocks: int, child: str) -> None:
    assert [e.tag for e in cases(a_document(candidate=candidate, blocks=blocks))["output_throughput"]] == [child]


def test_junit_fails_what_is_confounded() -> None:
    document = a_document()
    for comparison in document["comparisons"]:
        comparison |= {"verdict": "confounded", "reasons": ["engine.max_num_seqs differs"]}
    failure = cases(document)["output_throughput"].find("failure")
    assert failure is not None
    assert failure.get("message", "").endswith("; engine.max_num_seqs differs")


def test_junit_counts_add_up() -> None:
    suites = ElementTree.fromstring(junit(a_document(), SPEC.name).encode())  # noqa: S314 - our own
    (suite,) = suites
    assert suite.get("name") == "async against sync"
    assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == 2


def test_junit_tells_of_a_failed_experiment_whatever_its_log_holds() -> None:
    failure = Failure(code=FailureCode.ENGINE_DIED, detail="died \x1b[31m<badly>", log_tail="a\x00b & c")
    document = a_document(blocks=0, failure=failure)
    error = cases(document)["runs to its end"].find("error")
    assert error is not None
    assert error.get("message") == "died \ufffd[31m<badly>"
    assert error.text == "a\ufffdb & c"


def test_markdown_says_what_was_found() -> None:
    lines = markdown(a_document(), SPEC.name).splitlines()
    assert lines[0] == r"### sync \| async"
    assert lines[2].startswith("**")
    assert "| arm | trials | output tokens/s | latency p50 ms | p90 ms | p99 ms |" in lines
    assert any(line.startswith("| sync (simulated@1) | 6 | 100.2 ± 0.18 | 12.00 | – | – |") for line in lines)
    assert "async against sync:" in lines
    assert any(line.startswith(r"| output\_throughput (primary) | −20.") and "slower |" in line for line in lines)
    assert any(line.startswith("- fairness: ") for line in lines)


def test_markdown_of_nothing_is_short() -> None:
    assert markdown(a_document(blocks=0), "").startswith("### 0f8e\n")
