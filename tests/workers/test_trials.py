"""The order, the settling, the failures of a run of trials."""

from typing import Any

import pytest

from app.errors import Cancelled, Draining, EngineDied
from app.measure.records import TrialResult, TrialState
from app.spec.plan import Phase
from tests.support.builders import a_simulated_spec
from tests.support.engines import Run, a_run
from workers.trials import run_trials


def results_of(run: Run) -> list[TrialResult]:
    return list(run_trials(run.plan, run.pool, run.workload, run.rules, run.watch))


def failing(slots: list[int], **changes: Any) -> Run:
    arms = [
        {"name": "sync", "profile": "simulated"},
        {"name": "async", "profile": "simulated", "driver": {"failing_slots": slots}},
    ]
    return a_run(a_simulated_spec(arms=arms, **changes))


def test_every_planned_trial_yields_one_result_in_order() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 2}))
    assert [result.planned for result in results_of(run)] == list(run.plan.trials)


def test_both_arms_of_a_block_get_the_same_requests_and_blocks_differ() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 2}))
    measured = [result for result in results_of(run) if result.planned.phase is Phase.MEASURED]
    outputs = [tuple(record.output_sha256 for record in result.records) for result in measured]
    assert outputs[0] == outputs[1]
    assert outputs[2] == outputs[3]
    assert outputs[0] != outputs[2]


def test_a_simulated_arm_takes_exactly_what_its_spec_says() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 1, "warmup_trials": 0}))
    sync, other = results_of(run)
    last = max(record.delivered_s for record in sync.records)
    assert last == pytest.approx(128 * 0.010)
    assert max(record.delivered_s for record in other.records) / last == pytest.approx(1.2)


def test_a_failed_trial_is_a_result_and_the_plan_goes_on_with_a_new_engine() -> None:
    run = failing([2], plan={"blocks": 3, "warmup_trials": 0})
    results = results_of(run)
    assert [result.state for result in results].count(TrialState.FAILED) == 1
    failed = next(result for result in results if result.state is TrialState.FAILED)
    assert failed.planned.arm == "async"
    assert failed.error == "the spec says that trial 2 fails"
    assert len(results) == 6
    assert run.pool.journal.count("discard async") == 1
    assert run.pool.journal.count("start async") == 1


def test_an_engine_that_is_new_settles_before_it_is_measured() -> None:
    run = failing([2], plan={"blocks": 3, "warmup_trials": 0})
    results_of(run)
    after = run.pool.journal[run.pool.journal.index("start async") :]
    assert after[:3] == ["start async", "settle async", "run async"]


def test_an_arm_that_fails_twice_in_a_row_ends_the_experiment() -> None:
    run = failing([1, 2], plan={"blocks": 3, "warmup_trials": 0})
    kept: list[TrialResult] = []
    with pytest.raises(EngineDied):
        kept.extend(run_trials(run.plan, run.pool, run.workload, run.rules, run.watch))
    assert [result.state for result in kept] == [TrialState.SUCCEEDED, TrialState.FAILED, TrialState.FAILED]


def test_engines_that_take_turns_settle_after_every_swap_only() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 2, "warmup_trials": 0}), takes_turns=True)
    results_of(run)
    assert run.pool.journal == [
        "settle sync",
        "run sync",
        "settle async",
        "run async",
        "run async",
        "settle sync",
        "run sync",
    ]


def test_restarted_engines_warm_up_before_every_measured_trial() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 1, "residency": "restart"}))
    results_of(run)
    assert run.pool.journal == [
        "start sync",
        "settle sync",
        "run sync",
        "run sync",
        "start async",
        "settle async",
        "run async",
        "run async",
    ]


def test_a_cancelled_run_stops_before_its_next_trial_and_keeps_what_it_has() -> None:
    run = a_run(a_simulated_spec())
    trials = run_trials(run.plan, run.pool, run.workload, run.rules, run.watch)
    next(trials)
    run.watch.cancelled.set()
    with pytest.raises(Cancelled):
        next(trials)


def test_a_draining_worker_hands_back_between_trials() -> None:
    run = a_run(a_simulated_spec())
    trials = run_trials(run.plan, run.pool, run.workload, run.rules, run.watch)
    next(trials)
    run.watch.drain()
    with pytest.raises(Draining):
        next(trials)


def test_a_disturbed_block_is_run_again_at_the_end_in_the_same_order() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 4, "warmup_trials": 0}))
    run.pool.disturbed_slots = {3}
    results = results_of(run)
    repeated = [(result.planned.block, result.planned.arm, result.planned.slot) for result in results[8:]]
    assert repeated == [(4, "async", 8), (4, "sync", 9)]


def test_repeats_are_bounded_and_a_disturbed_repeat_is_not_repeated() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 6, "warmup_trials": 0}))
    run.pool.disturbed_slots = set(range(100))
    assert run.plan.most_repeats == 2
    assert len(results_of(run)) == 12 + 4


def test_a_disturbed_block_is_run_again_on_the_engines_of_its_start() -> None:
    run = a_run(a_simulated_spec(plan={"blocks": 4, "starts": 2, "warmup_trials": 0}))
    run.pool.disturbed_slots = {1}
    results = results_of(run)
    assert [(result.planned.block, result.planned.start) for result in results[::2]] == [
        (0, 0),
        (1, 0),
        (4, 0),
        (2, 1),
        (3, 1),
    ]
    assert run.pool.journal.index("start sync") > 2 * 3 - 1
