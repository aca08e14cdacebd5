"""The exact sign-flip test: a second opinion that asks nothing of the noise but symmetry around 0.

Under no difference every d_i might as well have had the other sign. p is the share of all 2^n ways to set the signs
whose sum is at least as far from 0 as the one observed. A position effect makes it too cautious, like the paired t.
Source: Fisher, The Design of Experiments (1935), section 21.
"""

import math
from collections.abc import Sequence

import numpy as np

from app.stats.checks import check_finite

FEWEST = 6  # two-sided p is at least 2 / 2^n, and 2/32 is above 5 %
MOST = 20


def explain_no_sign_flip(pairs: int) -> str | None:
    """The reason why `sign_flip_p` has no answer for so many pairs; None if it has one."""
    if pairs < FEWEST:
        return f"{pairs} pairs have no p-value below {min(1.0, 2 / 2**pairs):g}: {FEWEST} are needed"
    if pairs > MOST:
        return f"{pairs} pairs have too many sign patterns to count them all: {MOST} are the most"
    return None


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Two-sided p-value, between 2 / 2^n and 1; None where `why_no_sign_flip` gives a reason."""
    check_finite("differences", differences)
    if explain_no_sign_flip(len(differences)):
        return None
    # Flipping all signs mirrors the sum, so half the patterns tell all: the first sign stays.
    sums = np.array(differences[:1], dtype=float)
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    # Sums that are equal on paper differ in their last digits; losing a tie would make p too small.
    least = abs(math.fsum(differences)) - 1e-9 * math.fsum(map(abs, differences))
    return float(np.mean(np.abs(sums) >= least))
