import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.stats.sign_flip import explain_no_sign_flip, sign_flip_p

DIFFERENCES = [0.031, -0.004, 0.022, 0.013, 0.008, 0.019, -0.011]


def test_it_agrees_with_scipys_exact_permutation_test() -> None:
    theirs = stats.permutation_test([np.array(DIFFERENCES)], _total, permutation_type="samples", n_resamples=9999)
    assert sign_flip_p(DIFFERENCES) == pytest.approx(float(theirs.pvalue))


def _total(differences: npt.NDArray[np.float64]) -> float:
    return float(differences.sum())


@pytest.mark.parametrize("pairs", [6, 8, 20])
def test_all_of_one_sign_is_the_smallest_p_there_is(pairs: int) -> None:
    assert sign_flip_p([0.01 + 0.001 * i for i in range(pairs)]) == 2 / 2**pairs


def test_ties_count_although_their_last_digits_differ() -> None:
    # Every pattern with three of six signs flipped sums to 0, which floats miss by some 1e-17.
    assert sign_flip_p([0.1, 0.1, 0.1, -0.1, -0.1, -0.1]) == 1


def test_no_difference_at_all_is_no_evidence() -> None:
    assert sign_flip_p([0.0] * 6) == 1


def test_below_six_pairs_there_is_a_reason_instead_of_a_number() -> None:
    assert sign_flip_p([0.01] * 5) is None
    assert explain_no_sign_flip(5) == "5 pairs have no p-value below 0.0625: 6 are needed"
    assert explain_no_sign_flip(0) == "0 pairs have no p-value below 1: 6 are needed"


def test_above_twenty_pairs_there_is_a_reason_instead_of_a_number() -> None:
    assert sign_flip_p([0.01] * 21) is None
    assert explain_no_sign_flip(21) == "21 pairs have too many sign patterns to count them all: 20 are the most"


def test_between_them_there_is_none() -> None:
    assert explain_no_sign_flip(6) is None
    assert explain_no_sign_flip(20) is None


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=9))
def test_neither_the_order_nor_the_direction_matters(differences: list[float]) -> None:
    p = sign_flip_p(differences)
    assert p == sign_flip_p(sorted(differences))
    assert p == sign_flip_p([-d for d in differences])


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"differences\[0\] is not a finite number"):
        sign_flip_p([float("nan")] * 6)
