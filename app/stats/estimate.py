"""A number and how sure it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from app.stats.checks import check_share


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its two-sided interval; all three in the unit of what is estimated."""

    value: float
    low: float
    high: float
    confidence: float  # share of such intervals that hold the truth, e.g. 0.95

    def __post_init__(self) -> None:
        check_share("confidence", self.confidence)
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.low} <= {self.value} <= {self.high} does not hold")

    def excludes(self, point: float) -> bool:
        """Whether `point` lies outside the interval, whose ends belong to it."""
        return not self.low <= point <= self.high

    def transform(self, increasing: Callable[[float], float]) -> "Estimate":
        """The same estimate on another scale. Only an increasing function keeps the confidence and the ends' order."""
        return Estimate(increasing(self.value), increasing(self.low), increasing(self.high), self.confidence)


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Why there is no number."""

    reason: str


def drop_infinite(number: float) -> float | None:
    """None for what is beyond the range of a float."""
    return number if math.isfinite(number) else None


def to_ratio(log_ratio: float) -> float:
    """exp, and infinity beyond the range of a float: the interval of two noisy blocks can be that wide."""
    try:
        return math.exp(log_ratio)
    except OverflowError:
        return math.inf


def to_percent(log_ratio: float) -> float:
    """A log ratio as a change in percent: ln 1.02 becomes 2."""
    try:
        return 100 * math.expm1(log_ratio)
    except OverflowError:
        return math.inf
