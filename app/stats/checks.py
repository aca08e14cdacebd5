"""What every function here asks of its input. A breach is the caller's mistake: ValueError."""

import math
from collections.abc import Iterable


def check_share(name: str, share: float) -> None:
    """Strictly between 0 and 1."""
    if not 0 < share < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {share}")


def check_finite(name: str, values: Iterable[float]) -> None:
    """Neither infinite nor NaN."""
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise ValueError(f"{name}[{index}] is not a finite number: {value}")


def check_sd(sd: float) -> None:
    """A standard deviation: finite, and 0 or more."""
    if not (math.isfinite(sd) and sd >= 0):
        raise ValueError(f"sd must be 0 or more, got {sd}")


def check_blocks(blocks: int, least: int) -> None:
    """At least `least` of them."""
    if blocks < least:
        raise ValueError(f"at least {least} blocks are needed, got {blocks}")
