"""How large the noise is."""

import math

from app.stats.checks import check_blocks, check_sd, check_share
from app.stats.estimate import Estimate


def estimate_spread(sd: float, df: int, *, confidence: float = 0.95) -> Estimate:
    """A standard deviation with its interval, in the unit of `sd`.

    df sd^2 / sigma^2 follows chi-square with df degrees of freedom: exact for normal noise, rough for any other.
    Source: NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.8.
    """
    from scipy import special

    check_share("confidence", confidence)
    check_blocks(df + 1, 2)
    check_sd(sd)
    tail = (1 - confidence) / 2
    low, high = (sd * math.sqrt(df / float(special.chdtri(df, share))) for share in (tail, 1 - tail))
    return Estimate(sd, min(low, sd), max(high, sd), confidence)
