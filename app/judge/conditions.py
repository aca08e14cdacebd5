"""Was the host left alone, and does the harness stay out of its own measurements?"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import median

from pydantic import Field

from app.judge.clocks import HELD_BACK_PCT
from app.judge.neighbours import (
    gpus_of,
    has_neighbours,
    held_back_pct,
    neighbour_disturbance,
    unattributed,
    unseen_clause,
    who,
)
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, Unseen
from app.spec.frozen import SpecModel


class WarningCode(StrEnum):
    """What a reader of the results should know."""

    SIMULATED = "simulated"
    DROPPED_BLOCKS = "dropped_blocks"
    STOPPED_EARLY = "stopped_early"
    NO_WARMUP = "no_warmup"
    NOT_TAKEN = "not_taken"
    NOT_READ_BACK = "not_read_back"
    SEVERAL_CANDIDATES = "several_candidates"
    HARNESS_SHARE = "harness_share"
    EVENT_LOOP_LAG = "event_loop_lag"
    DISTURBED_HOST = "disturbed_host"
    IDLE_ARM = "idle_arm"
    NEIGHBOUR = "neighbour"
    THROTTLED = "throttled"
    CONDITIONS_UNSEEN = "conditions_unseen"
    OUTLYING_BLOCK = "outlying_block"
    UNEQUAL_WORK = "unequal_work"
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


STOPPED_PCT = 1.0  # of a trial: for how long its engine may have been stopped


def disturbance(conditions: Conditions | None) -> str | None:
    """Why a trial cannot be trusted, if the host was not left alone; its block is dropped and repeated."""
    if conditions is None:
        return None
    if conditions.other_cpu_pct is not None and conditions.other_cpu_pct > DISTURBED_PCT:
        return f"other processes took {conditions.other_cpu_pct:.0f} % of the CPUs"
    if conditions.stopped_pct is not None and conditions.stopped_pct > STOPPED_PCT:
        return f"its engine was stopped for {conditions.stopped_pct:.0f} % of the trial"
    return neighbour_disturbance(conditions)


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
            (
                WarningCode.IDLE_ARM,
                _idle_share,
                OTHERS_PCT / 100,
                "Idle engines of other arms took {:.0%} of the CPUs during a trial, which `residency: restart` avoids",
            ),
        ):
            shares = [share for trial in own if (share := worst(trial)) is not None]
            above = sum(share > limit for share in shares)
            if above:
                detail = f"{text.format(max(shares))} ({above} of {len(own)} trials above {limit:.0%})."
                yield ResultWarning(code=code, detail=detail, arm=arm)
        yield from _of_the_gpus(arm, own)


def _of_the_gpus(arm: str, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    held = [share for trial in trials if (share := max(held_back_pct(trial).values(), default=0.0)) > HELD_BACK_PCT]
    if held:
        yield ResultWarning(
            code=WarningCode.THROTTLED,
            detail=f"The GPU was held back by heat or its power limit for up to {max(held):.0f} % of the time "
            f"({len(held)} of {len(trials)} trials above {HELD_BACK_PCT:.0f} %).",
            arm=arm,
        )
    beside = [trial for trial in trials if has_neighbours(trial)]
    if beside:
        gpu = next(gpu for gpu in gpus_of(beside[0]) if gpu.neighbours)
        yield ResultWarning(
            code=WarningCode.NEIGHBOUR,
            detail=f"On GPU {gpu.gpu} was {who(gpu.neighbours[0])}, in {len(beside)} of {len(trials)} trials.",
            arm=arm,
        )
    unseen = [unattributed(trials), unseen_clause(Unseen.HELD_BACK, trials)]
    told = [clause for clause in unseen if clause is not None]
    if told:
        detail = "; ".join(told)
        yield ResultWarning(code=WarningCode.CONDITIONS_UNSEEN, detail=f"{detail[0].upper()}{detail[1:]}.", arm=arm)


def unequal_conditions(pairs: Sequence[tuple[TrialSummary, TrialSummary]]) -> Iterator[str]:
    """Why the host was not the same for two arms; `pairs` holds their trials block by block, dropped ones too."""
    names = [trial.planned.arm for trial in pairs[0]] if pairs else []
    for share, what in ((_others_share, "other processes"), (_idle_share, "idle engines of other arms")):
        shares = [(share(one), share(other)) for one, other in pairs]
        known = [(one, other) for one, other in shares if one is not None and other is not None]
        if known and abs(median(other - one for one, other in known)) > OTHERS_PCT / 100:
            ours, theirs = (median(side) for side in zip(*known, strict=True))
            yield (
                f"{what} took {ours:.0%} of the CPUs during the trials of {names[0]} and {theirs:.0%} during those of "
                f"{names[1]}"
            )
    for side in (0, 1):
        stopped = [pair[side] for pair in pairs if _was_stopped(pair[side]) and not _was_stopped(pair[1 - side])]
        if len(stopped) > len(pairs) / 2:
            yield f"the engine of {names[side]} was stopped during {len(stopped)} of {len(pairs)} trials of it only"


def unequal_treatment(pairs: Sequence[tuple[TrialSummary, TrialSummary]]) -> Iterator[str]:
    """Engine processes of two arms that the host treats differently; those that only one arm has are left out."""
    names = [trial.planned.arm for trial in pairs[0]] if pairs else []
    both = [(_treatment(one), _treatment(other)) for one, other in pairs]
    for role in sorted({role for ours, theirs in both for role in ours.keys() & theirs.keys()}):
        apart = [(ours[role], theirs[role]) for ours, theirs in both if ours.get(role) != theirs.get(role)]
        if len(apart) > len(pairs) / 2:
            told = [" and ".join(sorted(treatment)) for treatment in apart[0]]
            yield f"the engine's process {role} had {told[0]} during trials of {names[0]} and {told[1]} with {names[1]}"


def _treatment(trial: TrialSummary) -> dict[str, frozenset[str]]:
    """By role."""
    found: dict[str, frozenset[str]] = {}
    for one in (trial.conditions or Conditions()).engine_processes:
        text = f"niceness {one.niceness} on cores {one.cores}"
        found[one.role] = found.get(one.role, frozenset()) | {text}
    return found


def _harness_share(trial: TrialSummary) -> float | None:
    return None if trial.harness is None else _share(trial.harness.cpu_s, trial)


def _lag_share(trial: TrialSummary) -> float | None:
    lag = None if trial.harness is None else trial.harness.event_loop_lag_ms
    return None if lag is None else _share(lag / 1000, trial)


def _others_share(trial: TrialSummary) -> float | None:
    percent = None if trial.conditions is None else trial.conditions.other_cpu_pct
    duration = trial.metrics.get("duration_s")
    return None if percent is None or duration is None or duration < SHORTEST_S else percent / 100


def _idle_share(trial: TrialSummary) -> float | None:
    percent = None if trial.conditions is None else trial.conditions.idle_arms_cpu_pct
    return None if percent is None else percent / 100


def _was_stopped(trial: TrialSummary) -> bool:
    return ((trial.conditions or Conditions()).stopped_pct or 0.0) > STOPPED_PCT


def _share(seconds: float, trial: TrialSummary) -> float | None:
    duration = trial.metrics.get("duration_s")
    return None if duration is None else seconds / duration
