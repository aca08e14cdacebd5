"""The schedule: which trial runs when, and on which start of its engine."""

from typing import Any

import pytest

from app.errors import InvalidInput
from app.spec.plan import Phase, PlannedTrial, TrialPlan, plan_trials, remaining, repeat_block
from app.spec.resolution import resolve
from tests.support.builders import a_spec

ONE_ENGINE: list[dict[str, Any]] = [
    {"name": "final", "profile": "vllm-async"},
    {"name": "delta", "profile": "vllm-async", "driver": {"output_kind": "delta"}},
]


def plan_of(**changes: Any) -> TrialPlan:
    spec = a_spec(**changes)
    return plan_trials(spec, resolve(spec))


def text_of(trials: tuple[PlannedTrial, ...]) -> str:
    """`*` is a fresh engine, a capital a measured trial: `s*a*SAAS`."""
    return "".join(
        (trial.arm[0].upper() if trial.phase is Phase.MEASURED else trial.arm[0]) + "*" * trial.fresh_engine
        for trial in trials
    )


def errors_of(**plan: Any) -> dict[str, str]:
    spec = a_spec(plan=plan)
    with pytest.raises(InvalidInput) as refused:
        resolve(spec)
    return {error.pointer: error.detail for error in refused.value.errors}


def test_engines_start_once_unless_the_plan_says_otherwise() -> None:
    plan = plan_of(plan={"blocks": 2})
    assert text_of(plan.trials) == "saSAAS"
    assert (plan.order, plan.engine_starts) == ("ABBA", 2)
    assert {trial.start for trial in plan.trials} == {0}


def test_every_start_has_fresh_engines_of_every_arm_that_warm_up_first() -> None:
    plan = plan_of(plan={"blocks": 4, "starts": 2})
    assert text_of(plan.trials) == "saSAAS" + "s*a*SAAS"
    assert (plan.order, plan.engine_starts) == ("ABBA|ABBA", 4)


def test_without_warm_up_the_first_measured_trial_of_every_arm_is_the_fresh_one() -> None:
    assert text_of(plan_of(plan={"blocks": 4, "starts": 2, "warmup_trials": 0}).trials) == "SAAS" + "S*A*AS"


def test_an_engine_that_arms_share_starts_once_per_start() -> None:
    plan = plan_of(arms=ONE_ENGINE, plan={"blocks": 4, "starts": 2})
    assert text_of(plan.trials) == "fdFDDF" + "f*dFDDF"
    assert plan.engine_starts == 2


@pytest.mark.parametrize("starts", range(1, 8))
def test_starts_have_blocks_of_near_equal_number_in_order(starts: int) -> None:
    plan = plan_of(plan={"blocks": 7, "starts": starts})
    by_block = [trial.start for trial in plan.measured[::2]]
    sizes = [by_block.count(start) for start in range(starts)]
    assert by_block == sorted(by_block)
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_warm_ups_of_different_starts_are_rounds_of_their_own() -> None:
    warmups = [trial for trial in plan_of(plan={"blocks": 4, "starts": 2}).trials if trial.phase is Phase.WARMUP]
    assert [(trial.block, trial.slot, trial.start) for trial in warmups] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 2, 1),
        (1, 3, 1),
    ]


def test_what_is_left_of_a_start_begins_with_fresh_engines() -> None:
    plan = plan_of(plan={"blocks": 6, "starts": 3, "warmup_trials": 0})
    left = remaining(plan, {0, 2})
    assert text_of(left) == "AS" + "A*S*" + "S*A*AS"
    assert [trial.start for trial in left[::2]] == [0, 1, 2, 2]


def test_starts_that_are_done_are_neither_warmed_up_nor_run() -> None:
    plan = plan_of(plan={"blocks": 4, "starts": 2})
    assert text_of(remaining(plan, {0, 1})) == "s*a*SAAS"


def test_a_repeated_block_keeps_its_start() -> None:
    plan = plan_of(plan={"blocks": 4, "starts": 2})
    again = repeat_block(plan, 1, 0)
    assert [(trial.block, trial.start, trial.fresh_engine) for trial in again] == [(4, 0, False), (4, 0, False)]


def test_with_residency_restart_every_block_is_a_start_of_its_own() -> None:
    plan = plan_of(plan={"blocks": 3, "residency": "restart"})
    assert [trial.start for trial in plan.measured] == [0, 0, 1, 1, 2, 2]
    assert plan.order == "ABBAAB"


def test_more_starts_than_blocks_are_refused() -> None:
    assert errors_of(blocks=3, starts=4) == {"/plan/starts": "4 starts need a block each, but there are 3 blocks"}


def test_starts_are_refused_where_every_trial_has_one() -> None:
    assert errors_of(starts=2, residency="restart") == {
        "/plan/starts": "with residency restart every trial has a start of its own already"
    }


def test_looks_are_refused_with_several_starts() -> None:
    assert errors_of(starts=2, looks=[4]) == {
        "/plan/looks": "a look would end the experiment before all starts are there"
    }
