"""Unequal work that follows from what the arms ask for."""

from typing import Any

import pytest

from app.judge.comparison import compare
from app.judge.results import build_results
from app.judge.verdict import Comparison, Verdict
from app.measure.records import StartedArm
from app.report.remarks import list_remarks
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from tests.support.builders import a_resolved_arm, a_spec, a_trial, some_work

CACHING = "engine.cache_config.enable_prefix_caching"
BLOCKS = 4
OFF = "caches no prompt tokens (sync 64), which follows from engine.enable_prefix_caching"


def a_comparison_of(engine: dict[str, Any], **spec: Any) -> Experiment:
    arms = [{"name": "sync", "profile": "vllm-sync"}, {"name": "other", "profile": "vllm-sync", "engine": engine}]
    return a_spec(arms=arms, plan={"blocks": BLOCKS}, **spec)


def trials(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Any]:
    return [
        a_trial(arm, block, (block + place) % 2, 100.0 + block + 10 * place, work=some_work(**work))
        for block in range(BLOCKS)
        for place, (arm, work) in enumerate((("sync", ours), ("other", theirs)))
    ]


def engines(key: str, ours: object, theirs: object) -> list[StartedArm]:
    return [a_resolved_arm("sync", {key: ours}), a_resolved_arm("other", {key: theirs})]


def verdict(spec: Experiment, found: list[Any], arms: list[StartedArm]) -> Comparison:
    return compare(spec, resolve(spec), found, arms)[0]


CACHED = trials({"cached_tokens": 16}, {"cached_tokens": 0})


def test_a_cache_that_was_switched_off_is_an_effect_and_named() -> None:
    spec = a_comparison_of({"enable_prefix_caching": False})
    found = verdict(spec, CACHED, engines(CACHING, True, False))
    assert found.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert (
        found.provisos[0] == "other caches no prompt tokens (sync 64), which follows from engine.enable_prefix_caching"
    )


def test_blocks_of_another_size_are_an_effect_and_named() -> None:
    spec = a_comparison_of({"block_size": 32})
    found = trials({"cached_tokens": 16}, {"cached_tokens": 24})
    provisos = verdict(spec, found, engines("engine.cache_config.block_size", 128, 32)).provisos
    assert provisos[0] == "cached_tokens differ: sync 64, other 96, which follows from engine.block_size"


def test_the_same_that_nobody_declared_is_a_confound() -> None:
    spec = a_comparison_of({"dtype": "bfloat16"})
    found = trials({"output_tokens": 40}, {"output_tokens": 44})
    comparison = verdict(spec, found, engines("engine.model_config.dtype", "torch.float32", "torch.bfloat16"))
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons == ("output_tokens differ: sync 160, other 176",)


def test_a_setting_that_was_not_taken_explains_nothing() -> None:
    spec = a_comparison_of({"enable_prefix_caching": False})
    found = verdict(spec, CACHED, engines(CACHING, True, True))
    assert found.verdict is Verdict.CONFOUNDED
    assert any(reason.startswith("they are the same thing twice") for reason in found.reasons)
    assert any("cached_tokens differ" in reason for reason in found.reasons)


def test_a_driver_setting_does_not_explain_a_warm_cache() -> None:
    spec = a_spec(plan={"blocks": BLOCKS})
    found = trials({"cached_tokens": 0}, {"cached_tokens": 16})
    found = [trial for trial in found if trial.planned.arm == "sync"] + [
        a_trial("async", block, 1, work=some_work(cached_tokens=16)) for block in range(BLOCKS)
    ]
    assert verdict(spec, found, []).verdict is Verdict.CONFOUNDED


@pytest.mark.parametrize(("reasons", "expected"), [({"stop": 4}, False), ({"length": 4}, True)])
def test_other_numbers_end_samples_elsewhere_only_where_the_model_ends_them(
    reasons: dict[str, int], expected: bool
) -> None:
    spec = a_comparison_of({"dtype": "bfloat16"})
    found = trials({"output_tokens": 40, "finish_reasons": reasons}, {"output_tokens": 44, "finish_reasons": reasons})
    arms = engines("engine.model_config.dtype", "torch.float32", "torch.bfloat16")
    assert (verdict(spec, found, arms).verdict is Verdict.CONFOUNDED) is expected


# --- what the results say ------------------------------------------------------------------------------------------


def document(spec: Experiment, found: list[Any], arms: list[StartedArm]) -> dict[str, Any]:
    resolved = resolve(spec)
    return build_results(
        "1",
        spec=spec,
        resolved=resolved,
        plan=plan_trials(spec, resolved),
        status=Status.SUCCEEDED,
        arms=arms,
        trials=found,
    ).model_dump(mode="json")


def test_results_remarks_and_the_sentence_name_the_setting() -> None:
    results = document(a_comparison_of({"enable_prefix_caching": False}), CACHED, engines(CACHING, True, False))
    assert [one["setting"] for one in results["fairness"]["differences"]] == ["engine.enable_prefix_caching"]
    assert (
        "Other caches no prompt tokens (sync 64), which follows from engine.enable_prefix_caching" in results["summary"]
    )
    assert any("differs only as declared, in cached_tokens by engine.enable" in one for one in list_remarks(results))


def test_what_was_not_taken_is_a_warning_and_never_what_the_arms_differ_in() -> None:
    scheduling = "engine.scheduler_config.async_scheduling"
    arms = engines(scheduling, False, False)
    results = document(a_comparison_of({"async_scheduling": True}), trials({}, {}), arms)
    other = next(arm for arm in results["arms"] if arm["name"] == "other")
    assert other["not_taken"] == [{"setting": "engine.async_scheduling", "asked": True, "got": False}]
    assert "cannot be compared: they are the same thing twice" in results["summary"]
    assert "differ in" not in results["summary"]
    told = [one["detail"] for one in results["warnings"] if one["code"] == "not_taken"]
    assert told == ["Its engine did not take what was asked for: engine.async_scheduling: asked true, got false."]
    assert any("asked true, got false" in one for one in list_remarks(results))


def test_what_could_not_be_read_back_is_said() -> None:
    arms = [a_resolved_arm("sync", {}), a_resolved_arm("other", {})]
    results = document(a_comparison_of({"block_size": 32}), trials({}, {}), arms)
    assert [one["detail"] for one in results["warnings"] if one["code"] == "not_read_back"] == [
        "Whether it is in force could not be read back: engine.block_size."
    ]
    assert (
        "They may differ in engine.block_size (asked: 32 against null), which could not be read back."
        in (results["summary"])
    )
