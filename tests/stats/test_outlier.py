"""One value that stands apart."""

import numpy as np
import pytest

from app.stats.outlier import find_outlier


def test_the_value_far_from_the_others_is_found() -> None:
    # The blocks of a run on an H200 whose first block another engine's start disturbed.
    found = find_outlier([-0.1235, 0.0046, 0.0010, -0.0007, 0.0042, -0.0022])
    assert found is not None
    assert found.index == 0
    assert found.others_mean == pytest.approx(0.00138)
    assert found.p < 1e-4


def test_wide_noise_has_no_outlier() -> None:
    assert find_outlier([-0.05, 0.03, 0.01, -0.04, 0.06, 0.00]) is None


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0, 9.0]])
def test_fewer_than_four_values_cannot_tell(values: list[float]) -> None:
    assert find_outlier(values) is None


def test_equal_values_have_no_outlier_and_one_that_leaves_them_is() -> None:
    assert find_outlier([0.2] * 6) is None
    found = find_outlier([0.2] * 5 + [0.3])
    assert found is not None
    assert found.index == 5


def test_the_p_value_of_one_distance_is_student_s() -> None:
    # By hand: others -1, 0, 1, 0 have mean 0 and sd 0.8165; 5 is 5 / (0.8165 sqrt(1.25)) = 5.477 of them away,
    # two-sided p 0.01196 at 3 degrees of freedom, for the farthest of five 0.0598.
    found = find_outlier([-1.0, 0.0, 1.0, 0.0, 5.0], level=0.1)
    assert found is not None
    assert found.p == pytest.approx(0.0598, abs=2e-4)


@pytest.mark.parametrize("count", [4, 6, 10])
def test_normal_noise_is_suspected_no_more_often_than_it_says(count: int) -> None:
    runs = np.random.default_rng(3).standard_normal((3000, count)).tolist()
    assert sum(find_outlier(values, level=0.05) is not None for values in runs) / 3000 < 0.06


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="values"):
        find_outlier([1.0, 2.0, float("nan"), 3.0])
