"""Was the host left alone, and the same for both arms?"""

from collections.abc import Iterator, Sequence
from statistics import median

from app.format import plural
from app.judge.neighbours import find_neighbour_disturbance
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions

OTHERS_PCT = 10.0  # of all CPUs: what other processes may take
DISTURBED_PCT = 25.0  # of all CPUs: beyond it a trial says more of the host than of its arm
SHORTEST_S = 0.5  # CPU times tick in hundredths of a second: over less than this they say nothing of a share
STOPPED_PCT = 1.0  # of a trial: for how long its engine may have been stopped


def find_disturbance(conditions: Conditions | None) -> str | None:
    """Why a trial cannot be trusted, if the host was not left alone; its block is dropped and repeated."""
    if conditions is None:
        return None
    if conditions.other_cpu_pct is not None and conditions.other_cpu_pct > DISTURBED_PCT:
        return f"other processes took {conditions.other_cpu_pct:.0f} % of the CPUs"
    if conditions.stopped_pct is not None and conditions.stopped_pct > STOPPED_PCT:
        return f"its engine was stopped for {conditions.stopped_pct:.0f} % of the trial"
    return find_neighbour_disturbance(conditions)


def find_unequal_conditions(pairs: Sequence[tuple[TrialSummary, TrialSummary]]) -> Iterator[str]:
    """Why the host was not the same for two arms; `pairs` holds their trials block by block, dropped ones too."""
    names = [trial.planned.arm for trial in pairs[0]] if pairs else []
    for share, what in ((find_others_share, "other processes"), (find_idle_share, "idle engines of other arms")):
        shares = [(share(one), share(other)) for one, other in pairs]
        known = [(one, other) for one, other in shares if one is not None and other is not None]
        known.sort(key=lambda both: both[1] - both[0])
        apart = median(other - one for one, other in known) if known else 0.0
        if abs(apart) > OTHERS_PCT / 100:
            # Both sides of one block: the medians of the sides need not differ, nor in this direction.
            ours, theirs = known[len(known) // 2 if apart > 0 else (len(known) - 1) // 2]
            yield (
                f"{what} took {100 * ours:.0f} % of the CPUs during trials of {names[0]} and {100 * theirs:.0f} % "
                f"during those of {names[1]} (median of {plural(len(known), 'block')})"
            )
    for side in (0, 1):
        stopped = [pair[side] for pair in pairs if _was_stopped(pair[side]) and not _was_stopped(pair[1 - side])]
        if len(stopped) > len(pairs) / 2:
            yield f"the engine of {names[side]} was stopped during {len(stopped)} of {len(pairs)} trials of it only"


def find_unequal_treatment(pairs: Sequence[tuple[TrialSummary, TrialSummary]]) -> Iterator[str]:
    """Engine processes of two arms that the host treats differently; those that only one arm has are left out."""
    names = [trial.planned.arm for trial in pairs[0]] if pairs else []
    both = [(_list_treatment(one), _list_treatment(other)) for one, other in pairs]
    for role in sorted({role for ours, theirs in both for role in ours.keys() & theirs.keys()}):
        apart = [(ours[role], theirs[role]) for ours, theirs in both if ours.get(role) != theirs.get(role)]
        if len(apart) > len(pairs) / 2:
            told = [" and ".join(sorted(treatment)) for treatment in apart[0]]
            yield f"the engine's process {role} had {told[0]} during trials of {names[0]} and {told[1]} with {names[1]}"


def _list_treatment(trial: TrialSummary) -> dict[str, frozenset[str]]:
    """By role."""
    found: dict[str, frozenset[str]] = {}
    for one in (trial.conditions or Conditions()).engine_processes:
        text = f"niceness {one.niceness} on cores {one.cores}"
        found[one.role] = found.get(one.role, frozenset()) | {text}
    return found


def find_others_share(trial: TrialSummary) -> float | None:
    """Of all CPUs: what other processes took; None if nobody knows, or the trial was too short to tell."""
    percent = None if trial.conditions is None else trial.conditions.other_cpu_pct
    duration = trial.metrics.get("duration_s")
    return None if percent is None or duration is None or duration < SHORTEST_S else percent / 100


def find_idle_share(trial: TrialSummary) -> float | None:
    """Of all CPUs: what idle engines of other arms took during the trial; None if nobody knows."""
    percent = None if trial.conditions is None else trial.conditions.idle_arms_cpu_pct
    return None if percent is None else percent / 100


def _was_stopped(trial: TrialSummary) -> bool:
    return ((trial.conditions or Conditions()).stopped_pct or 0.0) > STOPPED_PCT
