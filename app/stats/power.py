"""What a number of blocks can find, and how many blocks it takes, by the noncentral t distribution.

Effects and standard deviations are natural logs of ratios; `sd` is that of one block's log ratio, `PairedResult.sd`.
A comparison of the kind `narrower` is given the power of its crossover interval alone: it has at least that much
whatever the position effect, and more without one.
Source: Johnson and Welch, Biometrika 31 (1940) 362-389.
"""

import math
from bisect import bisect_left
from functools import lru_cache

from app.stats.checks import check_blocks, check_share
from app.stats.paired import Analysis
from app.stats.student import t_quantile
from app.stats.two_intervals import separate_level

MOST_BLOCKS = 1000


def power_of(effect: float, sd: float, blocks: int, analysis: Analysis, *, alpha: float = 0.05) -> float:
    """The probability that the interval at level `alpha` excludes 0 when the true log ratio is `effect`."""
    check_share("alpha", alpha)
    standard_error, df, level = _interval(sd, blocks, analysis, alpha)
    if standard_error == 0:
        return 1.0 if effect else 0.0
    return _power(abs(effect) / standard_error, df, level)


def detectable_effect(sd: float, blocks: int, analysis: Analysis, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest log ratio that is found with probability `power`."""
    check_share("alpha", alpha)
    check_share("power", power)
    if power <= alpha:
        raise ValueError(f"power {power} is reached by chance at alpha {alpha}")
    standard_error, df, level = _interval(sd, blocks, analysis, alpha)
    return standard_error * _noncentrality(df, level, power)


def blocks_needed(
    effect: float, sd: float, analysis: Analysis, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """The fewest blocks that find the log ratio `effect` with probability `power`; None beyond 1000.

    Even for `narrower`, whose blocks come in pairs.
    """
    if effect == 0:
        raise ValueError("no number of blocks finds an effect of 0")
    counts = range(_least_blocks(analysis), MOST_BLOCKS + 1, 2 if analysis == "narrower" else 1)
    place = bisect_left(counts, power, key=lambda blocks: power_of(effect, sd, blocks, analysis, alpha=alpha))
    return counts[place] if place < len(counts) else None


def _least_blocks(analysis: Analysis) -> int:
    return {"paired": 2, "crossover": 3, "narrower": 4}[analysis]


def _interval(sd: float, blocks: int, analysis: Analysis, alpha: float) -> tuple[float, int, float]:
    """Standard error, degrees of freedom and level of the interval that decides."""
    check_blocks(blocks, _least_blocks(analysis))
    if not (math.isfinite(sd) and sd >= 0):
        raise ValueError(f"sd must be 0 or more, got {sd}")
    if analysis == "paired":
        return sd / math.sqrt(blocks), blocks - 1, alpha
    fewer = blocks // 2
    standard_error = sd / 2 * math.sqrt(1 / fewer + 1 / (blocks - fewer))
    return standard_error, blocks - 2, alpha if analysis == "crossover" else separate_level(alpha, blocks)


def _power(noncentrality: float, df: int, level: float) -> float:
    # Both tails of a noncentral t are one tail of its square, a noncentral F; scipy's nct is NaN far out.
    from scipy import special

    return 1 - float(special.ncfdtr(1, df, noncentrality**2, t_quantile(level, df) ** 2))


@lru_cache(maxsize=1024)
def _noncentrality(df: int, level: float, power: float) -> float:
    """The true effect in standard errors at which the power is reached."""
    from scipy import optimize

    upper = 1.0
    while _power(upper, df, level) < power:
        upper *= 2
    return float(optimize.brentq(lambda effect: _power(effect, df, level) - power, 0.0, upper))
