"""The luck of a start, and what several starts or a known spread make of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from app.stats.estimate import NoEstimate
from app.stats.paired import PairedResult, analyse_differences
from app.stats.starts import (
    StartSpread,
    StartValue,
    analyse_starts,
    combine_starts,
    compare_starts,
    list_start_values,
)
from benchmarks.starts import (
    SLOWER,
    SPREADS,
    by_start,
    share_by_start,
    share_covered,
    share_of_one_start,
    share_with_known_spread,
    simulate,
    with_known_spread,
)


def analysed(
    differences: list[float],
    starts: list[int],
    positions: list[int] | None = None,
    known: StartSpread | None = None,
) -> PairedResult:
    result = analyse_starts(differences, positions, starts, confidence=0.95, known=known)
    assert isinstance(result, PairedResult)
    return result


def half(result: PairedResult) -> float:
    return result.log_ratio.high - result.log_ratio.value


def test_blocks_on_one_start_are_judged_as_blocks() -> None:
    differences, positions = [0.01, 0.03, 0.02, 0.05], [1, -1, 1, -1]
    assert analysed(differences, [0] * 4, positions) == analyse_differences(differences, positions, confidence=0.95)


def test_blocks_with_a_start_each_are_judged_as_blocks_and_counted_as_starts() -> None:
    differences, positions = [0.01, 0.03, 0.02, 0.05], [1, -1, 1, -1]
    alone = analyse_differences(differences, positions, confidence=0.95)
    assert isinstance(alone, PairedResult)
    assert analysed(differences, [3, 5, 6, 9], positions) == replace(alone, starts=4)


def test_several_starts_are_a_sample_of_their_means() -> None:
    differences = [0.010, 0.012, 0.030, 0.032, 0.050, 0.052]
    result = analysed(differences, [0, 0, 1, 1, 2, 2])
    means = [0.011, 0.031, 0.051]
    interval = stats.t.interval(0.95, 2, loc=np.mean(means), scale=stats.sem(means))
    assert (result.log_ratio.low, result.log_ratio.high) == pytest.approx(interval)
    assert result.p_t == pytest.approx(stats.ttest_1samp(means, 0).pvalue)
    assert (result.starts, result.df) == (3, 2)


def test_starts_that_agree_by_luck_do_not_make_the_interval_narrower_than_their_blocks_do() -> None:
    result = analysed([0.00, 0.04, 0.01, 0.03, 0.02, 0.02], [0, 0, 1, 1, 2, 2])
    assert result.by_start is not None
    assert result.by_start.standard_error == 0
    assert result.log_ratio == result.by_start.of_blocks
    assert half(result) > 0


def test_a_position_effect_neither_biases_the_starts_nor_spreads_them() -> None:
    signs = [1, -1, 1, -1, 1, -1, 1, -1, 1]
    result = analysed([0.02 + 0.5 * sign for sign in signs], [0, 0, 0, 1, 1, 1, 2, 2, 2], signs)
    assert result.log_ratio.value == pytest.approx(0.02)
    assert half(result) == pytest.approx(0, abs=1e-9)
    assert result.position is not None
    assert result.position.value == pytest.approx(0.5)


def test_a_start_that_lost_blocks_weighs_as_much_as_the_others() -> None:
    assert analysed([0.01, 0.03, 0.06], [0, 0, 1]).log_ratio.value == pytest.approx((0.02 + 0.06) / 2)


def test_every_block_needs_a_start() -> None:
    with pytest.raises(ValueError, match="every block needs a start"):
        analyse_starts([0.1, 0.2], None, [0], confidence=0.95)


def test_one_block_or_a_value_without_a_logarithm_is_no_estimate() -> None:
    assert isinstance(analyse_starts([0.1], None, [0], confidence=0.95), NoEstimate)
    assert isinstance(compare_starts([1.0, 0.0], [1.0, 1.0], None, [0, 1], confidence=0.95), NoEstimate)


def test_a_start_gives_the_mean_of_its_blocks_without_the_position_effect() -> None:
    values = list_start_values([0.51, -0.49, 0.51, -0.47, 0.53, -0.47], [1, -1, 1, -1, 1, -1], [4, 4, 4, 7, 7, 7])
    assert [value.log_ratio for value in values] == pytest.approx([0.01, 0.03])
    assert [value.blocks for value in values] == [3, 3]


def test_one_value_has_no_spread() -> None:
    assert combine_starts([StartValue(0.01, 6, 0.002)]) is None


def test_the_spread_of_starts_is_about_0_and_loses_the_blocks_noise() -> None:
    found = combine_starts([StartValue(0.03, 4, 0.02), StartValue(-0.01, 4, 0.02)])
    assert found is not None
    assert found.sd == pytest.approx(math.sqrt((0.03**2 + 0.01**2) / 2))
    assert found.between.value == pytest.approx(math.sqrt(0.0005 - 0.0001))
    assert (found.starts, found.blocks) == (2, 4)


def test_the_interval_of_the_spread_is_the_chi_square_one() -> None:
    found = combine_starts([StartValue(0.02, 6, 0.0)] * 5)
    assert found is not None
    low, high = (math.sqrt(5 * 0.02**2 / stats.chi2.ppf(share, 5)) for share in (0.975, 0.025))
    assert (found.between.low, found.between.high) == pytest.approx((low, high))


def test_a_known_spread_widens_one_start_and_never_narrows_it() -> None:
    differences, positions = [0.010, 0.012, 0.011, 0.013, 0.010, 0.012], [1, -1] * 3
    alone = analysed(differences, [0] * 6, positions)
    quiet, loud = (combine_starts([StartValue(size, 6, 0.001)] * 4) for size in (1e-6, 0.01))
    assert analysed(differences, [0] * 6, positions, quiet).log_ratio == alone.log_ratio
    widened = analysed(differences, [0] * 6, positions, loud)
    assert half(widened) == pytest.approx(stats.t.ppf(0.975, 4) * 0.01)
    assert widened.by_start is not None
    assert widened.by_start.of_blocks == alone.log_ratio
    assert alone.p_t < 0.05 < widened.p_t


def test_several_starts_need_no_known_spread() -> None:
    differences, starts = [0.01, 0.012, 0.03, 0.032], [0, 0, 1, 1]
    assert analysed(differences, starts, None, combine_starts([StartValue(1.0, 6, 0.0)] * 4)) == analysed(
        differences, starts
    )


@pytest.mark.parametrize("known", [None, combine_starts([StartValue(0.004, 3, 0.002), StartValue(-0.006, 3, 0.002)])])
@pytest.mark.parametrize("starts", [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]])
def test_p_and_the_interval_never_disagree(starts: list[int], known: StartSpread | None) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        differences = (rng.normal(0.004, 0.004, 6) + rng.normal(0, 0.003, 6)[starts]).tolist()
        result = analysed(differences, starts, [1, -1] * 3, known)
        assert (result.p_t < 0.05) == result.log_ratio.excludes(0)


# --- the promises of docs/method.md --------------------------------------------------------------------------------


def test_one_start_alone_raises_more_false_alarms_than_promised() -> None:
    assert share_of_one_start(6, 0.003, 0.002) > 20


@pytest.mark.parametrize("noise", [0.01, 0.002])
@pytest.mark.parametrize("blocks", [2, 3, 4])
@pytest.mark.parametrize("starts", range(2, 7))
def test_several_starts_keep_the_level_and_the_coverage(starts: int, blocks: int, noise: float) -> None:
    for spread in SPREADS:
        assert share_by_start(starts, blocks, spread, noise, 0.0) <= 5.5
        assert share_covered(starts, blocks, spread, noise) >= 94.5


@pytest.mark.parametrize("noise", [0.01, 0.002])
@pytest.mark.parametrize("known", [(2, 3), (4, 3), (6, 6), (3, 10)])
def test_a_known_spread_keeps_the_level(known: tuple[int, int], noise: float) -> None:
    for spread in SPREADS:
        for blocks in (6, 10):
            assert share_with_known_spread(known, blocks, spread, noise, 0.0) <= 6


def test_four_starts_of_three_blocks_find_2_percent_at_1_percent_run_noise_in_at_least_75_percent() -> None:
    assert share_by_start(4, 3, 0.003, 0.01, SLOWER) >= 75


@pytest.mark.parametrize(("starts", "blocks"), [(2, 2), (3, 3), (4, 3), (5, 4)])
def test_the_simulated_starts_are_judged_as_those_in_use(starts: int, blocks: int) -> None:
    differences, signs = simulate((20, starts, blocks), 0.003, 0.005, SLOWER, seed=3, position=0.01)
    index = [start for start in range(starts) for _ in range(blocks)]
    centres, halves = by_start(differences, signs, 0.05)
    for row, centre, width in zip(differences, centres, halves, strict=True):
        result = analysed(row.reshape(-1).tolist(), index, [int(sign) for sign in signs.reshape(-1)])
        assert (result.log_ratio.value, half(result)) == pytest.approx((centre, width))


def test_the_simulated_known_spread_is_the_one_in_use() -> None:
    differences, signs = simulate((20, 1, 6), 0.003, 0.005, SLOWER, seed=4)
    calibrations, _ = simulate((20, 4, 3), 0.003, 0.005, seed=5)
    values = calibrations.mean(axis=2)
    centres, halves = with_known_spread(differences, signs, values, 3, 0.05)
    for row, own, centre, width in zip(differences, values, centres, halves, strict=True):
        known = combine_starts([StartValue(float(value), 3, 0.005) for value in own])
        result = analysed(row.reshape(-1).tolist(), [0] * 6, [int(sign) for sign in signs.reshape(-1)], known)
        assert (result.log_ratio.value, half(result)) == pytest.approx((centre, width))
