"""Does one value stand apart from the others?

The outlier t test: each value against the mean of the others, in their standard deviation (the externally studentised
residual), and the smallest of the p-values times their number, since the farthest was picked after the fact.
Source: Cook and Weisberg, Residuals and Influence in Regression (1982), section 2.2.2.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from app.stats.checks import check_finite, check_share
from app.stats.student import t_tails

FEWEST = 4  # three others have a spread that means something


@dataclass(frozen=True, slots=True)
class Outlier:
    """The value that is farthest from all the others."""

    index: int
    others_mean: float
    p: float  # that the farthest of so many is as far, were all of one normal distribution


def find_outlier(values: Sequence[float], *, level: float = 0.01) -> Outlier | None:
    """The value that stands apart; None where none does at this level, and for fewer than `FEWEST` values."""
    check_finite("values", values)
    check_share("level", level)
    if len(values) < FEWEST:
        return None
    farthest = min((compare_with_others(values, index) for index in range(len(values))), key=lambda found: found.p)
    return farthest if farthest.p < level else None


def compare_with_others(values: Sequence[float], index: int) -> Outlier:
    """How far one value lies from all the others."""
    others = [value for place, value in enumerate(values) if place != index]
    mean, sd = statistics.fmean(others), statistics.stdev(others)
    distance = abs(values[index] - mean)
    if math.isclose(distance, 0.0, abs_tol=1e-12):
        return Outlier(index, mean, 1.0)
    error = sd * math.sqrt(1 + 1 / len(others))
    p = t_tails(distance / error, len(others) - 1) if error else 0.0
    return Outlier(index, mean, min(1.0, len(values) * p))
