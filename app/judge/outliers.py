"""A block unlike all others: it counts, but the reader should know what hangs on it."""

from collections.abc import Iterator, Sequence

from app.format import percent
from app.judge.conditions import ResultWarning, WarningCode
from app.judge.luck import start_spread
from app.judge.verdict import BlockValues, Comparison
from app.stats.estimate import NoEstimate, to_percent
from app.stats.outlier import outlier
from app.stats.starts import compare_starts


def outlier_warnings(comparisons: Sequence[Comparison]) -> Iterator[ResultWarning]:
    """One for each candidate whose output throughput has such a block.

    The block is not dropped: what nobody saw disturbed may be how the arm is, and whoever drops what does not fit finds
    what they like.
    """
    for comparison in comparisons:
        if comparison.metric != "output_throughput" or comparison.interval_pct is None:
            continue
        changes = [block.log_ratio for block in comparison.blocks]
        found = outlier(changes)
        if found is not None:
            apart = comparison.blocks[found.index]
            yield ResultWarning(
                code=WarningCode.OUTLYING_BLOCK,
                detail=f"Block {apart.block} stands apart: {_signed(changes[found.index])}, where the others average "
                f"{_signed(found.others_mean)}. It counts; without it the change would be "
                f"{_without(comparison, apart)}. Look for what the host did then, or repeat the experiment.",
                arm=comparison.candidate,
            )


def _without(comparison: Comparison, apart: BlockValues) -> str:
    rest = [block for block in comparison.blocks if block is not apart]
    modelled = comparison.analysis != "paired"
    apart_by_start = comparison.start_sd_pct is not None
    result = compare_starts(
        [block.baseline for block in rest],
        [block.candidate for block in rest],
        [block.order for block in rest] if modelled else None,
        [block.start if apart_by_start else 0 for block in rest],
        confidence=comparison.confidence,
        known=None if comparison.known_spread is None else start_spread(comparison.known_spread),
    )
    if isinstance(result, NoEstimate):
        return f"unknown ({result.reason})"
    change = result.log_ratio.transformed(to_percent)
    low, high = (percent(end, signed=True) for end in (change.low, change.high))
    return f"{percent(change.value, signed=True)} ({low} to {high})"


def _signed(log_ratio: float) -> str:
    return percent(to_percent(log_ratio), signed=True)
