import numpy as np
import pytest
from scipy import stats

from app.stats.two_intervals import joint_level, separate_level


@pytest.mark.parametrize("blocks", [4, 6, 10])
def test_the_integral_agrees_with_drawing_the_sums_of_squares(blocks: int) -> None:
    rng = np.random.default_rng(0)
    within, between = rng.chisquare(blocks - 2, 400_000), rng.chisquare(1, 400_000)
    estimate = np.abs(rng.standard_normal(400_000))
    paired = stats.t.isf(0.02, blocks - 1) * np.sqrt((within + between) / (blocks - 1))
    crossover = stats.t.isf(0.02, blocks - 2) * np.sqrt(within / (blocks - 2))
    drawn = float(np.mean(estimate > np.minimum(paired, crossover)))
    assert joint_level(0.04, blocks) == pytest.approx(drawn, abs=0.001)


def test_two_chances_cost_more_than_one_and_less_than_two() -> None:
    for blocks in (3, 4, 6, 20, 300):
        for p in (1e-9, 0.001, 0.05, 0.5, 0.99):
            assert p < joint_level(p, blocks) <= min(2 * p, 1)


def test_certainty_and_impossibility_stay_what_they_are() -> None:
    assert joint_level(0, 6) == 0
    assert joint_level(1, 6) == 1


@pytest.mark.parametrize("alpha", [0.001, 0.018, 0.05, 0.2])
def test_the_separate_level_is_the_one_that_pays_for_the_choice(alpha: float) -> None:
    assert joint_level(separate_level(alpha, 6), 6) == pytest.approx(alpha, rel=1e-6)


def test_with_many_blocks_the_choice_costs_nothing() -> None:
    assert separate_level(0.05, 1000) == pytest.approx(0.05, rel=0.01)


def test_two_blocks_have_only_one_interval() -> None:
    with pytest.raises(ValueError, match="at least 3 blocks are needed, got 2"):
        joint_level(0.05, 2)
