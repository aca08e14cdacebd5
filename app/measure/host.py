"""The host over one trial, from looks at the engine's processes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_LATE = 5  # periods after which a look that is not there has been kept from happening
_STANDSTILL = 0.1  # of that time: a process that ran for less was not merely busy


@dataclass(frozen=True, slots=True)
class EngineLook:
    """The processes of the arm's engine at one moment of the host's monotonic clock."""

    at_s: float
    done_s: float  # when the look was over: NVML, which is asked too, may take its time
    stopped: bool  # any of them
    cpu_s: float  # used so far by the process that looks


def stopped_s(looks: Sequence[EngineLook], period_s: float) -> float:
    """Time in which a process of the engine was stopped, to about a period per stop.

    The process that looks cannot see itself stopped: a look that comes late, while the process had no CPU time, tells.
    """
    total = 0.0
    for before, after in pairwise(looks):
        gap = after.at_s - before.at_s
        waited = after.at_s - before.done_s
        if waited > _LATE * period_s and after.cpu_s - before.cpu_s < _STANDSTILL * waited:
            total += waited - period_s
        else:
            total += gap * (before.stopped + after.stopped) / 2
    return total


def core_ranges(cores: Iterable[int]) -> str:
    """`0-2,5` for 0, 1, 2 and 5."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)
