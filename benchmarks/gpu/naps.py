"""What taking turns costs: sleeps and wakes by vLLM's own log, swaps by the trials' times."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

from app.measure.metrics import TrialSummary

_ASLEEP = re.compile(r"It took ([\d.]+) seconds to fall asleep")
_AWAKE = re.compile(r"It took ([\d.]+) seconds to wake up")


def naps(logs: Sequence[str]) -> dict[str, Any]:
    """Seconds of first and later sleeps and of wakes; one log per engine."""
    asleep = [_seconds(_ASLEEP, log) for log in logs]
    return {
        "first_sleeps_s": [times[0] for times in asleep if times],
        "later_sleeps_s": spread([seconds for times in asleep for seconds in times[1:]]),
        "wakes_s": spread([seconds for log in logs for seconds in _seconds(_AWAKE, log)]),
    }


def beside_trials(trials: Sequence[TrialSummary], engine: Mapping[str, int]) -> dict[str, Any]:
    """Seconds a trial took beyond its measured part, where another engine had to wake up and where not.

    The first trial is left out: its swap holds the last engine's first sleep.
    """
    found: dict[bool, list[float]] = {True: [], False: []}
    for before, trial in pairwise(sorted(trials, key=lambda trial: trial.started_at)):
        duration = trial.metrics.get("duration_s")
        if duration is not None:
            swapped = engine[before.planned.arm] != engine[trial.planned.arm]
            found[swapped].append(trial.wall_s - duration)
    return {"with_swap_s": spread(found[True]), "without_s": spread(found[False])}


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Number, mean, least and most."""
    if not values:
        return None
    return {"n": len(values), "mean": mean(values), "least": min(values), "most": max(values)}


def _seconds(pattern: re.Pattern[str], log: str) -> list[float]:
    return [float(seconds) for seconds in pattern.findall(log)]
