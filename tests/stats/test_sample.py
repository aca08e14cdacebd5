import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.stats.sample import count_fewest_values, explain_no_percentile, mean, percentile, sample_std

HUNDRED = [float(value) for value in range(1, 101)]


def test_mean_and_standard_deviation() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert sample_std([1.0, 2.0, 6.0]) == pytest.approx(math.sqrt(7))


def test_nothing_has_no_mean_and_one_value_no_spread() -> None:
    assert mean([]) is None
    assert sample_std([]) is None
    assert sample_std([3.0]) is None


def test_percentiles_lie_between_the_values() -> None:
    assert percentile(HUNDRED, 50) == 50.5
    assert percentile(HUNDRED, 90) == pytest.approx(90.1)


@pytest.mark.parametrize(("percent", "count"), [(50, 1), (90, 64), (95, 130), (99, 662), (99.9, 6636), (10, 64)])
def test_mlperfs_floors(percent: float, count: int) -> None:
    assert count_fewest_values(percent) == count


def test_a_percentile_of_too_few_values_is_a_reason_instead_of_a_number() -> None:
    assert percentile([1.0] * 63, 90) is None
    assert explain_no_percentile(63, 90) == "p90 needs 64 values, got 63"
    assert percentile([1.0] * 64, 90) == 1.0
    assert explain_no_percentile(64, 90) is None


def test_the_median_needs_only_something_to_be_in_the_middle_of() -> None:
    assert percentile([7.0], 50) == 7.0
    assert percentile([], 50) is None
    assert explain_no_percentile(0, 50) == "p50 needs 1 values, got 0"


@settings(max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6), min_size=64, max_size=80))
def test_percentiles_stay_inside_and_in_order(values: list[float]) -> None:
    median, high = percentile(values, 50), percentile(values, 90)
    assert median is not None
    assert high is not None
    assert min(values) <= median <= high <= max(values)


def test_a_value_that_is_no_number_is_refused() -> None:
    for statistic in (mean, sample_std, lambda values: percentile(values, 50)):
        with pytest.raises(ValueError, match=r"values\[1\] is not a finite number"):
            statistic([1.0, math.nan])


@pytest.mark.parametrize("percent", [0, 100, -5])
def test_the_extremes_are_no_percentiles(percent: float) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        percentile([1.0], percent)
