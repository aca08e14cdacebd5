"""The whole answer, from whatever there is."""

import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FailureCode
from app.judge.comparison import Verdict
from app.judge.results import ArmResult, Distribution, NoiseFloor, Results, Scalar, build_results
from app.judge.warnings import WarningCode
from app.measure.metrics import METRICS, Kind, TrialSummary, summarise
from app.measure.records import Conditions, HarnessUse, StartedArm, TrialState, Unseen
from app.spec.experiment import Experiment, ServiceLevels
from app.spec.lifecycle import Failure, Status
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from tests.support.builders import (
    a_gpu,
    a_neighbour,
    a_record,
    a_resolved_arm,
    a_result,
    a_simulated_spec,
    a_spec,
    a_trial,
    some_work,
)

FIGURES = {"output_throughput": 100.0, "duration_s": 0.4}


def run_of(spec: Experiment, blocks: int | None = None, slower: float = 0.8) -> list[TrialSummary]:
    """Trials as the plan orders them; every arm but the baseline has `slower` of its throughput."""
    resolved = resolve(spec)
    noise = random.Random(7)
    return [
        a_trial(
            trial.arm,
            trial.block,
            trial.position,
            100 * (1 if trial.arm == resolved.baseline else slower) * (1 + noise.gauss(0, 0.002)),
            planned=trial,
        )
        for trial in plan_trials(spec, resolved).measured
        if blocks is None or trial.block < blocks
    ]


def results_of(
    trials: list[TrialSummary],
    spec: Experiment | None = None,
    status: Status = Status.SUCCEEDED,
    arms: list[StartedArm] | None = None,
    **options: Any,
) -> Results:
    spec = spec or a_spec()
    resolved = resolve(spec)
    if arms is None:
        arms = [
            a_resolved_arm(arm.name, {"driver.api": arm.driver.api.value}, hardware={"gpu_count": 0})
            for arm in resolved.arms
        ]
    return build_results(
        "an-id",
        spec=spec,
        resolved=resolved,
        plan=plan_trials(spec, resolved),
        status=status,
        arms=arms,
        trials=trials,
        **options,
    )


def codes(results: Results) -> set[WarningCode]:
    return {warning.code for warning in results.warnings} - {WarningCode.MISSING_PERCENTILES}


# --- the contract --------------------------------------------------------------------------------------------------


def test_the_answer_has_the_keys_the_contract_promises() -> None:
    wire = json.loads(results_of(run_of(a_spec())).model_dump_json())
    assert set(wire) >= {
        "experiment_id", "status", "complete", "simulated", "summary", "arms", "trials", "comparisons", "parity",
        "fairness", "explanation", "warnings", "environment", "method",
    }  # fmt: skip
    assert set(wire["arms"][0]["output_throughput"]) >= {"mean", "std", "per_trial"}
    assert set(wire["arms"][0]["e2el_ms"]) >= {"mean", "std", "p50", "p90", "p95", "p99"}
    assert set(wire["comparisons"][0]) >= {
        "metric", "unit", "higher_is_better", "primary", "baseline", "candidate", "ratio", "change_pct",
        "interval_pct", "p_t", "p_sign_flip", "pairs", "dropped_blocks", "detectable_effect_pct", "blocks_needed",
        "verdict",
    }  # fmt: skip
    assert wire["parity"]["declared"][0]["key"] == "driver.api"
    assert wire["fairness"]["output_tokens"] == {"sync": 240, "async": 240}
    assert wire["explanation"] is None
    assert wire["method"] == {"name": "paired-log-t", "version": 2}
    assert wire["environment"]["vllm"] == "0.32.0"


def test_an_answer_survives_the_trip_through_json() -> None:
    results = results_of(run_of(a_spec()))
    assert Results.model_validate_json(results.model_dump_json()) == results


def test_an_arm_has_a_described_field_for_every_metric() -> None:
    schema = ArmResult.model_json_schema()["properties"]
    assert set(METRICS) <= set(schema)
    assert all(METRICS[key].unit in schema[key]["description"] for key in METRICS)


def test_every_field_of_the_answer_is_described() -> None:
    schema = Results.model_json_schema()
    for model in (schema, *schema["$defs"].values()):
        for name, field in model.get("properties", {}).items():
            assert field.get("description"), f"{model.get('title')}.{name}"


def test_metrics_are_found_by_key() -> None:
    (sync, _) = results_of(run_of(a_spec())).arms
    assert isinstance(sync.metric("output_throughput"), Scalar)
    assert isinstance(sync.metric("ttft_ms"), Distribution)


# --- from records to verdict ---------------------------------------------------------------------------------------


def test_records_go_in_and_a_verdict_comes_out() -> None:
    spec = a_simulated_spec()
    resolved = resolve(spec)
    trials = []
    for trial in plan_trials(spec, resolved).measured:
        step = (0.010 if trial.arm == "sync" else 0.012) * (1 + 0.0001 * (7 * trial.slot % 5))
        records = [a_record(0.0, first=step, last=128 * step, output_tokens=128, sample_index=i) for i in range(4)]
        result = a_result(*records, planned=trial)
        trials.append(summarise(result, 1, gpus=0, service_levels=ServiceLevels()))
    results = results_of(trials, spec)
    sync, other = results.arms
    assert sync.metric("step_ms").mean == pytest.approx(10, rel=0.01)
    assert other.metric("step_ms").mean == pytest.approx(12, rel=0.01)
    assert results.simulated
    assert results.summary.startswith("Simulated. async is 16.7 % slower than sync on output throughput")
    assert results.fairness is not None
    assert results.fairness.identical_outputs_pct == 100.0


# --- arms ----------------------------------------------------------------------------------------------------------


def test_a_metric_with_one_value_per_trial_keeps_them_all_in_order() -> None:
    trials = [a_trial("sync", 1, 1, 110.0), a_trial("sync", 0, 0, 90.0)]
    throughput = results_of(trials).arms[0].metric("output_throughput")
    assert isinstance(throughput, Scalar)
    assert throughput.per_trial == (90.0, 110.0)
    assert throughput.mean == 100.0
    assert throughput.std == pytest.approx(14.142, abs=0.001)


def test_a_distribution_is_averaged_statistic_by_statistic() -> None:
    trials = [a_trial("sync", block, block, metrics={"ttft_ms.p50": 10.0 + block}) for block in range(2)]
    ttft = results_of(trials).arms[0].metric("ttft_ms")
    assert isinstance(ttft, Distribution)
    assert ttft.p50 == 10.5
    assert ttft.p99 is None


def test_a_missing_value_has_its_reason_beside_it() -> None:
    trials = [a_trial("sync", metrics={"power_w": None}, missing={"power_w": "no GPU telemetry"})]
    power = results_of(trials).arms[0].metric("power_w")
    assert (power.mean, power.missing) == (None, "no GPU telemetry")


def test_failed_trials_are_listed_but_not_averaged() -> None:
    results = results_of([a_trial("sync", 0, 0, 90.0), a_trial("sync", 1, 1, error="the engine died")])
    assert results.arms[0].trials == 1
    assert results.arms[0].metric("output_throughput").mean == 90.0
    assert [trial.state for trial in results.trials] == [TrialState.SUCCEEDED, TrialState.FAILED]
    assert results.trials[1].error == "the engine died"


def test_an_arm_that_has_not_run_says_so() -> None:
    throughput = results_of([], status=Status.RUNNING).arms[0].metric("output_throughput")
    assert (throughput.mean, throughput.missing) == (None, "no trial counts")


# --- every moment of an experiment's life --------------------------------------------------------------------------


def test_a_finished_experiment_is_complete_and_has_a_verdict() -> None:
    results = results_of(run_of(a_spec()))
    assert results.complete
    assert results.comparisons[0].verdict is Verdict.SLOWER


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.CANCELLED, Status.FAILED])
def test_a_verdict_waits_for_the_end_the_plan_foresaw(status: Status) -> None:
    results = results_of(run_of(a_spec(), blocks=4), status=status)
    assert not results.complete
    assert results.comparisons[0].verdict is Verdict.INCONCLUSIVE
    assert results.comparisons[0].reasons
    assert results.comparisons[0].change_pct == pytest.approx(-20, abs=1)


def test_a_failed_experiment_keeps_its_numbers_but_gets_no_verdict() -> None:
    failure = Failure(code=FailureCode.ENGINE_DIED, detail="gone", arm="async")
    results = results_of(run_of(a_spec(), blocks=5), status=Status.FAILED, failure=failure)
    assert results.failure == failure
    assert results.verdicts == (Verdict.INCONCLUSIVE,)
    assert results.comparisons[0].pairs == 5
    assert "no verdict, the experiment ended where no plan foresaw it; a retry goes on" in results.summary


THREE = [{"name": name, "profile": "vllm-sync"} for name in ("a", "b", "c")]


def three_arms(b: float, c: float) -> Results:
    """Six blocks of a at 100 tokens/s beside b and c."""
    trials = [
        a_trial(arm, block, place, speed * (1 + 0.0005 * (block % 3)), slot=3 * block + place)
        for block in range(6)
        for place, (arm, speed) in enumerate((("a", 100.0), ("b", b), ("c", c)))
    ]
    return results_of(trials, a_spec(arms=THREE), arms=[])


@pytest.mark.parametrize(
    ("b", "c", "verdicts"),
    [
        (100, 100, (Verdict.SAME,)),
        (100, 80, (Verdict.SLOWER, Verdict.SAME)),
        (120, 80, (Verdict.SLOWER, Verdict.FASTER)),
        (120, 100, (Verdict.FASTER, Verdict.SAME)),
    ],
)
def test_the_verdict_of_several_candidates_is_the_worst(b: float, c: float, verdicts: tuple[Verdict, ...]) -> None:
    assert three_arms(b, c).verdicts == verdicts


def test_each_candidate_has_its_own_verdict() -> None:
    results = three_arms(120, 80)
    assert (results.verdict_on("b"), results.verdict_on("c")) == (Verdict.FASTER, Verdict.SLOWER)
    assert results.verdict_on("a") is None


def test_primary_metrics_that_disagree_are_both_counted_and_both_said() -> None:
    trials = [
        trial
        if trial.planned.arm == "sync"
        else dataclasses.replace(trial, metrics=trial.metrics | {"output_throughput": 100.0 + trial.planned.block % 3})
        for trial in run_of(a_spec(), blocks=6)
    ]
    results = results_of(trials)
    assert len(results.verdicts) == 2
    assert results.verdicts[0] is Verdict.SLOWER
    assert "slower than sync on duration (" in results.summary


@pytest.mark.parametrize("status", list(Status))
def test_nothing_at_all_still_gives_an_answer(status: Status) -> None:
    results = results_of([], status=status, arms=[])
    assert results.parity is None
    assert results.fairness is None
    assert results.environment is None
    assert all(one.verdict is Verdict.INCONCLUSIVE for one in results.comparisons)
    assert results.summary


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["sync", "async"]), st.booleans()), max_size=8))
def test_any_subset_of_trials_gives_an_answer(some: list[tuple[int, str, bool]]) -> None:
    trials = [
        a_trial(arm, block, 0 if (arm == "sync") == (block % 2 == 0) else 1, 100 + 3 * block, failed=failed)
        for block, arm, failed in {(block, arm): (block, arm, failed) for block, arm, failed in some}.values()
    ]
    results = results_of(trials, status=Status.FAILED)
    assert Results.model_validate_json(results.model_dump_json()) == results


def test_one_arm_alone_has_nothing_to_compare() -> None:
    spec = a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}])
    results = results_of(run_of(spec), spec)
    assert (results.comparisons, results.parity, results.fairness) == ((), None, None)


# --- validity ------------------------------------------------------------------------------------------------------


def test_undeclared_differences_make_every_comparison_confounded() -> None:
    key = "engine.scheduler_config.max_num_seqs"
    arms = [a_resolved_arm("sync", {key: 1024}), a_resolved_arm("async", {key: 128})]
    results = results_of(
        run_of(a_spec(engine={"max_num_seqs": None})), a_spec(engine={"max_num_seqs": None}), arms=arms
    )
    assert {one.verdict for one in results.comparisons} == {Verdict.CONFOUNDED}
    assert results.parity is not None
    assert results.parity.undeclared[0].values == {"sync": 1024, "async": 128}
    assert "max_num_seqs is 1024 in sync and 128 in async" in results.summary


def test_unequal_work_is_shown_in_fairness_and_in_the_summary() -> None:
    trials = run_of(a_spec())
    trials[1] = a_trial("async", 0, 1, 80, work=some_work(output_tokens=48))
    results = results_of(trials)
    assert results.fairness is not None
    assert not results.fairness.equal
    assert "output_tokens differ: sync 240, async 248" in results.summary


# --- warnings ------------------------------------------------------------------------------------------------------


def test_a_clean_run_has_no_warning_but_the_percentiles_it_lacks() -> None:
    results = results_of(run_of(a_spec()))
    assert codes(results) == set()
    assert results.warnings[0].detail == "A trial has 4 samples; percentiles need more: p90 64, p95 130, p99 662."


def test_enough_samples_lack_no_percentile() -> None:
    trials = [a_trial(arm, work=some_work(samples=700)) for arm in ("sync", "async")]
    assert results_of(trials).warnings == ()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"harness": HarnessUse(cpu_s=0.01, event_loop_lag_ms=None, outputs=4)}, WarningCode.HARNESS_SHARE),
        ({"harness": HarnessUse(cpu_s=0.0, event_loop_lag_ms=9.0, outputs=4)}, WarningCode.EVENT_LOOP_LAG),
        ({"conditions": Conditions(other_cpu_pct=30.0), "metrics": {"duration_s": 2.0}}, WarningCode.DISTURBED_HOST),
        ({"conditions": Conditions(gpus=(a_gpu(held_back_pct={"power": 60.0}),))}, WarningCode.THROTTLED),
        ({"conditions": Conditions(gpus=(a_gpu(a_neighbour()),))}, WarningCode.NEIGHBOUR),
        ({"conditions": Conditions(gpus=(a_gpu(unseen={Unseen.PROCESSES: "no"}),))}, WarningCode.CONDITIONS_UNSEEN),
        ({"conditions": Conditions(gpus=(a_gpu(unseen={Unseen.HELD_BACK: "no"}),))}, WarningCode.CONDITIONS_UNSEEN),
        ({"conditions": Conditions(idle_arms_cpu_pct=40.0), "metrics": {"duration_s": 2.0}}, WarningCode.IDLE_ARM),
        ({"work": some_work(prompt_tokens=100, cached_tokens=88)}, WarningCode.CACHED_TOKENS),
        ({"work": some_work(cached_tokens=None)}, WarningCode.CACHED_TOKENS_UNKNOWN),
        ({"metrics": {"ttft_ms.mean": None}, "missing": {"ttft_ms.mean": "no times"}}, WarningCode.MISSING_TIMES),
        ({"error": "the engine died"}, WarningCode.DROPPED_BLOCKS),
    ],
)
def test_what_limits_the_results_is_said_of_the_arm_it_concerns(changes: dict[str, Any], code: WarningCode) -> None:
    trials = [
        *run_of(a_spec(), blocks=5),
        a_trial("async", 5, 0, metrics=FIGURES | changes.pop("metrics", {}), **changes),
    ]
    trials.append(a_trial("sync", 5, 1))
    (warning,) = (one for one in results_of(trials).warnings if one.code is code)
    assert warning.arm == "async"


def test_a_share_below_the_limit_is_no_warning() -> None:
    trials = [
        a_trial(arm, harness=HarnessUse(0.003, 3.0, 4), conditions=Conditions(other_cpu_pct=9.0))
        for arm in ("sync", "async")
    ]
    assert codes(results_of(trials, a_spec(plan={"blocks": 1}))) == set()


def test_cached_tokens_that_samples_of_one_prompt_share_are_expected() -> None:
    trials = [a_trial(arm, work=some_work(prompt_tokens=100, cached_tokens=75)) for arm in ("sync", "async")]
    assert WarningCode.CACHED_TOKENS not in codes(results_of(trials))
    alone = a_spec(workload={"samples_per_prompt": 1})
    assert WarningCode.CACHED_TOKENS in codes(results_of(trials, alone))


def test_warnings_about_the_plan() -> None:
    assert WarningCode.SIMULATED in codes(results_of([], a_simulated_spec()))
    assert WarningCode.NO_WARMUP in codes(results_of([], a_spec(plan={"warmup_trials": 0})))
    looked = a_spec(plan={"looks": [4]})
    assert WarningCode.STOPPED_EARLY in codes(results_of(run_of(looked, blocks=4), looked))
    three = a_spec(arms=[{"name": name, "profile": "vllm-sync"} for name in ("a", "b", "c")])
    assert WarningCode.SEVERAL_CANDIDATES in codes(results_of([], three))


def test_a_difference_that_one_start_of_equal_engines_may_show_is_pointed_out() -> None:
    quiet, loud = (
        NoiseFloor(noise_pct=0.3, floor_pct=1.0, experiments=3, starts=6),
        NoiseFloor(noise_pct=0.3, floor_pct=30.0, experiments=3, starts=6),
    )
    spec = a_spec(plan={"blocks": 8, "starts": 4})
    trials = run_of(spec)
    assert codes(results_of(trials, spec, noise=quiet)) == set()
    assert codes(results_of(trials, spec, noise=loud)) == {WarningCode.WITHIN_NOISE_FLOOR}


def test_a_floor_of_an_earlier_version_was_the_largest_change_seen_and_points_at_nothing() -> None:
    earlier = NoiseFloor.model_validate({"noise_pct": 0.3, "floor_pct": 30.0, "experiments": 3})
    assert codes(results_of(run_of(a_spec()), noise=earlier)) == set()


def test_trials_carry_their_start_and_blocks_too() -> None:
    spec = a_spec(plan={"blocks": 4, "starts": 2})
    results = results_of(run_of(spec), spec)
    assert [trial.start for trial in results.trials] == [0] * 4 + [1] * 4
    assert [block.start for block in results.comparisons[0].blocks] == [0, 0, 1, 1]


def test_kinds_of_metrics_and_fields_of_arms_agree() -> None:
    fields = ArmResult.model_fields
    for key, metric in METRICS.items():
        assert fields[key].annotation is (Scalar if metric.kind is Kind.SCALAR else Distribution)


def test_a_trial_tells_who_else_was_on_its_gpu_and_what_held_it_back() -> None:
    gpus = (a_gpu(a_neighbour(), held_back_pct={"power": 5.0}), a_gpu(held_back_pct={"power": 85.0, "heat": 0.0}))
    (beside, before) = results_of([a_trial(conditions=Conditions(gpus=gpus)), a_trial("async", position=1)]).trials
    assert beside.neighbours == ("another process, python3 (pid 4711, 2.0 GiB) held memory of GPU 0",)
    assert beside.held_back_pct == {"power": 85.0, "heat": 0.0}
    assert (before.neighbours, before.held_back_pct) == ((), {})


def disturbed_run(blocks: int = 6) -> list[TrialSummary]:
    """Equal arms, but for the last block: there others took half of the CPUs during the trial of `async`."""
    trials = [
        a_trial(arm, block, position, 100.0 + block % 3 / 10)
        for block in range(blocks)
        for position, arm in enumerate(("sync", "async") if block % 2 == 0 else ("async", "sync"))
    ]
    return [
        dataclasses.replace(
            trial,
            metrics=trial.metrics | {"output_throughput": 60.0},
            conditions=Conditions(other_cpu_pct=50.0),
        )
        if (trial.planned.block, trial.planned.arm) == (blocks - 1, "async")
        else trial
        for trial in trials
    ]


def test_a_disturbed_trial_counts_nowhere_and_takes_its_partner_along() -> None:
    results = results_of(disturbed_run())
    comparison = results.comparisons[0]
    assert comparison.verdict is Verdict.SAME
    assert [arm.trials for arm in results.arms] == [5, 5]
    for side, arm in zip(("baseline", "candidate"), results.arms, strict=True):
        throughput = arm.metric("output_throughput")
        assert isinstance(throughput, Scalar)
        assert throughput.per_trial == tuple(getattr(block, side) for block in comparison.blocks)


def test_a_disturbed_trial_stays_visible_with_the_reason() -> None:
    results = results_of(disturbed_run())
    dropped = {(trial.block, trial.arm): trial.dropped for trial in results.trials if trial.dropped is not None}
    assert set(dropped) == {(5, "sync"), (5, "async")}
    assert all("async was disturbed: other processes took 50 % of the CPUs" in (why or "") for why in dropped.values())


def test_a_baseline_counts_where_any_candidate_does() -> None:
    trials = [
        a_trial(arm, block, place, slot=3 * block + place, failed=(block, arm) == (0, "b"))
        for block in range(2)
        for place, arm in enumerate("abc")
    ]
    results = results_of(trials, a_spec(arms=THREE), arms=[])
    assert [arm.trials for arm in results.arms] == [2, 1, 2]


def test_a_dropped_block_still_confounds_by_its_work() -> None:
    trials = [
        dataclasses.replace(trial, work=some_work(prompt_tokens=64))
        if trial.conditions is not None and trial.conditions.other_cpu_pct
        else trial
        for trial in disturbed_run()
    ]
    assert results_of(trials).verdicts == (Verdict.CONFOUNDED,)


def test_unequal_preemptions_and_tolerated_differences_are_said() -> None:
    trials = [
        dataclasses.replace(
            trial,
            metrics=trial.metrics | {"preemptions": 3.0 if trial.planned.arm == "async" else 0.0},
            work=some_work(prompt_tokens=4000, cached_tokens=20 if trial.planned.arm == "async" else 0),
        )
        for trial in run_of(a_spec(), blocks=6)
    ]
    results = results_of(trials)
    said = [warning.detail for warning in results.warnings if warning.code is WarningCode.UNEQUAL_WORK]
    assert said[0] == "cached_tokens differ within the tolerance: sync 0, async 120."
    assert said[1].startswith("Preemptions differ: sync 0, async 18.")
    assert results.fairness is not None
    assert results.fairness.equal
    assert Verdict.CONFOUNDED not in results.verdicts


def test_results_of_before_trials_said_why_they_do_not_count_still_load() -> None:
    document = results_of(disturbed_run()).model_dump(mode="json")
    for trial in document["trials"]:
        del trial["dropped"]
    del document["fairness"]["tolerated"]
    assert Results.model_validate(document).trials[0].dropped is None


def test_blocks_that_are_run_again_are_not_done_twice() -> None:
    results = results_of([*run_of(a_spec(), 4), *repeats_of(run_of(a_spec(), 4))], status=Status.RUNNING)
    assert results.summary.startswith("Running: 4 of 6 blocks are done.")


def repeats_of(trials: list[TrialSummary], planned: int = 6) -> list[TrialSummary]:
    """The same trials once more, as blocks beyond the plan."""
    return [
        dataclasses.replace(
            one,
            planned=one.planned.model_copy(
                update={"block": planned + one.planned.block, "slot": 2 * planned + one.planned.slot}
            ),
        )
        for one in trials
    ]


def test_an_experiment_that_a_look_ended_says_so_also_after_repeats() -> None:
    spec = a_spec(plan={"blocks": 6, "looks": [4]})
    trials = [*run_of(spec, 4), *repeats_of(run_of(spec, 2))]
    assert WarningCode.STOPPED_EARLY in codes(results_of(trials, spec))


def test_where_no_block_ran_to_its_end_equal_work_is_not_claimed() -> None:
    trials = [
        dataclasses.replace(one, state=TrialState.FAILED, work=None) if one.planned.arm == "async" else one
        for one in run_of(a_spec())
    ]
    assert results_of(trials).fairness is None


def test_cached_tokens_of_a_disturbed_block_are_the_disturbance_s_and_confound_nothing() -> None:
    busy = Conditions(other_cpu_pct=60.0)
    trials = [
        dataclasses.replace(one, conditions=busy, work=some_work(cached_tokens=16 * (one.planned.arm == "sync")))
        if one.planned.block == 0
        else one
        for one in run_of(a_spec())
    ]
    results = results_of(trials)
    assert results.verdicts == (Verdict.SLOWER,)
    assert results.fairness is not None
    assert results.fairness.equal


def test_a_difference_between_two_arms_is_told_whichever_arm_comes_first() -> None:
    """`a` lies between the others: no two of a and b, or a and c, are proven apart, and b and c are."""
    spec = a_spec(
        arms=[{"name": name, "profile": "vllm-sync"} for name in ("a", "b", "c")],
        baseline="b",
        workload={"output": {"stop": "natural", "max_tokens": 100}},
    )
    tokens = {"a": 1000, "b": 994, "c": 1007}
    trials = [
        dataclasses.replace(
            one,
            work=some_work(
                output_tokens=tokens[one.planned.arm] + one.planned.block % 2,
                finish_reasons={"stop": 4},
                shape_sha256=str(tokens[one.planned.arm]) * 16,
            ),
        )
        for one in run_of(spec)
    ]
    results = results_of(trials, spec)
    assert results.verdict_on("c") is Verdict.CONFOUNDED
    assert results.fairness is not None
    assert not results.fairness.equal
