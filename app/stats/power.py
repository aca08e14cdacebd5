"""What a number of blocks can find, and how many blocks it takes, by the noncentral t distribution.

Effects and standard deviations are natural logs of ratios; `sd` is that of one block's log ratio, `PairedResult.sd`.
A comparison of the kind `narrower` is given the power of its crossover interval alone: it has at least that much
whatever the position effect, and more without one.
Source: Johnson and Welch, Biometrika 31 (1940) 362-389.
"""

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from app.stats.checks import check_blocks, check_sd, check_share
from app.stats.paired import Analysis, PairedResult, choose_analysis
from app.stats.student import t_quantile
from app.stats.two_intervals import separate_level

Array = npt.NDArray[np.float64]

MOST_BLOCKS = 1000
LEAST_LEVEL = 1e-4
_GRID = 12  # equally likely values of the noise, and of the change for each: more change no count of the tests
_NODES = 20


def chance_of_decision(
    effect: float, sd: float, blocks: int, analysis: Analysis, *, margin: float = 0.0, alpha: float = 0.05
) -> float:
    """The probability that so many blocks decide when the true log ratio is `effect`.

    They decide where the interval at level `alpha` excludes 0, or lies within ± `margin` (a log ratio). Without a
    margin it is the power of the test.
    """
    check_sd(sd)
    return float(_compute_chances(np.array([effect]), np.array([sd]), blocks, analysis, margin=margin, alpha=alpha)[0])


def detectable_effect(sd: float, blocks: int, analysis: Analysis, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest log ratio that is found with probability `power`."""
    check_share("alpha", alpha)
    check_share("power", power)
    if power <= alpha:
        raise ValueError(f"power {power} is reached by chance at alpha {alpha}")
    standard_error, df, level = _describe_interval(sd, blocks, analysis, alpha)
    return detectable_by(standard_error, df, alpha=level, power=power)


def detectable_by(standard_error: float, df: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest log ratio that a t interval of this standard error finds with probability `power`.

    Infinity for fewer than two degrees of freedom at a level below `LEAST_LEVEL`: thousands of standard deviations,
    which nobody asks for and the noncentral t does not know.
    """
    check_share("alpha", alpha)
    check_share("power", power)
    if not standard_error:
        return 0.0
    return math.inf if df < 2 and alpha < LEAST_LEVEL else standard_error * _solve_noncentrality(df, alpha, power)


def blocks_needed(
    result: PairedResult, margin: float, *, arms: int = 2, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """How many blocks, more than have run, decide with probability `power` after a `result` that did not.

    None beyond 1000; even for two arms, whose orders alternate. They decide in whatever way: slower, faster or the same
    within ± `margin` (a log ratio). Neither the true change nor the noise is known, so the chance is averaged over what
    the blocks leave open of both, flat in the change and in the logarithm of the noise.
    Source: the expected power of Spiegelhalter and Freedman, Statistics in Medicine 5 (1986) 1-13.
    """
    check_share("alpha", alpha)
    check_share("power", power)
    effects, sds = list_still_open(result)
    step = 2 if arms <= 2 else 1
    first = max(result.blocks + 1, 4 if arms <= 2 else 2)
    counts = range(first + first % step, MOST_BLOCKS + 1, step)

    def chance(blocks: int) -> float:
        analysis = choose_analysis([1, -1] * (blocks // 2) + [1] * (blocks % 2), arms)
        return float(_compute_chances(effects, sds, blocks, analysis, margin=margin, alpha=alpha).mean())

    place = bisect_left(counts, power, key=chance)
    return counts[place] if place < len(counts) else None


def list_still_open(result: PairedResult) -> tuple[Array, Array]:
    """Equally likely pairs of true effect and true standard deviation, given the blocks."""
    from scipy import special

    grid = (np.arange(_GRID) + 0.5) / _GRID
    sds = np.asarray(result.sd * np.sqrt(result.sd_df / special.chdtri(result.sd_df, grid)), dtype=np.float64)
    error, _, _ = _describe_interval(1.0, result.blocks, result.analysis, 0.05)
    effects = result.log_ratio.value + np.outer(sds * error, special.ndtri(grid))
    return np.asarray(effects.ravel(), dtype=np.float64), np.asarray(np.repeat(sds, _GRID), dtype=np.float64)


def _compute_chances(
    effects: Array, sds: Array, blocks: int, analysis: Analysis, *, margin: float, alpha: float
) -> Array:
    """`chance_of_decision`, one for each pair of effect and standard deviation."""
    from scipy import special

    check_share("alpha", alpha)
    error, _, _ = _describe_interval(1.0, blocks, analysis, alpha)
    errors = np.maximum(sds * error, np.finfo(float).tiny)[:, None]
    widths, weights = list_half_widths(blocks, analysis, alpha)
    halves, centres = errors * widths, np.abs(effects)[:, None]

    def beyond(limit: Array) -> Array:
        return np.asarray(special.ndtr((centres - limit) / errors) + special.ndtr((-centres - limit) / errors))

    decided = np.where(halves <= margin / 2, 1.0, beyond(halves) + (1 - beyond(np.maximum(margin - halves, 0.0))))
    return np.asarray(decided @ weights)


@lru_cache(maxsize=1024)
def list_half_widths(blocks: int, analysis: Analysis, alpha: float) -> tuple[Array, Array]:
    """What the interval's half width can come out as, in true standard errors, and how likely: Gauss-Legendre nodes."""
    from scipy import special

    _, df, level = _describe_interval(1.0, blocks, analysis, alpha)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return t_quantile(level, df) * np.sqrt(np.asarray(special.chdtri(df, (1 - nodes) / 2)) / df), weights / 2


def _describe_interval(sd: float, blocks: int, analysis: Analysis, alpha: float) -> tuple[float, int, float]:
    """Standard error, degrees of freedom and level of the interval that decides."""
    check_blocks(blocks, {"paired": 2, "crossover": 3, "narrower": 4}[analysis])
    check_sd(sd)
    if analysis == "paired":
        return sd / math.sqrt(blocks), blocks - 1, alpha
    fewer = blocks // 2
    standard_error = sd / 2 * math.sqrt(1 / fewer + 1 / (blocks - fewer))
    return standard_error, blocks - 2, alpha if analysis == "crossover" else separate_level(alpha, blocks)


def _compute_power(noncentrality: float, df: float, level: float) -> float:
    # Both tails of a noncentral t are one tail of its square, a noncentral F; scipy's nct is NaN far out.
    from scipy import special

    return 1 - float(special.ncfdtr(1, df, noncentrality**2, t_quantile(level, df) ** 2))


@lru_cache(maxsize=1024)
def _solve_noncentrality(df: float, level: float, power: float) -> float:
    """The true effect in standard errors at which the power is reached."""
    from scipy import optimize

    upper = 1.0
    while _compute_power(upper, df, level) < power:
        upper *= 2
    return float(optimize.brentq(lambda effect: _compute_power(effect, df, level) - power, 0.0, upper))
