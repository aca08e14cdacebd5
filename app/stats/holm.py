"""Many tests in one family.

Source: Holm, Scandinavian Journal of Statistics 6 (1979) 65-70.
"""

from collections.abc import Sequence


def adjust_by_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values in the same order: the k-th smallest of m times m-k+1, never below the one before, at most 1.

    A None is a test that was not made: it stays None and does not count.
    """
    made = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    floor = 0.0
    for rank, (p, index) in enumerate(made):
        if not 0 <= p <= 1:
            raise ValueError(f"p_values[{index}] must lie between 0 and 1, got {p}")
        floor = max(floor, min(1.0, p * (len(made) - rank)))
        adjusted[index] = floor
    return adjusted
