"""Planted confounds on real engines: never a mode effect."""

from typing import Any

import pytest

from benchmarks.support.lab import Lab
from benchmarks.support.service import eventually

pytestmark = pytest.mark.timeout(500)

TINY: dict[str, Any] = {"preset": "tiny-qwen2"}
# Two KV-cache blocks of 128 tokens per prompt on a CPU: enough for a warm prefix cache to show.
WORKLOAD: dict[str, Any] = {
    "prompts": {"source": "synthetic", "count": 4, "tokens": {"distribution": "fixed", "value": 300}},
    "samples_per_prompt": 2,
    "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": 32}},
}


def finished(lab: Lab, arms: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Results of an experiment that went well."""
    body: dict[str, Any] = {"model": TINY, "workload": WORKLOAD, "arms": arms, "plan": {"blocks": 4}} | spec
    experiment_id = lab.submit(**body)
    ended = lab.ended(experiment_id, within_s=400.0)
    assert ended["status"] == "succeeded", ended
    return lab.results(experiment_id)


def throughput_of(results: dict[str, Any], candidate: str) -> dict[str, Any]:
    """The primary comparison of one candidate."""
    found: dict[str, Any] = next(
        c for c in results["comparisons"] if c["metric"] == "output_throughput" and c["candidate"] == candidate
    )
    return found


@pytest.fixture(scope="module")
def one_engine(lab: Lab) -> dict[str, Any]:
    """Arms that differ in driver settings only share one engine."""
    driver: dict[str, dict[str, Any]] = {
        "base": {},
        "delta": {"output_kind": "delta"},
        "detokenizes": {"detokenize": True},
        "logprobs": {"logprobs": 5},
        "n": {"samples": "n_parameter"},
    }
    arms: list[dict[str, Any]] = [
        {"name": name, "profile": "vllm-async", "driver": settings} for name, settings in driver.items()
    ]
    return finished(lab, arms)


def test_scheduler_limits_left_to_vllm_are_a_confound_not_a_mode_effect(lab: Lab) -> None:
    limits = {"max_num_seqs": None, "max_num_batched_tokens": None}
    results = finished(
        lab,
        [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}],
        engine=limits,
    )
    undeclared = {difference["key"] for difference in results["parity"]["undeclared"]}
    assert "engine.scheduler_config.max_num_seqs" in undeclared
    assert "engine.scheduler_config.max_num_batched_tokens" in undeclared
    assert throughput_of(results, "async")["verdict"] == "confounded"
    assert "max_num_seqs" in results["summary"]


def test_a_warm_prefix_cache_is_unequal_work_and_a_first_trial_without_warm_up_is_said(lab: Lab) -> None:
    arms: list[dict[str, Any]] = [
        {"name": "final", "profile": "vllm-async"},
        {"name": "delta", "profile": "vllm-async", "driver": {"output_kind": "delta"}},
    ]
    results = finished(lab, arms, plan={"blocks": 4, "reset_prefix_cache": False, "warmup_trials": 0})
    assert throughput_of(results, "delta")["verdict"] == "confounded"
    assert any("cached" in reason for reason in throughput_of(results, "delta")["reasons"])
    assert "no_warmup" in {warning["code"] for warning in results["warnings"]}


@pytest.mark.parametrize(
    ("candidate", "setting"),
    [
        ("delta", "driver.output_kind"),
        ("detokenizes", "driver.detokenize"),
        ("logprobs", "driver.logprobs"),
        ("n", "driver.samples"),
    ],
)
def test_a_driver_setting_of_one_side_is_named_as_the_difference(
    one_engine: dict[str, Any], candidate: str, setting: str
) -> None:
    declared = {d["key"]: d["values"] for d in one_engine["parity"]["declared"]}
    assert declared[setting][candidate] != declared[setting]["base"]
    comparison = throughput_of(one_engine, candidate)
    if comparison["verdict"] in ("slower", "faster"):
        assert setting in one_engine["summary"]
    assert one_engine["parity"]["undeclared"] == []


def test_one_arm_s_settings_do_not_leak_into_another_s(one_engine: dict[str, Any]) -> None:
    # vLLM's LLM writes into the SamplingParams it is given; here every trial has objects of its own.
    arms = {arm["name"]: arm for arm in one_engine["arms"]}
    assert arms["delta"]["itl_ms"]["mean"] is not None
    assert arms["base"]["itl_ms"]["mean"] is None


def test_samples_asked_for_with_n_have_times_of_their_own(one_engine: dict[str, Any]) -> None:
    of_n = next(arm for arm in one_engine["arms"] if arm["name"] == "n")
    assert of_n["ttft_ms"]["mean"] is not None
    assert one_engine["fairness"]["output_tokens"]["n"] == one_engine["fairness"]["output_tokens"]["base"]


def test_an_arm_with_other_dtype_scheduling_and_threads_is_a_difference_of_settings_not_of_modes(lab: Lab) -> None:
    slow = {
        "name": "async",
        "profile": "vllm-async",
        "engine": {"dtype": "bfloat16", "async_scheduling": False},
        "environment": {"variables": {"VLLM_CPU_OMP_THREADS_BIND": "0"}},
    }
    results = finished(lab, [{"name": "sync", "profile": "vllm-sync"}, slow])
    settings = {difference["setting"] for difference in results["parity"]["declared"]}
    assert {"engine.dtype", "engine.async_scheduling"} <= settings
    assert results["parity"]["undeclared"] == []
    assert any("VLLM_CPU_OMP_THREADS_BIND" in (setting or "") for setting in settings)
    if throughput_of(results, "async")["verdict"] in ("slower", "faster"):
        assert "dtype" in results["summary"]


def test_a_prefix_cache_that_was_switched_off_is_named_as_the_cause_of_unequal_work(lab: Lab) -> None:
    arms: list[dict[str, Any]] = [
        {"name": "on", "profile": "vllm-sync"},
        {"name": "off", "profile": "vllm-sync", "engine": {"enable_prefix_caching": False}},
    ]
    results = finished(lab, arms)
    assert results["fairness"]["cached_tokens"]["off"] == 0
    assert results["fairness"]["cached_tokens"]["on"] > 0
    assert [(one["what"], one["setting"]) for one in results["fairness"]["differences"]] == [
        ("cached_tokens", "engine.enable_prefix_caching")
    ]
    comparison = throughput_of(results, "off")
    assert not any("cached_tokens" in reason for reason in comparison["reasons"])
    assert "off caches no prompt tokens" in comparison["provisos"][0]


def test_a_setting_that_a_cpu_does_not_take_makes_no_second_arm(lab: Lab) -> None:
    arms: list[dict[str, Any]] = [
        {"name": "plain", "profile": "vllm-sync"},
        {
            "name": "asks",
            "profile": "vllm-sync",
            "engine": {"async_scheduling": True},
            "environment": {"variables": {"OMP_NUM_THREADS": "1"}},
        },
    ]
    results = finished(lab, arms, plan={"blocks": 2})
    asks = next(arm for arm in results["arms"] if arm["name"] == "asks")
    assert asks["not_taken"] == [{"setting": "engine.async_scheduling", "asked": True, "got": False}]
    assert throughput_of(results, "asks")["verdict"] == "confounded"
    assert "the same thing twice" in results["summary"]
    assert "differ in" not in results["summary"]
    assert results["parity"]["undeclared"] == []


def test_an_arm_against_itself_is_neither_slower_nor_faster(lab: Lab) -> None:
    # At 5 % this would fail once in twenty runs by design.
    arms: list[dict[str, Any]] = [{"name": "sync", "profile": "vllm-sync"}]
    results = finished(lab, arms, calibrate=True, plan={"blocks": 6}, decision={"alpha": 0.001})
    comparison = throughput_of(results, "sync again")
    assert comparison["verdict"] in ("same", "inconclusive")
    rehearsal = lab.http.post(
        "/v1/experiments",
        params={"dry_run": "true"},
        json={
            "model": TINY,
            "workload": WORKLOAD,
            "arms": [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}],
        },
    ).json()
    assert rehearsal["cost"]["noise_pct"] == pytest.approx(comparison["sd_pct"], abs=0.01)
    assert rehearsal["cost"]["detectable_effect_pct"] > 0
    assert lab.no_engine_is_left()


def test_an_engine_process_that_somebody_nices_is_no_mode_effect(lab: Lab) -> None:
    arms = [{"name": "sync", "profile": "vllm-sync"}, {"name": "async", "profile": "vllm-async"}]
    experiment_id = lab.submit(model=TINY, workload=WORKLOAD, arms=arms, plan={"blocks": 2})
    # Before the first trial, so that it holds of all of them however soon they are over.
    worker = eventually(lambda: lab.engine_processes("VLLM::Worker"), 120.0)[0]
    worker.nice(worker.nice() + 3)
    assert lab.ended(experiment_id, within_s=400.0)["status"] == "succeeded"
    comparison = throughput_of(lab.results(experiment_id), "async")
    assert comparison["verdict"] == "confounded"
    assert any("VLLM::Worker had niceness" in reason for reason in comparison["reasons"])


def test_the_idle_engine_of_another_arm_is_at_rest_and_no_stranger(lab: Lab) -> None:
    arms: list[dict[str, Any]] = [
        {"name": "separate", "profile": "vllm-sync"},
        {"name": "in process", "profile": "vllm-sync", "driver": {"engine_process": "in_process"}},
    ]
    results = finished(lab, arms)
    assert "idle_arm" not in {warning["code"] for warning in results["warnings"]}
    assert not any("idle engines" in reason for reason in throughput_of(results, "in process")["reasons"])
