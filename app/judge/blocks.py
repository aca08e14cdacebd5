"""Trials side by side: comparisons are made inside blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.judge.conditions import find_disturbance
from app.judge.fairness import Fairness, check_fairness
from app.measure.metrics import TrialSummary
from app.measure.records import TrialState
from app.measure.work import Work
from app.spec.plan import Phase, TrialPlan

Blocks = Mapping[int, Mapping[str, TrialSummary]]


def group_blocks(trials: Sequence[TrialSummary]) -> Blocks:
    """The measured trials of the newest attempt: block -> arm -> trial."""
    newest = max((trial.attempt for trial in trials), default=0)
    blocks: dict[int, dict[str, TrialSummary]] = {}
    for trial in trials:
        if trial.attempt == newest and trial.planned.phase is Phase.MEASURED:
            blocks.setdefault(trial.planned.block, {})[trial.planned.arm] = trial
    return {block: blocks[block] for block in sorted(blocks)}


def list_finished(blocks: Blocks, plan: TrialPlan) -> tuple[int, ...]:
    """The plan's blocks in which every arm had its trial, however it ended; repeats are no part of the plan."""
    planned = {trial.block for trial in plan.measured}
    return tuple(block for block, by_arm in blocks.items() if block in planned and set(plan.arms) <= set(by_arm))


def has_succeeded(trial: TrialSummary) -> bool:
    """Whether the trial ran to its end."""
    return trial.state is TrialState.SUCCEEDED


def is_counted(trial: TrialSummary | None) -> bool:
    """Whether a comparison may rest on the trial."""
    return trial is not None and has_succeeded(trial) and find_disturbance(trial.conditions) is None


def explain_drop(blocks: Blocks, trial: TrialSummary, baseline: str) -> str | None:
    """Why a measured trial does not count: what happened to it, or to the trial that it is compared with.

    A baseline's trial counts as long as any candidate's of its block does, or none has run.
    """
    if not is_counted(trial):
        return _explain_absence(trial.planned.arm, trial)
    others = [other for arm, other in blocks[trial.planned.block].items() if arm != trial.planned.arm]
    if trial.planned.arm != baseline:
        others = [other for other in others if other.planned.arm == baseline]
    if not others or any(is_counted(other) for other in others):
        return None
    return "; ".join(_explain_absence(other.planned.arm, other) for other in others)


def compare_work(blocks: Blocks, arms: Sequence[str], *, natural: bool = False) -> Fairness:
    """Whether these arms did the same work, in the blocks that all of them finished, disturbed or not.

    `natural`: the model ends the samples, so that their lengths are drawn. What a cache keeps hangs on time, and so on
    whoever disturbs: it is compared in blocks that were left alone.
    """
    works: dict[int, dict[str, Work]] = {
        block: {arm: trial.work for arm, trial in by_arm.items() if trial.work is not None and has_succeeded(trial)}
        for block, by_arm in blocks.items()
    }
    disturbed = {block for block, by_arm in blocks.items() if not all(is_counted(by_arm.get(arm)) for arm in arms)}
    return check_fairness(works, arms, natural=natural, disturbed=disturbed)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms' trials, block by block."""

    baseline: str
    candidate: str
    done: Mapping[int, tuple[TrialSummary, TrialSummary]]  # block -> trial of the baseline, of the candidate
    dropped: Mapping[int, str]  # block -> why it does not count

    @classmethod
    def build(cls, blocks: Blocks, baseline: str, candidate: str) -> "Pair":
        """A trial that failed or was disturbed takes its whole block with it."""
        done: dict[int, tuple[TrialSummary, TrialSummary]] = {}
        dropped: dict[int, str] = {}
        for block, by_arm in blocks.items():
            ours, theirs = by_arm.get(baseline), by_arm.get(candidate)
            if ours is not None and theirs is not None and is_counted(ours) and is_counted(theirs):
                done[block] = (ours, theirs)
            elif ours is not None or theirs is not None:
                dropped[block] = "; ".join(
                    _explain_absence(arm, by_arm.get(arm))
                    for arm in (baseline, candidate)
                    if not is_counted(by_arm.get(arm))
                )
        return cls(baseline, candidate, done, dropped)

    def has(self, key: str) -> bool:
        """Whether both arms have values of a metric, and not all of them 0."""
        sides = [[trials[side].metrics.get(key) for trials in self.done.values()] for side in (0, 1)]
        known = [{value for value in side if value is not None} for side in sides]
        return all(known) and known != [{0.0}, {0.0}]


def _explain_absence(arm: str, trial: TrialSummary | None) -> str:
    if trial is None:
        return f"{arm} has not run"
    if has_succeeded(trial):
        return f"{arm} was disturbed: {find_disturbance(trial.conditions)}"
    return f"{arm} failed: {trial.error}" if trial.error else f"{arm} failed"
