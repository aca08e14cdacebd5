"""What limits the meaning of the results."""

from collections.abc import Iterator, Sequence

from app.judge.blocks import Blocks, succeeded
from app.judge.conditions import ResultWarning, WarningCode, condition_warnings
from app.judge.fairness import Fairness
from app.judge.taken import contrast, not_taken
from app.measure.metrics import PERCENTILES, TrialSummary
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedExperiment
from app.spec.workload import SyntheticPrompts
from app.stats.sample import fewest_values

MOST_ERRORS = 200  # characters of an error in a warning


def result_warnings(
    spec: Experiment, resolved: ResolvedExperiment, plan: TrialPlan, status: Status, blocks: Blocks
) -> Iterator[ResultWarning]:
    """Everything a reader should know before believing the numbers."""
    trials = [trial for by_arm in blocks.values() for trial in by_arm.values()]
    counted = [trial for trial in trials if succeeded(trial)]
    yield from _of_the_plan(spec, resolved, status, len(blocks))
    yield from _failed(trials, plan.arms)
    made_up = {arm.name for arm in resolved.arms if arm.simulated}
    yield from condition_warnings([trial for trial in counted if trial.planned.arm not in made_up])
    yield from _cache(spec, counted)
    yield from _missing(counted)


def asked_and_got(resolved: ResolvedExperiment, arms: Sequence[StartedArm]) -> Iterator[ResultWarning]:
    """What engines did not take, and where nothing tells whether they took that in which the arms differ."""
    started = {arm.arm: arm for arm in arms}
    baseline = next(arm for arm in resolved.arms if arm.name == resolved.baseline)
    for arm in resolved.arms:
        lacking = not_taken(arm, started[arm.name]) if arm.name in started else ()
        if lacking:
            detail = f"Its engine did not take what was asked for: {'; '.join(map(str, lacking))}."
            yield ResultWarning(code=WarningCode.NOT_TAKEN, detail=detail, arm=arm.name)
        unread = contrast(baseline, arm, arms).unread
        if unread and not (arm.simulated or baseline.simulated):
            detail = f"Whether it is in force could not be read back: {', '.join(unread)}."
            yield ResultWarning(code=WarningCode.NOT_READ_BACK, detail=detail, arm=arm.name)


def _of_the_plan(spec: Experiment, resolved: ResolvedExperiment, status: Status, done: int) -> Iterator[ResultWarning]:
    if resolved.simulated:
        names = ", ".join(arm.name for arm in resolved.arms if arm.simulated)
        yield ResultWarning(code=WarningCode.SIMULATED, detail=f"No engine ran for {names}: timings are made up.")
    elif not spec.plan.warmup_trials:
        yield ResultWarning(
            code=WarningCode.NO_WARMUP, detail="No trial was run to warm up: the first of every engine counts."
        )
    if status is Status.SUCCEEDED and spec.plan.looks and done < spec.plan.blocks:
        yield ResultWarning(
            code=WarningCode.STOPPED_EARLY,
            detail=f"Ended after {done} of {spec.plan.blocks} blocks, at a look the plan allows.",
        )
    candidates = len(resolved.arms) - 1
    if candidates > 1:
        chance = min(1.0, candidates * spec.decision.alpha)
        yield ResultWarning(
            code=WarningCode.SEVERAL_CANDIDATES,
            detail=f"{candidates} candidates are each tested at level {spec.decision.alpha:g}: the chance that any is "
            f"called different although none is can reach {chance:.0%}.",
        )


def _failed(trials: Sequence[TrialSummary], arms: Sequence[str]) -> Iterator[ResultWarning]:
    for arm in arms:
        failed = [trial for trial in trials if trial.planned.arm == arm and not succeeded(trial)]
        if failed:
            blocks = ", ".join(str(trial.planned.block) for trial in failed)
            error = (failed[0].error or "unknown error")[:MOST_ERRORS]
            detail = f"Its trials of these blocks failed, so the blocks do not count: {blocks} ({error})."
            yield ResultWarning(code=WarningCode.DROPPED_BLOCKS, detail=detail, arm=arm)


def work_warnings(fairness: Fairness | None, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """What was not equal and yet confounds nothing. `trials`: those that count."""
    for difference in () if fairness is None else fairness.tolerated:
        values = ", ".join(f"{arm} {value}" for arm, value in difference.values.items()) or "sample by sample"
        detail = f"{difference.what} differ within the tolerance: {values}."
        yield ResultWarning(code=WarningCode.UNEQUAL_WORK, detail=detail)
    preemptions: dict[str, float] = {}
    for trial in trials:
        arm = trial.planned.arm
        preemptions[arm] = preemptions.get(arm, 0) + (trial.metrics.get("preemptions") or 0)
    if len(set(preemptions.values())) > 1:
        values = ", ".join(f"{arm} {count:g}" for arm, count in preemptions.items())
        detail = (
            f"Preemptions differ: {values}. What is preempted is computed again, which is part of what is measured."
        )
        yield ResultWarning(code=WarningCode.UNEQUAL_WORK, detail=detail)


def _cache(spec: Experiment, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """Samples of one prompt share its prefix within a trial; more cached tokens than that were there before."""
    expected = 1 - 1 / spec.workload.samples_per_prompt
    synthetic = isinstance(spec.workload.prompts, SyntheticPrompts)
    for arm in dict.fromkeys(trial.planned.arm for trial in trials):
        works = [trial.work for trial in trials if trial.planned.arm == arm and trial.work is not None]
        if any(work.cached_tokens is None for work in works):
            detail = "The engine does not say how many prompt tokens were cached: a warm cache would go unnoticed."
            yield ResultWarning(code=WarningCode.CACHED_TOKENS_UNKNOWN, detail=detail, arm=arm)
        shares = [
            work.cached_tokens / work.prompt_tokens for work in works if work.cached_tokens and work.prompt_tokens
        ]
        if spec.plan.reset_prefix_cache and synthetic and max(shares, default=0.0) > expected:
            detail = (
                f"{max(shares):.0%} of the prompt tokens of a trial were cached, although the cache was reset and "
                f"prompts that repeat explain at most {expected:.0%}."
            )
            yield ResultWarning(code=WarningCode.CACHED_TOKENS, detail=detail, arm=arm)


def _missing(trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    samples = min((trial.work.samples for trial in trials if trial.work is not None), default=None)
    if samples is not None:
        lacking = {name: fewest_values(percent) for name, percent in PERCENTILES.items()}
        lacking = {name: least for name, least in lacking.items() if least > samples}
        if lacking:
            needs = ", ".join(f"{name} {least}" for name, least in lacking.items())
            yield ResultWarning(
                code=WarningCode.MISSING_PERCENTILES,
                detail=f"A trial has {samples} samples; percentiles need more: {needs}.",
            )
    for arm in dict.fromkeys(trial.planned.arm for trial in trials):
        reasons = [trial.missing.get("ttft_ms.mean") for trial in trials if trial.planned.arm == arm]
        told = [reason for reason in reasons if reason is not None]
        if told:
            detail = f"Times inside the engine are missing in {len(told)} of {len(reasons)} trials: {told[0]}."
            yield ResultWarning(code=WarningCode.MISSING_TIMES, detail=detail, arm=arm)
