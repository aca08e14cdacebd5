import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.stats.estimate import NoEstimate
from app.stats.paired import PairedResult, analyse_differences, choose_analysis, compare_paired

ABBA = (1, -1, 1, -1, 1, -1)
BASELINE = (2.12, 2.15, 2.13, 2.16, 2.11, 2.14)
CANDIDATE = (2.19, 2.18, 2.21, 2.17, 2.20, 2.16)


def compared(
    baseline: Sequence[float] = BASELINE,
    candidate: Sequence[float] = CANDIDATE,
    positions: Sequence[int] | None = ABBA,
    confidence: float = 0.95,
) -> PairedResult:
    result = compare_paired(baseline, candidate, positions, confidence=confidence)
    assert isinstance(result, PairedResult)
    return result


def analysed(
    differences: Sequence[float], positions: Sequence[int] | None = None, confidence: float = 0.95
) -> PairedResult:
    result = analyse_differences(differences, positions, confidence=confidence)
    assert isinstance(result, PairedResult)
    return result


def half_width(result: PairedResult) -> float:
    return (result.log_ratio.high - result.log_ratio.low) / 2


values = st.floats(0.01, 1e4)
logs = st.floats(-0.5, 0.5)


@st.composite
def experiments(draw: st.DrawFn) -> tuple[list[float], list[float], list[int]]:
    blocks = draw(st.integers(4, 9))
    positions = draw(st.permutations([1, -1] * 5))[:blocks]
    shifts = draw(st.lists(values, min_size=blocks, max_size=blocks))
    noise = draw(st.lists(logs, min_size=blocks, max_size=blocks))
    return shifts, [v * math.exp(e) for v, e in zip(shifts, noise, strict=True)], positions


# The choice


@pytest.mark.parametrize(
    ("orders", "arms", "analysis"),
    [
        ((1, -1), 2, "paired"),
        ((1, -1, 1), 2, "crossover"),
        ((1, -1, 1, -1), 2, "narrower"),
        ((1, -1, 1, -1, 1), 2, "crossover"),
        ((1, 1, 1, 1), 2, "paired"),
        ((0, 0, 0, 0), 2, "paired"),
        ((1, -1, 1, -1), 3, "paired"),
    ],
)
def test_the_orders_and_the_number_of_arms_choose_the_analysis(
    orders: tuple[int, ...], arms: int, analysis: str
) -> None:
    assert choose_analysis(orders, arms) == analysis
    differences = [0.01 * block for block in range(len(orders))]
    result = analyse_differences(differences, orders, confidence=0.95, arms=arms)
    assert isinstance(result, PairedResult)
    assert result.analysis == analysis


def test_a_place_drawn_at_random_is_no_confound() -> None:
    result = analyse_differences((0.01, 0.02, 0.03), (1, 1, 1), confidence=0.95, arms=3)
    assert isinstance(result, PairedResult)
    assert not result.order_confounded


# Known values


def test_without_positions_it_is_the_paired_t_test() -> None:
    theirs = stats.ttest_rel(np.log(CANDIDATE), np.log(BASELINE))
    interval = theirs.confidence_interval(0.95)
    ours = compared(positions=None)
    assert ours.analysis == "paired"
    assert ours.df == 5
    assert ours.p_t == pytest.approx(theirs.pvalue)
    assert (ours.log_ratio.low, ours.log_ratio.high) == pytest.approx((interval.low, interval.high))


def test_with_unequal_orders_it_is_the_two_sample_t_test_of_the_crossover() -> None:
    # The contrast between the orders' means is what changes when one order's differences change sign.
    differences = (0.03, 0.01, 0.04, 0.02, 0.05)
    theirs = stats.ttest_ind([0.03, 0.04, 0.05], [-0.01, -0.02])
    ours = analysed(differences, (1, -1, 1, -1, 1))
    assert ours.analysis == "crossover"
    assert ours.df == 3
    assert ours.p_t == pytest.approx(theirs.pvalue)
    assert ours.log_ratio.value == pytest.approx((0.04 + 0.015) / 2)


def test_the_position_effect_is_what_running_second_costs() -> None:
    ours = analysed((0.03, -0.01, 0.03, -0.01), (1, -1, 1, -1))
    assert ours.log_ratio.value == pytest.approx(0.01)
    assert ours.position is not None
    assert ours.position.value == pytest.approx(0.02)


def test_with_equal_orders_the_narrower_interval_is_shown() -> None:
    differences = np.log(CANDIDATE) - np.log(BASELINE)
    ours = analysed(differences.tolist(), ABBA)
    residual = math.sqrt((differences[::2].var() + differences[1::2].var()) * 3 / 4)
    assert ours.analysis == "narrower"
    assert ours.df == 4
    assert ours.sd == pytest.approx(residual)
    assert half_width(ours) == pytest.approx(stats.t.isf(0.0388398 / 2, 4) * residual / math.sqrt(6), rel=1e-5)


def test_without_a_position_effect_the_paired_interval_is_the_narrower() -> None:
    ours = analysed((0.01, 0.01, 0.03, 0.03, 0.02, 0.02), ABBA)
    assert ours.analysis == "narrower"
    assert ours.df == 5


def test_equal_blocks_leave_no_doubt() -> None:
    ours = compared((1.0, 2.0, 3.0, 4.0), (1.2, 2.4, 3.6, 4.8), (1, -1, 1, -1))
    assert math.exp(ours.log_ratio.value) == pytest.approx(1.2)
    assert ours.log_ratio.low == ours.log_ratio.value == ours.log_ratio.high
    assert (ours.sd, ours.p_t) == (0.0, 0.0)


def test_a_thing_does_not_differ_from_itself() -> None:
    ours = compared(BASELINE, BASELINE)
    assert (ours.log_ratio.value, ours.log_ratio.low, ours.log_ratio.high) == (0, 0, 0)
    assert ours.p_t == 1


def test_rounding_is_not_a_difference() -> None:
    ours = compared((0.3, 0.3, 0.3, 0.3), (0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2, 0.3), (1, -1, 1, -1))
    assert ours.log_ratio.value == 0
    assert ours.p_t == 1


# Which analysis


@pytest.mark.parametrize(
    ("positions", "analysis"),
    [
        (None, "paired"),
        ((0, 0, 0, 0), "paired"),
        ((1, -1, 1, -1), "narrower"),
        ((1, 1, -1, -1), "narrower"),
        ((1, 1, 1, -1), "crossover"),
        ((1, 1, 1, 1), "paired"),
    ],
)
def test_the_orders_choose_the_analysis(positions: tuple[int, ...] | None, analysis: str) -> None:
    assert analysed((0.01, 0.02, 0.04, 0.03), positions).analysis == analysis


def test_one_order_only_is_confounded_with_the_position() -> None:
    assert analysed((0.01, 0.02, 0.03), (1, 1, 1)).order_confounded
    assert not analysed((0.01, 0.02, 0.03), (1, 1, -1)).order_confounded
    assert not analysed((0.01, 0.02, 0.03), None).order_confounded


def test_two_blocks_give_an_interval_too_wide_to_say_anything() -> None:
    ours = analysed((0.01, 0.02), (1, -1))
    assert (ours.analysis, ours.df, ours.position) == ("paired", 1, None)
    assert half_width(ours) == pytest.approx(12.706 * 0.005, rel=1e-4)


# Invariances


@given(experiments())
def test_swapping_the_sides_negates(experiment: tuple[list[float], list[float], list[int]]) -> None:
    baseline, candidate, positions = experiment
    one = compared(baseline, candidate, positions)
    other = compared(candidate, baseline, [-p for p in positions])
    assert other.log_ratio.value == pytest.approx(-one.log_ratio.value, abs=1e-9)
    assert other.log_ratio.low == pytest.approx(-one.log_ratio.high, abs=1e-9)
    assert other.p_t == pytest.approx(one.p_t, abs=1e-6)


@given(experiments(), st.floats(0.001, 1000))
def test_the_unit_cancels(experiment: tuple[list[float], list[float], list[int]], factor: float) -> None:
    baseline, candidate, positions = experiment
    one = compared(baseline, candidate, positions)
    other = compared([factor * v for v in baseline], [factor * v for v in candidate], positions)
    assert other.log_ratio.value == pytest.approx(one.log_ratio.value, abs=1e-9)
    assert half_width(other) == pytest.approx(half_width(one), abs=1e-9)


@given(experiments(), st.floats(0.5, 2))
def test_what_running_second_costs_leaves_the_estimate_alone(
    experiment: tuple[list[float], list[float], list[int]], cost: float
) -> None:
    baseline, candidate, positions = experiment
    one = compared(baseline, candidate, positions)
    other = compared(
        [v * (cost if p < 0 else 1) for v, p in zip(baseline, positions, strict=True)],
        [v * (cost if p > 0 else 1) for v, p in zip(candidate, positions, strict=True)],
        positions,
    )
    if one.analysis != "paired":
        assert other.log_ratio.value == pytest.approx(one.log_ratio.value, abs=1e-9)
        assert other.sd == pytest.approx(one.sd, abs=1e-9)


@given(experiments(), st.floats(0.001, 0.5))
def test_p_and_the_interval_never_disagree(
    experiment: tuple[list[float], list[float], list[int]], level: float
) -> None:
    ours = compared(*experiment, confidence=1 - level)
    if abs(ours.p_t - level) > 1e-6:
        assert ours.log_ratio.excludes(0) == (ours.p_t < level)


# What it cannot use


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_blocks_give_no_estimate_and_say_why(count: int) -> None:
    result = compare_paired(BASELINE[:count], CANDIDATE[:count], ABBA[:count], confidence=0.95)
    assert result == NoEstimate(f"fewer than 2 blocks ({count}): one difference does not show its own noise")


def test_a_value_without_a_logarithm_gives_no_estimate_and_says_where() -> None:
    result = compare_paired((1.0, 2.0), (1.0, 0.0), confidence=0.95)
    assert result == NoEstimate("block 1 has the value 0, and a ratio needs values above 0")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_is_the_callers_mistake(value: float) -> None:
    with pytest.raises(ValueError, match=r"candidate\[1\] is not a finite number"):
        compare_paired((1.0, 2.0), (1.0, value), confidence=0.95)


def test_unequal_lengths_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="every block needs both values, got 2 and 1"):
        compare_paired((1.0, 2.0), (1.0,), confidence=0.95)
    with pytest.raises(ValueError, match="every block needs a position, got 1 for 2 blocks"):
        compare_paired((1.0, 2.0), (1.0, 2.0), (1,), confidence=0.95)


def test_positions_are_known_in_all_blocks_or_in_none() -> None:
    with pytest.raises(ValueError, match="positions are"):
        compare_paired((1.0, 2.0), (1.0, 2.0), (1, 0), confidence=0.95)
