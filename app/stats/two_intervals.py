"""The exact price of drawing two t intervals and keeping the narrower.

With n blocks, half of them in each order, the estimate Z has two valid standard errors. Let V be the sum of squares
within the orders and W the one between them (1 df). The paired interval uses (V + W) / (n-1), the crossover interval
V / (n-2). Without a position effect Z, V and W are independent, so the paired t has n-1 df, is independent of
W / (V+W) ~ Beta(1/2, (n-2)/2), and

    t_crossover = t_paired sqrt((n-2) / (n-1)) / cos a,   where sin^2 a = W / (V+W).

Hence the chance that the smaller of the two p-values is at most p is an integral over the angle a, whose density is
proportional to cos^(n-3) a. A position effect makes W larger and leaves Z and V alone: it can only lower that chance.
Source: the adjusted smallest p-value of Westfall and Young, Resampling-Based Multiple Testing (1993), here exact
instead of resampled.
"""

import math
from functools import lru_cache

from app.stats.checks import check_blocks, check_share
from app.stats.student import t_quantile, t_tails

_SMALLEST_P = 1e-15  # below, the integral is lost in rounding; the bound of Bonferroni, twice p, is close enough


@lru_cache(maxsize=4096)
def joint_level(p: float, blocks: int) -> float:
    """The probability that the smaller of the two p-values is at most `p`, when there is no effect of any kind."""
    from scipy import integrate, special

    check_blocks(blocks, 3)
    if p < _SMALLEST_P or p >= 1:
        return min(max(2 * p, 0.0), 1.0)
    df = blocks - 1
    paired = t_quantile(p, df)
    crossover = t_quantile(p, df - 1) * math.sqrt(df / (df - 1))
    # Up to this angle the paired t is the easier one to exceed, beyond it the crossover t.
    turn = math.acos(min(paired / crossover, 1.0))
    below = float(special.betainc(0.5, (df - 1) / 2, math.sin(turn) ** 2))
    density = 2 / float(special.beta(0.5, (df - 1) / 2))

    def integrand(angle: float) -> float:
        return density * math.cos(angle) ** (df - 2) * t_tails(crossover * math.cos(angle), df)

    beyond, _ = integrate.quad(integrand, turn, math.pi / 2, epsabs=0, epsrel=1e-9)
    return min(below * p + float(beyond), 1.0)


@lru_cache(maxsize=4096)
def separate_level(alpha: float, blocks: int) -> float:
    """The level for each of the two intervals at which the narrower of them has level `alpha`."""
    from scipy import optimize

    check_share("alpha", alpha)
    return float(optimize.brentq(lambda p: joint_level(p, blocks) - alpha, alpha / 2, alpha, xtol=1e-12))
