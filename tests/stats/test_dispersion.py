import numpy as np
import pytest

from app.stats.dispersion import estimate_spread


def test_the_chi_square_interval_of_a_standard_deviation() -> None:
    # sd 1 on 10 degrees of freedom: sqrt(10 / 20.483) and sqrt(10 / 3.247), from a chi-square table.
    interval = estimate_spread(1.0, 10)
    assert (interval.low, interval.high) == pytest.approx((0.6987, 1.7549), abs=1e-4)


def test_it_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    factors = estimate_spread(1.0, 5)
    drawn = rng.standard_normal((100_000, 6)).std(axis=1, ddof=1)
    assert np.mean((drawn * factors.low <= 1) & (drawn * factors.high >= 1)) == pytest.approx(0.95, abs=0.003)


def test_no_noise_is_no_noise() -> None:
    assert estimate_spread(0.0, 4).high == 0


def test_one_degree_of_freedom_is_the_least() -> None:
    with pytest.raises(ValueError, match="at least 2 blocks are needed, got 1"):
        estimate_spread(1.0, 0)
    with pytest.raises(ValueError, match="sd must be 0 or more"):
        estimate_spread(-1.0, 3)
