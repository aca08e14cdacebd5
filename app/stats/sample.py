"""What a sample of single values says about itself. Too few values are None with a reason, never a guess."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from app.stats.checks import check_finite, check_share

CONFIDENCE = 0.99


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    check_finite("values", values)
    return math.fsum(values) / len(values) if values else None


def sample_std(values: Sequence[float]) -> float | None:
    """Standard deviation with n - 1 in the denominator; None below 2 values, which show no spread."""
    check_finite("values", values)
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The value below which `percent` of a larger sample would lie; None where `why_no_percentile` gives a reason.

    Linear between order statistics, as numpy and most benchmark tools have it.
    Source: Hyndman and Fan, The American Statistician 50 (1996) 361-365, type 7.
    """
    check_finite("values", values)
    return None if explain_no_percentile(len(values), percent) else float(np.percentile(values, percent))


def explain_no_percentile(count: int, percent: float) -> str | None:
    """The reason why so many values give no such percentile; None if they do."""
    least = count_fewest_values(percent)
    return None if count >= least else f"p{percent:g} needs {least} values, got {count}"


@lru_cache(maxsize=64)
def count_fewest_values(percent: float) -> int:
    """The fewest values that show a percentile: 64 for p90, 130 for p95, 662 for p99, 1 for the median.

    With 99 % confidence at least two of them lie beyond it, so that no single value decides; the median is
    held by values on both sides and needs no such guard.
    Source: the early-stopping rule of MLPerf's LoadGen (mlcommons/inference, loadgen/early_stopping.cc).
    """
    from scipy import special

    check_share("percent / 100", percent / 100)
    beyond = min(percent, 100 - percent) / 100
    count = 1
    while percent != 50 and float(special.bdtr(1, count, beyond)) > 1 - CONFIDENCE:
        count += 1
    return count
