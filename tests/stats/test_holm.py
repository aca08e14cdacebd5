import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stats.holm import adjust_by_holm

shares = st.lists(st.none() | st.floats(0, 1), max_size=12)


def test_holms_steps() -> None:
    assert adjust_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_one_test_needs_no_adjustment() -> None:
    assert adjust_by_holm([0.2]) == [0.2]


def test_a_test_that_was_not_made_does_not_count() -> None:
    assert adjust_by_holm([0.01, None, 0.04]) == pytest.approx([0.02, None, 0.04])


def test_nothing_stays_nothing() -> None:
    assert adjust_by_holm([]) == []
    assert adjust_by_holm([None]) == [None]


@given(shares)
def test_an_adjusted_p_lies_between_p_and_bonferronis(p_values: list[float | None]) -> None:
    made = sum(p is not None for p in p_values)
    for p, adjusted in zip(p_values, adjust_by_holm(p_values), strict=True):
        if p is None:
            assert adjusted is None
        else:
            assert adjusted is not None
            assert p <= adjusted <= min(1.0, p * made) or adjusted == pytest.approx(p)


@given(shares)
def test_the_order_of_the_p_values_is_kept(p_values: list[float | None]) -> None:
    pairs = sorted(
        (p, a) for p, a in zip(p_values, adjust_by_holm(p_values), strict=True) if p is not None and a is not None
    )
    assert [a for _, a in pairs] == sorted(a for _, a in pairs)


def test_a_p_value_is_a_probability() -> None:
    with pytest.raises(ValueError, match=r"p_values\[1\] must lie between 0 and 1, got 1.2"):
        adjust_by_holm([0.1, 1.2])
