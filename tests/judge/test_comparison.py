"""Verdicts: what the blocks say, and when they may not say it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.judge.comparison import Comparison, Verdict, compare, find_decision_level, should_stop_early
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, ProcessTreatment, StartedArm
from app.spec.experiment import Experiment
from app.spec.plan import Phase, plan_trials
from app.spec.resolution import resolve
from app.stats.paired import PairedResult, compare_paired
from tests.support.builders import a_resolved_arm, a_simulated_spec, a_spec, a_trial, some_work

MIRRORED = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.SAME: Verdict.SAME,
    Verdict.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Verdict.CONFOUNDED: Verdict.CONFOUNDED,
}
SAME_SPEED = (100.0, 101.0, 99.0, 100.5, 100.2, 99.9)


def trials_of(sync: Sequence[float], other: Sequence[float], **changes: Any) -> list[TrialSummary]:
    """ABBA: the arm of even blocks' first trial is `sync`."""
    trials: list[TrialSummary] = []
    for block, (ours, theirs) in enumerate(zip(sync, other, strict=True)):
        trials += [
            a_trial("sync", block, block % 2, ours, **changes),
            a_trial("async", block, 1 - block % 2, theirs, **changes),
        ]
    return trials


BALANCED = (1, -1, 0, 1, -1, 0)  # noise with mean 0 in either order, so that it is no position effect


def slower_by(percent: float, noise_pct: float = 0.1) -> list[float]:
    """`SAME_SPEED`, but slower, and not by the same factor in every block."""
    return [
        value * (1 - percent / 100) * (1 + sign * noise_pct / 100)
        for value, sign in zip(SAME_SPEED, BALANCED, strict=True)
    ]


def compared(
    trials: Sequence[TrialSummary], spec: Experiment | None = None, arms: Sequence[StartedArm] = (), **options: Any
) -> dict[str, Comparison]:
    spec = spec or a_spec()
    return {one.metric: one for one in compare(spec, resolve(spec), trials, arms, **options)}


def throughput(trials: Sequence[TrialSummary], **changes: Any) -> Comparison:
    return compared(trials, a_spec(**changes))["output_throughput"]


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_lower_throughput_is_slower() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(10)))
    assert comparison.verdict is Verdict.SLOWER
    assert comparison.change_pct == pytest.approx(-10, abs=0.01)
    assert not comparison.within_margin


def test_higher_throughput_is_faster_and_shorter_duration_too() -> None:
    both = compared(trials_of(slower_by(10), SAME_SPEED))
    assert both["output_throughput"].verdict is both["duration_s"].verdict is Verdict.FASTER


def test_a_proven_difference_within_the_margin_is_said_to_be_small() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(1)))
    assert comparison.verdict is Verdict.SLOWER
    assert comparison.within_margin


def test_arms_that_tie_within_the_margin_are_the_same() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(0)))
    assert comparison.verdict is Verdict.SAME
    assert comparison.within_margin
    assert comparison.reasons == ()


def test_an_interval_that_reaches_beyond_the_margin_is_inconclusive_and_not_the_same() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(0, noise_pct=10)))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.detectable_effect_pct is not None
    assert comparison.detectable_effect_pct > 2
    assert comparison.blocks_needed is not None
    assert comparison.blocks_needed > comparison.pairs
    assert comparison.reasons == ("the interval includes 0 and reaches beyond the margin of 2 %",)


def test_a_wider_margin_makes_more_the_same() -> None:
    trials = trials_of(SAME_SPEED, slower_by(0, noise_pct=2))
    assert throughput(trials, decision={"margin_pct": 0.5}).verdict is Verdict.INCONCLUSIVE
    assert throughput(trials, decision={"margin_pct": 5}).verdict is Verdict.SAME


def test_identical_values_are_the_same_with_a_point_for_an_interval() -> None:
    comparison = throughput(trials_of(SAME_SPEED, SAME_SPEED))
    assert comparison.verdict is Verdict.SAME
    assert comparison.interval_pct == (0, 0)


# --- too little ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [0, 1])
def test_fewer_than_two_blocks_are_inconclusive_with_a_reason_and_no_exception(blocks: int) -> None:
    comparison = throughput(trials_of(SAME_SPEED[:blocks], slower_by(10)[:blocks]))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.interval_pct is None
    assert comparison.reasons[0].startswith(f"fewer than 2 blocks ({blocks})")


def test_one_block_still_has_a_ratio() -> None:
    assert throughput(trials_of([100], [90])).ratio == pytest.approx(0.9)


def test_two_noisy_blocks_do_not_overflow() -> None:
    comparison = throughput(trials_of([1e-3, 1e3], [1e3, 1e-3]), decision={"alpha": 1e-6})
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.interval_pct is None


def test_a_value_of_0_has_no_ratio() -> None:
    trials = trials_of(SAME_SPEED, SAME_SPEED, metrics={"preemptions": 0.0})
    trials[4] = a_trial("sync", 2, 0, metrics={"preemptions": 3.0})
    comparison = compared(trials)["preemptions"]
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reasons == ("sync has 0 in block 0, and a ratio needs values above 0",)


def test_a_metric_that_is_0_throughout_is_not_compared() -> None:
    assert "preemptions" not in compared(trials_of(SAME_SPEED, SAME_SPEED, metrics={"preemptions": 0.0}))


# --- blocks --------------------------------------------------------------------------------------------------------


def test_a_failed_trial_takes_its_whole_block_out() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials[4] = a_trial("sync", 2, 0, error="the engine died")
    comparison = throughput(trials)
    assert comparison.pairs == 5
    assert [one.block for one in comparison.blocks] == [0, 1, 3, 4, 5]
    assert [(one.block, one.reason) for one in comparison.dropped_blocks] == [(2, "sync failed: the engine died")]


def test_a_block_in_which_an_arm_has_not_run_does_not_count() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(10))[:-1])
    assert comparison.dropped_blocks[0].reason == "async has not run"


def test_a_third_arm_that_failed_leaves_the_other_two_their_block() -> None:
    arms = [{"name": name, "profile": "vllm-sync"} for name in ("sync", "async", "third")]
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials += [a_trial("third", block, 2, 100 + block, slot=20 + block, failed=block == 0) for block in range(6)]
    found = {one.candidate: one for one in compare_all(trials, arms) if one.metric == "output_throughput"}
    assert (found["async"].pairs, found["third"].pairs) == (6, 5)


def compare_all(trials: Sequence[TrialSummary], arms: list[dict[str, Any]]) -> tuple[Comparison, ...]:
    spec = a_spec(arms=arms)
    return compare(spec, resolve(spec), trials, ())


def test_a_value_that_one_trial_lacks_drops_the_block_for_that_metric_only() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10), metrics={"step_ms": 5.0})
    trials[0] = a_trial("sync", 0, 0, 100, metrics={"step_ms": None}, missing={"step_ms": "no engine times"})
    found = compared(trials)
    assert found["output_throughput"].pairs == 6
    assert found["step_ms"].pairs == 5
    assert found["step_ms"].dropped_blocks[0].reason == "sync has no step_ms: no engine times"


def test_a_metric_that_an_arm_never_has_is_not_compared() -> None:
    trials = [*trials_of(SAME_SPEED, SAME_SPEED)]
    trials[1::2] = [
        a_trial("async", one.planned.block, one.planned.position, metrics={"itl_ms.p50": 5.0}) for one in trials[1::2]
    ]
    assert "itl_ms.p50" not in compared(trials)


def test_warm_ups_and_earlier_attempts_do_not_count() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10), attempt=2)
    trials += [a_trial("sync", 0, 0, 1.0, attempt=1), a_trial("async", 0, 1, 9.0, attempt=1)]
    trials += [a_trial("sync", 0, 0, 1.0, attempt=2, phase=Phase.WARMUP)]
    assert throughput(trials).change_pct == pytest.approx(-10, abs=0.01)


def test_values_travel_with_block_slot_and_order_so_that_anyone_can_compute_them_again() -> None:
    comparison = throughput(trials_of(SAME_SPEED, slower_by(3)))
    assert [(one.baseline_slot, one.candidate_slot) for one in comparison.blocks[:2]] == [(0, 1), (3, 2)]
    again = compare_paired(
        [one.baseline for one in comparison.blocks],
        [one.candidate for one in comparison.blocks],
        [1 if one.baseline_first else -1 for one in comparison.blocks],
        confidence=comparison.confidence,
    )
    assert isinstance(again, PairedResult)
    assert comparison.interval_pct is not None
    assert 100 * math.expm1(again.log_ratio.low) == comparison.interval_pct[0]
    assert (again.p_t, again.analysis) == (comparison.p_t, comparison.analysis)


def test_what_running_second_costs_is_told_apart_from_the_arm() -> None:
    second = 0.9
    trials: list[TrialSummary] = []
    for block, speed in enumerate(SAME_SPEED):
        for position, arm in enumerate(("sync", "async") if block % 2 == 0 else ("async", "sync")):
            trials.append(a_trial(arm, block, position, speed * (second if position else 1) * (1 + block / 1e4)))
    comparison = throughput(trials)
    assert comparison.verdict is Verdict.SAME
    assert comparison.position_effect_pct == pytest.approx(-10)


# --- confounded ----------------------------------------------------------------------------------------------------


def test_an_undeclared_difference_confounds_and_is_named_with_its_values() -> None:
    key = "engine.scheduler_config.max_num_seqs"
    arms = [a_resolved_arm("sync", {key: 1024}), a_resolved_arm("async", {key: 128})]
    comparison = compared(trials_of(SAME_SPEED, slower_by(20)), arms=arms)["output_throughput"]
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons == (f"{key} is 1024 in sync and 128 in async, and no setting says so",)
    assert comparison.change_pct == pytest.approx(-20, abs=0.01)


def test_an_undeclared_difference_of_a_third_arm_confounds_only_that_arm() -> None:
    key = "engine.scheduler_config.max_num_seqs"
    spec = a_spec(arms=[{"name": name, "profile": "vllm-sync"} for name in ("sync", "async", "third")])
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials += [a_trial("third", block, 2, 80 + block, slot=20 + block) for block in range(6)]
    arms = [a_resolved_arm("sync", {key: 1}), a_resolved_arm("async", {key: 1}), a_resolved_arm("third", {key: 2})]
    verdicts = {one.candidate: one.verdict for one in compare(spec, resolve(spec), trials, arms)}
    assert verdicts == {"async": Verdict.SLOWER, "third": Verdict.CONFOUNDED}


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ({"output_tokens": 50}, "output_tokens differ: sync 240, async 250"),
        ({"cached_tokens": 16}, "cached_tokens differ: sync 0, async 16"),
        ({"finish_reasons": {"stop": 4}}, "finish_reasons differ: sync 24 length, async 20 length, 4 stop"),
        ({"shape_sha256": "0"}, "shape differ: sample by sample"),
    ],
)
def test_unequal_work_confounds_even_in_one_block(work: dict[str, Any], reason: str) -> None:
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials[3] = a_trial("async", 1, 0, 90, work=some_work(**work))
    comparison = throughput(trials)
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons == (reason,)


def test_work_that_is_equal_in_all_but_not_block_by_block_confounds_too() -> None:
    # A prefix cache that stays warm favours whichever arm runs second.
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials[1] = a_trial("async", 0, 1, 90, work=some_work(cached_tokens=16))
    trials[2] = a_trial("sync", 1, 1, 100, work=some_work(cached_tokens=16))
    (reason,) = throughput(trials).reasons
    assert reason == "cached_tokens differ within blocks 0, 1, though every arm has 16 in all"


def test_unequal_work_in_a_block_that_does_not_count_does_not_matter() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10))
    trials[2:4] = [a_trial("sync", 1, 1, failed=True), a_trial("async", 1, 0, 90, work=some_work(output_tokens=50))]
    assert throughput(trials).verdict is Verdict.SLOWER


def disturbed(sync_pct: float, other_pct: float, seconds: float = 2.0) -> list[TrialSummary]:
    """Trials during which other processes took these shares of the CPUs."""
    return [
        a_trial(
            trial.planned.arm,
            trial.planned.block,
            trial.planned.position,
            metrics=trial.metrics | {"duration_s": seconds},
            conditions=Conditions(other_cpu_pct=sync_pct if trial.planned.arm == "sync" else other_pct),
        )
        for trial in trials_of(SAME_SPEED, slower_by(10))
    ]


def test_other_processes_during_one_arms_trials_confound() -> None:
    comparison = throughput(disturbed(3.0, 20.0))
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons == (
        (
            "other processes took 3 % of the CPUs during trials of sync and 20 % during those of async "
            "(median of 6 blocks)"
        ),
    )


def test_other_processes_during_both_arms_trials_are_noise() -> None:
    assert throughput(disturbed(20.0, 20.0)).verdict is Verdict.SLOWER


def test_a_trial_that_shared_the_host_beyond_the_limit_takes_its_block_with_it() -> None:
    comparison = throughput(disturbed(3.0, 48.0))
    assert comparison.pairs == 0
    assert comparison.verdict is Verdict.CONFOUNDED  # all of one arm's trials, and none of the other's
    assert comparison.dropped_blocks[0].reason == "async was disturbed: other processes took 48 % of the CPUs"


def test_a_trial_too_short_to_tell_other_processes_from_rounding_is_not_suspected() -> None:
    assert throughput(disturbed(3.0, 20.0, seconds=0.1)).verdict is Verdict.SLOWER


def beside(sync: Conditions, other: Conditions) -> Comparison:
    """What is said of arms whose trials ran under these conditions."""
    return throughput(
        [
            replace(trial, conditions=sync if trial.planned.arm == "sync" else other)
            for trial in trials_of(SAME_SPEED, slower_by(10))
        ]
    )


def test_an_idle_engine_that_takes_cores_from_one_arm_only_confounds_and_is_no_stranger() -> None:
    (reason,) = beside(Conditions(idle_arms_cpu_pct=2.0), Conditions(idle_arms_cpu_pct=45.0)).reasons
    assert reason == (
        "idle engines of other arms took 2 % of the CPUs during trials of sync and 45 % during those of async "
        "(median of 6 blocks)"
    )


def test_an_engine_that_is_stopped_in_every_trial_of_one_arm_confounds() -> None:
    found = beside(Conditions(stopped_pct=0.0), Conditions(stopped_pct=20.0))
    assert (found.pairs, found.verdict) == (0, Verdict.CONFOUNDED)
    assert found.reasons == ("the engine of async was stopped during 6 of 6 trials of it only",)


CORE = "VLLM::Worker"


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        (ProcessTreatment(CORE, 15, "0-1"), "niceness 0 on cores 0-1 during trials of sync and niceness 15"),
        (
            ProcessTreatment("VLLM::Worker", 0, "0"),
            "cores 0-1 during trials of sync and niceness 0 on cores 0 with async",
        ),
    ],
    ids=["niced", "pinned"],
)
def test_an_engine_process_that_is_niced_or_pinned_in_one_arm_confounds(worker: ProcessTreatment, told: str) -> None:
    driving = ProcessTreatment("arm", 0, "0-1")
    usual = Conditions(engine_processes=(driving, ProcessTreatment("VLLM::Worker", 0, "0-1")))
    found = beside(usual, Conditions(engine_processes=(driving, worker)))
    assert found.verdict is Verdict.CONFOUNDED
    assert told in found.reasons[0]


def test_a_process_that_only_one_arm_has_follows_from_what_it_is() -> None:
    in_process = Conditions(engine_processes=(ProcessTreatment("arm", 0, "0-1"),))
    separate = Conditions(
        engine_processes=(ProcessTreatment("VLLM::Worker", 0, "0"), ProcessTreatment("arm", 0, "0-1"))
    )
    assert beside(separate, in_process).verdict is Verdict.SLOWER


def test_simulated_arms_do_not_feel_other_processes() -> None:
    assert compared(disturbed(3.0, 20.0), a_simulated_spec())["output_throughput"].verdict is Verdict.SLOWER


def test_one_order_only_confounds_the_arm_with_its_place() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10))
    for block in (1, 3, 5):
        trials[2 * block] = a_trial("sync", block, 1, failed=True)
    comparison = throughput(trials)
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons[0].startswith("sync ran first in every block that counts")


# --- many metrics, many looks --------------------------------------------------------------------------------------


def test_primary_metrics_come_first_and_are_not_adjusted() -> None:
    found = list(compared(trials_of(SAME_SPEED, slower_by(1), metrics={"step_ms": 5.0})).values())
    assert [(one.metric, one.primary) for one in found] == [
        ("output_throughput", True),
        ("duration_s", True),
        ("step_ms", False),
    ]
    assert [one.p_holm is None for one in found] == [True, True, False]


def test_a_secondary_metric_that_is_one_of_many_needs_more() -> None:
    others = ("ttft_ms.p50", "tpot_ms.p50", "e2el_ms.p50", "queue_ms.p50")
    trials = [
        a_trial(
            arm,
            block,
            (block + index) % 2,
            metrics={
                **dict.fromkeys(others, 10.0 + block),
                "step_ms": 5 * (1 + index * (0.035 + 0.03 * BALANCED[block])),
            },
        )
        for block in range(6)
        for index, arm in enumerate(("sync", "async"))
    ]
    comparison = compared(trials)["step_ms"]
    assert comparison.p_t is not None
    assert comparison.p_holm is not None
    assert comparison.p_t < 0.05 < comparison.p_holm
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert "one of several secondary metrics" in comparison.reasons[0]


def test_a_sign_flip_p_needs_six_pairs() -> None:
    assert throughput(trials_of(SAME_SPEED[:5], slower_by(10)[:5])).p_sign_flip is None
    assert throughput(trials_of(SAME_SPEED, slower_by(10))).p_sign_flip == pytest.approx(2 / 64)


def test_planned_looks_cost_confidence() -> None:
    assert find_decision_level(a_spec()) == 0.05
    level = find_decision_level(a_spec(plan={"blocks": 10, "looks": [4, 6, 8]}))
    assert level == pytest.approx(0.018, abs=0.002)
    assert level == find_decision_level(a_spec(plan={"blocks": 10, "looks": [4, 6, 8, 10]}))
    trials = trials_of(SAME_SPEED, slower_by(10))
    assert throughput(trials, plan={"looks": [4]}).confidence == pytest.approx(
        1 - find_decision_level(a_spec(plan={"looks": [4]}))
    )


def test_a_level_too_small_for_the_table_is_split_evenly() -> None:
    assert find_decision_level(a_spec(plan={"looks": [2, 4]}, decision={"alpha": 3e-5})) == pytest.approx(1e-5)


def stops(trials: Sequence[TrialSummary], **plan: Any) -> bool:
    spec = a_spec(plan=plan)
    resolved = resolve(spec)
    return should_stop_early(spec, resolved, plan_trials(spec, resolved), trials)


def test_the_experiment_may_end_at_a_look_that_decides() -> None:
    four = trials_of(SAME_SPEED[:4], slower_by(30)[:4])
    assert stops(four, looks=[4])
    assert stops([*four, a_trial("sync", 4, 0, 99)], looks=[4])
    assert not stops(four[:-1], looks=[4])
    assert not stops(four, looks=[5])
    assert not stops(four, looks=[])


def test_the_experiment_goes_on_at_a_look_that_does_not_decide() -> None:
    assert not stops(trials_of(SAME_SPEED[:4], [90, 112, 95, 104]), looks=[4])


def test_an_a_a_experiment_does_not_stop_where_its_noise_happens_to_be_small() -> None:
    spec = a_spec(plan={"looks": [4]}, calibrate=True, arms=[{"name": "sync", "profile": "vllm-sync"}])
    resolved = resolve(spec)
    other = next(arm.name for arm in resolved.arms if arm.name != "sync")
    four = [
        a_trial(arm, block, position, 100 + 0.01 * block)
        for block in range(4)
        for position, arm in enumerate(("sync", other))
    ]
    assert should_stop_early(spec.model_copy(update={"calibrate": False}), resolved, plan_trials(spec, resolved), four)
    assert not should_stop_early(spec, resolved, plan_trials(spec, resolved), four)


def test_the_end_is_no_look_at_which_to_stop() -> None:
    assert not stops(trials_of(SAME_SPEED, slower_by(30)), looks=[4, 6])


def test_a_verdict_is_withheld_while_the_experiment_runs() -> None:
    comparison = compared(trials_of(SAME_SPEED, slower_by(10)), withheld="it still runs")["output_throughput"]
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reasons == ("it still runs",)
    assert comparison.blocks_needed is None
    assert comparison.interval_pct is not None


# --- properties ----------------------------------------------------------------------------------------------------

noise = st.floats(-0.1, 0.1)
series = st.lists(st.tuples(noise, noise), min_size=2, max_size=8)


def speeds(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [100 * math.exp(one) for one, _ in pairs], [100 * math.exp(other) for _, other in pairs]


@given(series)
def test_swapping_the_arms_mirrors_the_verdict(pairs: list[tuple[float, float]]) -> None:
    trials = trials_of(*speeds(pairs))
    forth = compared(trials)["output_throughput"]
    back = compared(trials, a_spec(baseline="async"))["output_throughput"]
    assert back.verdict is MIRRORED[forth.verdict]
    assert back.within_margin == forth.within_margin
    assert forth.ratio is not None
    assert back.ratio == pytest.approx(1 / forth.ratio)
    assert back.p_t == pytest.approx(forth.p_t)


@given(series)
def test_throughput_and_duration_of_the_same_work_agree(pairs: list[tuple[float, float]]) -> None:
    both = compared(trials_of(*speeds(pairs)))
    assert both["output_throughput"].verdict is both["duration_s"].verdict


@given(series, st.floats(0.1, 10))
def test_scaling_cancels(pairs: list[tuple[float, float]], scale: float) -> None:
    ours, theirs = speeds(pairs)
    plain = throughput(trials_of(ours, theirs))
    scaled = throughput(trials_of([scale * one for one in ours], [scale * one for one in theirs]))
    assert scaled.change_pct == pytest.approx(plain.change_pct, abs=1e-6)
    assert scaled.interval_pct == pytest.approx(plain.interval_pct, rel=1e-6, abs=1e-6)


@given(series, st.randoms())
def test_the_order_of_trials_does_not_matter(pairs: list[tuple[float, float]], random: Any) -> None:
    trials = trials_of(*speeds(pairs))
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert compared(shuffled) == compared(trials)


@given(series)
def test_a_verdict_never_claims_more_than_its_interval(pairs: list[tuple[float, float]]) -> None:
    comparison = throughput(trials_of(*speeds(pairs)))
    assert comparison.interval_pct is not None
    low, high = comparison.interval_pct
    match comparison.verdict:
        case Verdict.FASTER:
            assert low > 0
        case Verdict.SLOWER:
            assert high < 0
        case Verdict.SAME:
            assert low >= -2
            assert high <= 2
        case _:
            assert low <= 0 <= high


# --- unequal GPUs, engines that start anew -------------------------------------------------------------------------


def on_gpus(arm: str, block: int, throughput: float, gpus: int) -> TrialSummary:
    metrics: dict[str, float | None] = {"output_throughput_per_gpu": throughput / gpus}
    return a_trial(arm, block, block % 2 if arm == "sync" else 1 - block % 2, throughput, metrics=metrics)


def test_arms_with_unequal_gpus_are_compared_per_gpu() -> None:
    found = [
        trial
        for block in range(6)
        for trial in (on_gpus("sync", block, 100 + block, 1), on_gpus("async", block, 150 + block, 2))
    ]
    first = compare(a_spec(), resolve(a_spec()), found, [])[0]
    assert (first.metric, first.primary, first.verdict) == ("output_throughput_per_gpu", True, Verdict.SLOWER)


def test_arms_with_as_many_gpus_are_not_compared_twice() -> None:
    found = [on_gpus(arm, block, 100 + block, 2) for block in range(6) for arm in ("sync", "async")]
    assert "output_throughput_per_gpu" not in {one.metric for one in compare(a_spec(), resolve(a_spec()), found, [])}


def test_an_engine_that_was_another_when_started_anew_confounds_and_its_trials_are_named() -> None:
    trials = trials_of(SAME_SPEED, slower_by(10))
    changed = Conditions(engine_changes=("engine.cache_config.num_gpu_blocks is 900 instead of 1000",))
    trials[3] = replace(trials[3], conditions=changed)
    comparison = throughput(trials)
    assert comparison.verdict is Verdict.CONFOUNDED
    assert "another in its trials of blocks 1: engine.cache_config.num_gpu_blocks is 900" in comparison.reasons[0]


def test_repeats_at_the_end_are_no_blocks_to_look_after() -> None:
    repeat = [a_trial(arm, 6, position, 100 - 30 * position) for position, arm in enumerate(("sync", "async"))]
    assert not stops([*trials_of(SAME_SPEED[:3], slower_by(30)[:3]), *repeat], looks=[4], blocks=6)


def test_what_blocks_can_show_is_told_by_the_orders_that_counted() -> None:
    """Five blocks of which one ran the other way round know less than three and two."""
    values = zip(SAME_SPEED[:5], slower_by(1, noise_pct=1)[:5], strict=True)
    lopsided = [
        trial
        for block, (ours, theirs) in enumerate(values)
        for trial in (a_trial("sync", block, int(block == 0), ours), a_trial("async", block, int(block > 0), theirs))
    ]
    (balanced, uneven) = (
        compared(trials)["output_throughput"]
        for trials in (trials_of(SAME_SPEED[:5], slower_by(1, noise_pct=1)[:5]), lopsided)
    )
    for one in (balanced, uneven):
        assert one.analysis == "crossover"
        assert one.interval_pct is not None
        assert one.detectable_effect_pct is not None
        half = (one.interval_pct[1] - one.interval_pct[0]) / 2
        assert one.detectable_effect_pct == pytest.approx(1.31 * half, rel=0.05)  # t of 3 degrees of freedom


def test_the_host_s_shares_are_told_of_one_block_in_the_direction_that_confounds() -> None:
    shares = ((0.0, 20.0), (24.0, 24.9), (24.0, 0.0), (0.0, 20.0), (2.0, 24.9), (24.0, 24.0))
    trials = [
        replace(trial, conditions=Conditions(other_cpu_pct=shares[trial.planned.block][trial.planned.arm == "async"]))
        for trial in disturbed(0.0, 0.0)
    ]
    comparison = throughput(trials)
    assert comparison.verdict is Verdict.CONFOUNDED
    assert comparison.reasons == (
        (
            "other processes took 0 % of the CPUs during trials of sync and 20 % during those of async "
            "(median of 6 blocks)"
        ),
    )
