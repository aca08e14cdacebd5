import math

import numpy as np
import pytest
from scipy import stats

from app.stats.paired import Analysis
from app.stats.power import blocks_needed, detectable_effect, power_of
from app.stats.student import t_quantile

ANALYSES: tuple[Analysis, ...] = ("paired", "crossover", "narrower")


@pytest.mark.parametrize(
    ("blocks", "effect"), [(3, 0.0326), (4, 0.0213), (5, 0.0168), (6, 0.0143), (8, 0.0116), (10, 0.0100)]
)
def test_the_effect_a_paired_t_test_finds_with_80_percent(blocks: int, effect: float) -> None:
    assert detectable_effect(0.01, blocks, "paired") == pytest.approx(effect, abs=6e-5)
    # The wrong tail, which this leaves out, is below 1e-4.
    noncentral = stats.nct(blocks - 1, effect / 0.01 * math.sqrt(blocks))
    assert noncentral.sf(t_quantile(0.05, blocks - 1)) == pytest.approx(0.8, abs=0.004)


def test_power_agrees_with_drawing_t_statistics() -> None:
    rng = np.random.default_rng(0)
    differences = 0.02 + 0.0141 * rng.standard_normal((200_000, 6))
    t = differences.mean(axis=1) / differences.std(axis=1, ddof=1) * math.sqrt(6)
    drawn = float(np.mean(np.abs(t) > t_quantile(0.05, 5)))
    assert power_of(0.02, 0.0141, 6, "paired") == pytest.approx(drawn, abs=0.003)


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("blocks", [4, 5, 6, 40])
def test_the_detectable_effect_is_the_one_found_with_that_power(analysis: Analysis, blocks: int) -> None:
    effect = detectable_effect(0.01, blocks, analysis, alpha=0.02, power=0.9)
    assert power_of(effect, 0.01, blocks, analysis, alpha=0.02) == pytest.approx(0.9)
    assert power_of(-effect, 0.01, blocks, analysis, alpha=0.02) == pytest.approx(0.9)


@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_detectable_effect_scales_with_the_noise(analysis: Analysis) -> None:
    assert detectable_effect(0.03, 6, analysis) == pytest.approx(3 * detectable_effect(0.01, 6, analysis))


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("effect", [0.05, 0.02, 0.01, 0.003])
def test_the_blocks_needed_are_enough_and_fewer_are_not(analysis: Analysis, effect: float) -> None:
    needed = blocks_needed(effect, 0.0141, analysis)
    assert needed is not None
    fewer = needed - (2 if analysis == "narrower" else 1)
    assert power_of(effect, 0.0141, needed, analysis) >= 0.8
    assert fewer < 4 or power_of(effect, 0.0141, fewer, analysis) < 0.8


def test_an_effect_far_below_the_noise_needs_more_blocks_than_anyone_runs() -> None:
    assert blocks_needed(0.0001, 0.05, "narrower") is None


def test_without_noise_every_effect_is_found() -> None:
    assert power_of(0.001, 0.0, 6, "narrower") == 1
    assert power_of(0.0, 0.0, 6, "narrower") == 0
    assert detectable_effect(0.0, 6, "narrower") == 0
    assert blocks_needed(0.001, 0.0, "narrower") == 4


def test_no_effect_is_found_as_often_as_alpha_says() -> None:
    assert power_of(0.0, 0.01, 6, "paired", alpha=0.03) == pytest.approx(0.03)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="no number of blocks finds an effect of 0"):
        blocks_needed(0.0, 0.01, "paired")
    with pytest.raises(ValueError, match="reached by chance"):
        detectable_effect(0.01, 6, "paired", power=0.05)
    with pytest.raises(ValueError, match="at least 4 blocks are needed, got 3"):
        detectable_effect(0.01, 3, "narrower")
    with pytest.raises(ValueError, match="sd must be 0 or more"):
        detectable_effect(math.nan, 6, "paired")
