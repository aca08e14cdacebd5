"""What a dry run promises, and that it is what the comparison will find."""

import math
from typing import Any

import pytest

from app.judge.comparison import compare
from app.judge.verdict import KnownSpread
from app.service.cost import promise_effect_pct
from app.spec.plan import Phase, plan_trials
from app.spec.resolution import resolve
from tests.support.builders import a_spec, a_trial

ONE_ARM = [{"name": "sync", "profile": "vllm-sync"}]
THREE_ARMS = [{"name": name, "profile": "vllm-sync"} for name in ("a", "b", "c")]


def promised(noise_pct: float = 1.0, **changes: Any) -> float | None:
    spec = a_spec(**changes)
    return promise_effect_pct(noise_pct, spec, plan_trials(spec, resolve(spec)))


@pytest.mark.parametrize(("blocks", "change_pct"), [(2, 12.24), (3, 10.53), (4, 3.56), (5, 1.98), (6, 1.66)])
def test_two_arms_are_promised_what_the_analysis_of_their_orders_finds(blocks: int, change_pct: float) -> None:
    assert promised(plan={"blocks": blocks}) == pytest.approx(change_pct, abs=0.02)


def test_more_arms_run_in_random_order_and_are_promised_a_paired_t() -> None:
    assert promised(arms=THREE_ARMS, plan={"blocks": 3}) == pytest.approx(3.32, abs=0.01)
    assert promised(arms=THREE_ARMS, plan={"blocks": 5}) == pytest.approx(1.70, abs=0.01)


def test_a_calibration_runs_its_arm_against_itself_and_is_promised_what_two_arms_are() -> None:
    for blocks in (3, 6):
        assert promised(arms=ONE_ARM, calibrate=True, plan={"blocks": blocks}) == promised(plan={"blocks": blocks})


def test_one_arm_or_one_block_shows_nothing() -> None:
    assert promised(arms=ONE_ARM) is None
    assert promised(plan={"blocks": 1}) is None


@pytest.mark.parametrize("blocks", [2, 3, 5, 6])
@pytest.mark.parametrize("arms", [2, 3])
def test_the_dry_run_and_the_comparison_agree(blocks: int, arms: int) -> None:
    spec = a_spec(arms=THREE_ARMS[:arms], plan={"blocks": blocks}, decision={"margin_pct": 0.01})
    plan = plan_trials(spec, resolve(spec))
    trials = [
        a_trial(one.arm, one.block, one.position, 100 + one.block**2 % 3 * (one.arm == "b"), slot=one.slot)
        for one in plan.trials
        if one.phase is Phase.MEASURED
    ]
    found = next(one for one in compare(spec, resolve(spec), trials, ()) if one.metric == "output_throughput")
    assert found.sd_pct is not None
    assert promise_effect_pct(found.sd_pct, spec, plan) == pytest.approx(found.detectable_effect_pct, abs=1e-3)


@pytest.mark.parametrize(
    ("blocks", "starts"), [(4, 2), (4, 3), (5, 3), (6, 2), (6, 3), (6, 4), (6, 5), (8, 4), (12, 8)]
)
@pytest.mark.parametrize("arms", [2, 3])
def test_they_agree_on_several_starts_too(blocks: int, starts: int, arms: int) -> None:
    """Few blocks to a start leave little to tell their noise by, whatever is known of the starts."""
    spec = a_spec(arms=THREE_ARMS[:arms], plan={"blocks": blocks, "starts": starts}, decision={"margin_pct": 0.01})
    plan = plan_trials(spec, resolve(spec))
    trials = [
        a_trial(one.arm, one.block, one.position, throughput, slot=one.slot, start=one.start)
        for one in plan.measured
        for throughput in [100 + (0.3 * (one.block**2 % 3) + one.start % 2) * (one.arm == "b")]
    ]
    found = next(one for one in compare(spec, resolve(spec), trials, ()) if one.metric == "output_throughput")
    assert found.sd_pct is not None
    assert found.start_sd_pct is not None
    between_pct = math.sqrt(found.start_sd_pct**2 - found.sd_pct**2 * starts / blocks)
    known = KnownSpread(
        sd_pct=1.0, blocks=1.0, starts=8, between_pct=between_pct, between_interval_pct=(0.0, 2 * between_pct)
    )
    assert promise_effect_pct(found.sd_pct, spec, plan, known) == pytest.approx(found.detectable_effect_pct, abs=2e-3)


@pytest.mark.parametrize("plan", [{"blocks": 2}, {"blocks": 3}, {"blocks": 6, "starts": 2}])
def test_a_level_that_so_few_cannot_reach_is_promised_nothing(plan: dict[str, Any]) -> None:
    assert promised(plan=plan, decision={"alpha": 1e-6}) is None


def test_few_starts_find_less_than_their_blocks_would() -> None:
    found = [
        promise_effect_pct(1.0, spec, plan_trials(spec, resolve(spec)))
        for spec in (a_spec(plan={"blocks": 12, "starts": starts}) for starts in (1, 4, 2))
    ]
    assert None not in found
    assert found == sorted(found, key=lambda effect: effect or 0.0)
    assert len(set(found)) == 3


def test_what_is_known_of_starts_makes_the_promise_smaller() -> None:
    """The same as the comparison finds beside that spread: more blocks on one start do not help."""
    known = KnownSpread(sd_pct=1.0, blocks=3, starts=4, between_pct=0.9, between_interval_pct=(0.4, 3.0))

    def beside(**plan: Any) -> float:
        spec = a_spec(plan=plan)
        found = promise_effect_pct(0.3, spec, plan_trials(spec, resolve(spec)), known)
        assert found is not None
        return found

    alone = promised(0.3, plan={"blocks": 12})
    assert alone is not None
    assert beside(blocks=12) > 6 * alone
    assert beside(blocks=12) == pytest.approx(beside(blocks=24), rel=0.02)
    assert beside(blocks=24, starts=8) < beside(blocks=24)
    assert beside(blocks=12, residency="restart") < beside(blocks=12)
