import math

import pytest

from app.stats.estimate import Estimate, to_percent, to_ratio

GAP = Estimate(value=0.01, low=-0.01, high=0.03, confidence=0.95)


def test_the_ends_belong_to_the_interval() -> None:
    assert not GAP.excludes(0.03)
    assert not GAP.excludes(0.0)
    assert GAP.excludes(0.0301)


def test_an_increasing_change_of_scale_keeps_the_confidence() -> None:
    ratio = Estimate(0.0, math.log(0.5), math.log(2), 0.9).transform(to_ratio)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.0, 0.5, 2.0))
    assert ratio.confidence == 0.9


def test_a_decreasing_change_of_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        GAP.transform(lambda x: -x)


def test_a_value_outside_its_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Estimate(value=2.0, low=0.0, high=1.0, confidence=0.95)


@pytest.mark.parametrize("confidence", [0, 1, 95, math.nan])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        Estimate(0.0, 0.0, 0.0, confidence)


def test_a_log_ratio_as_percent() -> None:
    assert to_percent(math.log(1.02)) == pytest.approx(2.0)
    assert to_percent(math.log(0.5)) == pytest.approx(-50.0)


def test_an_endless_interval_has_an_end_at_infinity() -> None:
    assert to_ratio(1e4) == math.inf
    assert to_percent(1e4) == math.inf
    assert to_percent(-1e4) == -100
