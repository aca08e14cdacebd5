"""Was the host left alone, and does the harness stay out of its own measurements?"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import median

from pydantic import Field

from app.measure.metrics import TrialSummary
from app.measure.records import Conditions
from app.spec.frozen import SpecModel


class WarningCode(StrEnum):
    """What a reader of the results should know."""

    SIMULATED = "simulated"
    DROPPED_BLOCKS = "dropped_blocks"
    STOPPED_EARLY = "stopped_early"
    NO_WARMUP = "no_warmup"
    SEVERAL_CANDIDATES = "several_candidates"
    HARNESS_SHARE = "harness_share"
    EVENT_LOOP_LAG = "event_loop_lag"
    DISTURBED_HOST = "disturbed_host"
    THROTTLED = "throttled"
    OUTLYING_BLOCK = "outlying_block"
    CACHED_TOKENS = "cached_tokens"
    CACHED_TOKENS_UNKNOWN = "cached_tokens_unknown"
    MISSING_PERCENTILES = "missing_percentiles"
    MISSING_TIMES = "missing_times"
    WITHIN_NOISE_FLOOR = "within_noise_floor"
    CONTINUED = "continued"
    NOT_CONTINUED = "not_continued"


class ResultWarning(SpecModel):
    """Something that limits what the results mean."""

    code: WarningCode = Field(description="Machine-readable kind.", examples=["disturbed_host"])
    detail: str = Field(
        description="What happened.", examples=["Other processes took up to 48 % of the CPUs during trials of async."]
    )
    arm: str | None = Field(None, description="Arm concerned, if it is one.", examples=["async"])


SHARE = 0.01  # of a trial: what the harness may cost before it is worth a warning
OTHERS_PCT = 10.0  # of all CPUs: what other processes may take
DISTURBED_PCT = 25.0  # of all CPUs: beyond it a trial says more of the host than of its arm
SHORTEST_S = 0.5  # CPU times tick in hundredths of a second: over less than this they say nothing of a share


def disturbance(conditions: Conditions | None) -> str | None:
    """Why a trial cannot be trusted, if the host was not left alone; its block is dropped and repeated."""
    percent = None if conditions is None else conditions.other_cpu_pct
    if percent is None or percent <= DISTURBED_PCT:
        return None
    return f"other processes took {percent:.0f} % of the CPUs"


def condition_warnings(trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """One warning per kind and arm, for measured trials that succeeded."""
    for arm in dict.fromkeys(trial.planned.arm for trial in trials):
        own = [trial for trial in trials if trial.planned.arm == arm]
        for code, worst, limit, text in (
            (WarningCode.HARNESS_SHARE, _harness_share, SHARE, "The harness itself took {:.1%} of the time of a trial"),
            (
                WarningCode.EVENT_LOOP_LAG,
                _lag_share,
                SHARE,
                "The event loop that serves the requests was held up for {:.1%} of a trial",
            ),
            (
                WarningCode.DISTURBED_HOST,
                _others_share,
                OTHERS_PCT / 100,
                "Other processes took {:.0%} of the CPUs during a trial",
            ),
        ):
            shares = [share for trial in own if (share := worst(trial)) is not None]
            above = sum(share > limit for share in shares)
            if above:
                detail = f"{text.format(max(shares))} ({above} of {len(own)} trials above {limit:.0%})."
                yield ResultWarning(code=code, detail=detail, arm=arm)
        throttled = sum(bool(trial.conditions and trial.conditions.throttled) for trial in own)
        if throttled:
            yield ResultWarning(
                code=WarningCode.THROTTLED,
                detail=f"The GPU was held back by heat or its power limit in {throttled} of {len(own)} trials.",
                arm=arm,
            )


def unequal_conditions(pairs: Sequence[tuple[TrialSummary, TrialSummary]]) -> str | None:
    """Why the host was not the same for two arms; `pairs` holds their trials block by block."""
    shares = [(_others_share(one), _others_share(other)) for one, other in pairs]
    known = [(one, other) for one, other in shares if one is not None and other is not None]
    if not known or abs(median(other - one for one, other in known)) <= OTHERS_PCT / 100:
        return None
    ours, theirs = (median(side) for side in zip(*known, strict=True))
    names = [trial.planned.arm for trial in pairs[0]]
    return (
        f"other processes took {ours:.0%} of the CPUs during the trials of {names[0]} and {theirs:.0%} during those of "
        f"{names[1]}"
    )


def _harness_share(trial: TrialSummary) -> float | None:
    return None if trial.harness is None else _share(trial.harness.cpu_s, trial)


def _lag_share(trial: TrialSummary) -> float | None:
    lag = None if trial.harness is None else trial.harness.event_loop_lag_ms
    return None if lag is None else _share(lag / 1000, trial)


def _others_share(trial: TrialSummary) -> float | None:
    percent = None if trial.conditions is None else trial.conditions.other_cpu_pct
    duration = trial.metrics.get("duration_s")
    return None if percent is None or duration is None or duration < SHORTEST_S else percent / 100


def _share(seconds: float, trial: TrialSummary) -> float | None:
    duration = trial.metrics.get("duration_s")
    return None if duration is None else seconds / duration
