import math

import numpy as np
import pytest
from scipy import stats

from app.stats.paired import Analysis, PairedResult, analyse_differences
from app.stats.power import blocks_needed, chance_of_decision, detectable_effect
from app.stats.student import t_quantile
from benchmarks.method import CHANGES, World, share_decided

ANALYSES: tuple[Analysis, ...] = ("paired", "crossover", "narrower")
MARGIN = math.log(1.02)
NOISIER = ((0.01, 2 * MARGIN), (0.015, MARGIN), (0.03, MARGIN), (0.03, MARGIN / 2))


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
    assert chance_of_decision(0.02, 0.0141, 6, "paired") == pytest.approx(drawn, abs=0.003)


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("blocks", [4, 5, 6, 40])
def test_the_detectable_effect_is_the_one_found_with_that_power(analysis: Analysis, blocks: int) -> None:
    effect = detectable_effect(0.01, blocks, analysis, alpha=0.02, power=0.9)
    assert chance_of_decision(effect, 0.01, blocks, analysis, alpha=0.02) == pytest.approx(0.9, abs=2e-3)
    assert chance_of_decision(-effect, 0.01, blocks, analysis, alpha=0.02) == pytest.approx(0.9, abs=2e-3)


@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_detectable_effect_scales_with_the_noise(analysis: Analysis) -> None:
    assert detectable_effect(0.03, 6, analysis) == pytest.approx(3 * detectable_effect(0.01, 6, analysis))


def after(blocks: int, change: float, arms: int = 2, scale: float = 0.01) -> PairedResult:
    """What blocks that scatter by about `scale` around `change` say."""
    noise = [scale * (-1) ** (block // 2) for block in range(blocks)]
    result = analyse_differences(
        [change + one for one in noise], [(-1) ** block for block in range(blocks)], confidence=0.95, arms=arms
    )
    assert isinstance(result, PairedResult)
    return result


@pytest.mark.parametrize("change", [0.0, 0.01, 0.02, 0.03])
def test_whatever_the_change_some_number_of_blocks_decides(change: float) -> None:
    needed = blocks_needed(after(6, change, scale=0.02), MARGIN)
    assert needed is not None
    assert 6 < needed < 100


def test_more_noise_and_a_narrower_margin_need_more_blocks() -> None:
    needed = [blocks_needed(after(6, 0.0, scale=scale), margin) or 1001 for scale, margin in NOISIER]
    assert needed == sorted(needed)
    assert len(set(needed)) == len(needed)


def test_two_arms_need_pairs_of_blocks_and_three_do_not() -> None:
    two = [blocks_needed(after(6, 0.0, scale=scale), MARGIN) or 0 for scale in (0.015, 0.02, 0.025, 0.03)]
    three = [blocks_needed(after(6, 0.0, 3, scale), MARGIN, arms=3) or 0 for scale in (0.015, 0.02, 0.025, 0.03)]
    assert all(needed % 2 == 0 for needed in two)
    assert any(needed % 2 for needed in three)


def test_a_few_noisy_blocks_promise_less_than_many() -> None:
    """Two blocks hardly know their own noise, and so not what would be enough."""
    few, many = (blocks_needed(after(blocks, 0.0, scale=0.02), MARGIN) or 1001 for blocks in (4, 12))
    assert few > many


def test_noise_far_beyond_the_margin_needs_more_blocks_than_anyone_runs() -> None:
    assert blocks_needed(after(20, 0.0, scale=0.5), MARGIN) is None


def test_any_decision_is_likelier_than_finding_a_difference() -> None:
    for effect in (0.0, 0.005, 0.01, 0.03):
        found = chance_of_decision(effect, 0.01, 8, "narrower")
        assert chance_of_decision(effect, 0.01, 8, "narrower", margin=MARGIN) > found
    assert chance_of_decision(0.0, 0.001, 8, "narrower", margin=MARGIN) == pytest.approx(1, abs=1e-6)


def test_any_decision_agrees_with_drawing_intervals() -> None:
    rng = np.random.default_rng(1)
    differences = 0.01 + 0.0141 * rng.standard_normal((100_000, 12))
    centre = np.abs(differences.mean(axis=1))
    half = t_quantile(0.05, 11) * differences.std(axis=1, ddof=1) / math.sqrt(12)
    drawn = float(np.mean((centre > half) | (centre + half <= MARGIN)))
    assert chance_of_decision(0.01, 0.0141, 12, "paired", margin=MARGIN) == pytest.approx(drawn, abs=0.006)


@pytest.mark.parametrize("change", CHANGES[::2])
def test_the_blocks_needed_decide_in_about_80_percent_or_more(change: float) -> None:
    """Whatever the truth: 61 to 89 % was, when one margin had to be found at a noise taken for known."""
    _, share = share_decided(World(noise=0.02), math.log1p(change / 100), 6, count=150)
    assert share > 0.7  # three standard errors of 150 experiments below 80 %


def test_without_noise_every_effect_is_found() -> None:
    assert chance_of_decision(0.001, 0.0, 6, "narrower") == pytest.approx(1)
    assert chance_of_decision(0.0, 0.0, 6, "narrower", margin=MARGIN) == pytest.approx(1)
    assert detectable_effect(0.0, 6, "narrower") == 0


def test_no_effect_is_found_as_often_as_alpha_says() -> None:
    assert chance_of_decision(0.0, 0.01, 6, "paired", alpha=0.03) == pytest.approx(0.03, abs=1e-3)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="reached by chance"):
        detectable_effect(0.01, 6, "paired", power=0.05)
    with pytest.raises(ValueError, match="at least 4 blocks are needed, got 3"):
        detectable_effect(0.01, 3, "narrower")
    with pytest.raises(ValueError, match="sd must be 0 or more"):
        detectable_effect(math.nan, 6, "paired")
