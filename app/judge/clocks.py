"""GPUs that were held back, by power, heat or somebody's setting."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from app.judge.neighbours import describe_unattributed, list_gpus
from app.measure.metrics import TrialSummary
from app.measure.records import Unseen

HELD_BACK_PCT = 10.0  # of a trial: a share worth a warning, and a difference that matters where clocks cannot be read
CLOCK = math.log(1.01)  # log ratio of clocks that matters: it could move a throughput by 1 %
_SAME_DRAW = math.log(0.98)  # of power: not less, as far as an energy counter tells

Trials = tuple[TrialSummary, TrialSummary]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """One arm's GPU ran slower than the other's."""

    said: str  # a clause
    explained: str | None  # by what the arm itself does; None makes it a confound


@dataclass(frozen=True, slots=True)
class Side:
    """One GPU under one arm: medians over its trials; None where it could not be read."""

    arm: str
    gpu: str
    clock_mhz: float | None
    best_clock_mhz: float | None
    best_memory_clock_mhz: float | None
    power_w: float | None
    held_back_pct: dict[str, float]  # by reason
    alone: bool  # whoever else was on it was seen, and idle
    throughput: float | None


def find_unequal_clocks(pairs: Sequence[Trials]) -> Iterator[HeldBack]:
    """Where one arm's GPUs were held back more; `pairs` holds two arms' trials block by block.

    A lower mean clock alone says nothing: a GPU that waits for its arm idles. It counts where the counters say that the
    GPU was held back, where they cannot be read, or where not even its highest clock came near the other's.
    """
    count = min((len(list_gpus(trial)) for pair in pairs for trial in pair), default=0)
    for index in range(count):
        ours, theirs = (measure_side([pair[side] for pair in pairs], index) for side in (0, 1))
        for slow, other in ((ours, theirs), (theirs, ours)):
            if is_held_back_more(slow, other):
                yield HeldBack(describe(slow, other), explain(slow, other))


def is_held_back_more(slow: Side, other: Side) -> bool:
    """Whether one GPU was held back beyond the other, by so much that it matters."""
    reason = _find_reason(slow, other)
    more = slow.held_back_pct.get(reason, 0.0) - other.held_back_pct.get(reason, 0.0)
    clock = _log_ratio(other.clock_mhz, slow.clock_mhz)
    if clock is None:
        return more > HELD_BACK_PCT
    capped = any(
        (ratio or 0.0) > CLOCK
        for ratio in (
            _log_ratio(other.best_clock_mhz, slow.best_clock_mhz),
            _log_ratio(other.best_memory_clock_mhz, slow.best_memory_clock_mhz),
        )
    )
    held = not slow.held_back_pct or max(slow.held_back_pct.values()) > HELD_BACK_PCT
    return capped or (clock > CLOCK and held)


def explain(slow: Side, other: Side) -> str | None:
    """What the arm itself explains.

    An arm that does more work in a second may reach a limit by it, and would only be faster without. One that draws no
    less power, on a GPU that nobody else used, reached the power limit by what it does: that is its effect too.
    """
    if (_log_ratio(slow.throughput, other.throughput) or 0.0) > CLOCK:
        return f"{slow.arm} does more work in a second, and would only be faster without"
    draw = _log_ratio(slow.power_w, other.power_w)
    by_power = slow.held_back_pct and _find_reason(slow, other) == "power"
    if by_power and slow.alone and other.alone and draw is not None and draw >= _SAME_DRAW:
        return f"nobody else used the GPU and {slow.arm} draws no less power, so that this is part of its effect"
    return None


def describe(slow: Side, other: Side) -> str:
    """A clause on what held it back, and its clocks."""
    said = f"GPU {slow.gpu} was held back"
    if slow.held_back_pct:
        reason = _find_reason(slow, other)
        ours, theirs = slow.held_back_pct[reason], other.held_back_pct.get(reason, 0.0)
        said += (
            f" by {reason} for {ours:.0f} % of the time during the trials of {slow.arm} and {theirs:.0f} % during "
            f"those of {other.arm}"
        )
    if slow.clock_mhz is not None and other.clock_mhz is not None:
        said += f" (SM clock {slow.clock_mhz:,.0f} MHz with {slow.arm}, {other.clock_mhz:,.0f} MHz with {other.arm})"
    return said


def _find_reason(slow: Side, other: Side) -> str:
    """What held one back beyond the other."""
    more = {reason: share - other.held_back_pct.get(reason, 0.0) for reason, share in slow.held_back_pct.items()}
    return max(more, key=lambda reason: (more[reason], slow.held_back_pct[reason]), default="")


def measure_side(trials: Sequence[TrialSummary], index: int) -> Side:
    """Medians of one GPU over the trials of its arm."""
    gpus = [list_gpus(trial)[index] for trial in trials]
    reasons = {reason for gpu in gpus for reason in gpu.held_back_pct}
    readable = all(Unseen.HELD_BACK not in gpu.unseen for gpu in gpus)
    return Side(
        arm=trials[0].planned.arm,
        gpu=gpus[0].gpu,
        clock_mhz=_find_median([spread.mean for gpu in gpus if (spread := gpu.sm_clock_mhz)]),
        best_clock_mhz=_find_median([spread.most for gpu in gpus if (spread := gpu.sm_clock_mhz)]),
        best_memory_clock_mhz=_find_median([spread.most for gpu in gpus if (spread := gpu.memory_clock_mhz)]),
        power_w=_find_median([gpu.power_w for gpu in gpus]),
        held_back_pct={
            reason: median(gpu.held_back_pct.get(reason, 0.0) for gpu in gpus) for reason in sorted(reasons) if readable
        },
        alone=describe_unattributed(trials) is None,
        throughput=_find_median([trial.metrics.get("output_throughput") for trial in trials]),
    )


def _find_median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _log_ratio(one: float | None, other: float | None) -> float | None:
    return math.log(one / other) if one and other else None
