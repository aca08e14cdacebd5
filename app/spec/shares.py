"""How many of the samples fall into each share of them: pure."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from app.errors import FieldError

ROUNDING_PCT = 1e-9  # three thirds may be said to be 100.00000000000001 %


def count_shares(shares_pct: Sequence[float], units: int) -> tuple[int, ...]:
    """So many of the units in every share, rounded so that shares of 100 % together take all of them."""
    ends = [min(units, round(units * total / 100)) for total in accumulate(shares_pct)]
    return tuple(end - begin for begin, end in pairwise([0, *ends]))


def check_shares(shares_pct: Sequence[float], pointer: str, units: int, per_prompt: bool) -> Iterator[FieldError]:
    """Shares that are none: `units` are the samples of a trial, or its prompts where an arm asks for samples with n."""
    what = "prompts, whose samples stay together since an arm asks for them with n" if per_prompt else "samples"
    for index, count in enumerate(count_shares(shares_pct, units)):
        if not count:
            yield FieldError(
                f"{pointer}/{index}/share_pct", f"{shares_pct[index]:g} % of {units} {what} is none of them"
            )


def require_whole(shares_pct: Sequence[float], name: str) -> None:
    """Raise ValueError where shares are more than everything."""
    total = sum(shares_pct)
    if total > 100 + ROUNDING_PCT:
        raise ValueError(f"{name} are {total:g} % of the samples together; the most is 100 %")
