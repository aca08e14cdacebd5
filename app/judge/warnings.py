"""What limits the meaning of the results: every warning there is, by what it is about."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from pydantic import Field

from app.format import percent
from app.judge.blocks import Blocks, has_succeeded, list_finished
from app.judge.clocks import HELD_BACK_PCT
from app.judge.conditions import OTHERS_PCT, find_idle_share, find_others_share
from app.judge.continuation import Continuation, EarlierBlocks
from app.judge.fairness import Fairness
from app.judge.luck import NoiseFloor, read_spread
from app.judge.neighbours import (
    describe_unattributed,
    describe_unseen,
    has_neighbours,
    list_gpus,
    measure_held_back_pct,
    name_neighbour,
)
from app.judge.taken import contrast, list_not_taken
from app.judge.verdict import BlockValues, Comparison, StartLuck, Verdict, lead_comparisons
from app.measure.metrics import PERCENTILES, TrialSummary
from app.measure.records import StartedArm, Unseen
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.lifecycle import Status
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedExperiment
from app.spec.workload import SyntheticPrompts
from app.stats.estimate import NoEstimate, to_percent
from app.stats.outlier import find_outlier
from app.stats.sample import count_fewest_values
from app.stats.starts import compare_starts

MOST_ERRORS = 200  # characters of an error in a warning
MOST_NAMED = 5  # differences a warning names before it says how many more there are
HARNESS_SHARE = 0.01  # of a trial: what the harness may cost before it is worth a warning


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


def warn_of_trials(
    spec: Experiment, resolved: ResolvedExperiment, plan: TrialPlan, status: Status, blocks: Blocks
) -> Iterator[ResultWarning]:
    """Everything a reader should know before believing the numbers."""
    trials = [trial for by_arm in blocks.values() for trial in by_arm.values()]
    counted = [trial for trial in trials if has_succeeded(trial)]
    yield from warn_of_plan(spec, resolved, status, len(list_finished(blocks, plan)))
    yield from warn_of_failures(trials, plan.arms)
    made_up = {arm.name for arm in resolved.arms if arm.simulated}
    yield from warn_of_conditions([trial for trial in counted if trial.planned.arm not in made_up])
    yield from warn_of_cache(spec, counted)
    yield from warn_of_missing_numbers(counted)


def warn_of_plan(spec: Experiment, resolved: ResolvedExperiment, status: Status, done: int) -> Iterator[ResultWarning]:
    """What the plan itself limits."""
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
            f"called different although none is can reach {100 * chance:.0f} %.",
        )


def warn_of_failures(trials: Sequence[TrialSummary], arms: Sequence[str]) -> Iterator[ResultWarning]:
    """Trials that failed, by arm."""
    for arm in arms:
        failed = [trial for trial in trials if trial.planned.arm == arm and not has_succeeded(trial)]
        if failed:
            blocks = ", ".join(str(trial.planned.block) for trial in failed)
            error = (failed[0].error or "unknown error")[:MOST_ERRORS]
            detail = f"Its trials of these blocks failed, so the blocks do not count: {blocks} ({error})."
            yield ResultWarning(code=WarningCode.DROPPED_BLOCKS, detail=detail, arm=arm)


def warn_of_conditions(trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """One warning per kind and arm, for measured trials that succeeded."""
    for arm in dict.fromkeys(trial.planned.arm for trial in trials):
        own = [trial for trial in trials if trial.planned.arm == arm]
        for code, worst, limit, text in (
            (
                WarningCode.HARNESS_SHARE,
                measure_harness_share,
                HARNESS_SHARE,
                "The harness itself took {} of the time of a trial",
            ),
            (
                WarningCode.EVENT_LOOP_LAG,
                measure_lag_share,
                HARNESS_SHARE,
                "The event loop that serves the requests was held up for {} of a trial",
            ),
            (
                WarningCode.DISTURBED_HOST,
                find_others_share,
                OTHERS_PCT / 100,
                "Other processes took {} of the CPUs during a trial",
            ),
            (
                WarningCode.IDLE_ARM,
                find_idle_share,
                OTHERS_PCT / 100,
                "Idle engines of other arms took {} of the CPUs during a trial, which `residency: restart` avoids",
            ),
        ):
            shares = [share for trial in own if (share := worst(trial)) is not None]
            above = sum(share > limit for share in shares)
            if above:
                most = text.format(percent(100 * max(shares)))
                detail = f"{most} ({above} of {len(own)} trials above {100 * limit:g} %)."
                yield ResultWarning(code=code, detail=detail, arm=arm)
        yield from warn_of_gpus(arm, own)


def warn_of_gpus(arm: str, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """GPUs that were held back, shared, or not seen."""
    held = [
        share for trial in trials if (share := max(measure_held_back_pct(trial).values(), default=0.0)) > HELD_BACK_PCT
    ]
    if held:
        yield ResultWarning(
            code=WarningCode.THROTTLED,
            detail=f"The GPU was held back by heat or its power limit for up to {max(held):.0f} % of the time "
            f"({len(held)} of {len(trials)} trials above {HELD_BACK_PCT:.0f} %).",
            arm=arm,
        )
    beside = [trial for trial in trials if has_neighbours(trial)]
    if beside:
        gpu = next(gpu for gpu in list_gpus(beside[0]) if gpu.neighbours)
        yield ResultWarning(
            code=WarningCode.NEIGHBOUR,
            detail=f"On GPU {gpu.gpu} was {name_neighbour(gpu.neighbours[0])}, in {len(beside)} of {len(trials)} "
            "trials.",
            arm=arm,
        )
    unseen = [describe_unattributed(trials), describe_unseen(Unseen.HELD_BACK, trials)]
    told = [clause for clause in unseen if clause is not None]
    if told:
        detail = "; ".join(told)
        yield ResultWarning(code=WarningCode.CONDITIONS_UNSEEN, detail=f"{detail[0].upper()}{detail[1:]}.", arm=arm)


def warn_of_cache(spec: Experiment, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
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
                f"{100 * max(shares):.0f} % of the prompt tokens of a trial were cached, although the cache was reset "
                f"and prompts that repeat explain at most {100 * expected:.0f} %."
            )
            yield ResultWarning(code=WarningCode.CACHED_TOKENS, detail=detail, arm=arm)


def warn_of_missing_numbers(trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
    """Percentiles of too few samples, and times that engines do not give."""
    samples = min((trial.work.samples for trial in trials if trial.work is not None), default=None)
    if samples is not None:
        lacking = {name: count_fewest_values(percent) for name, percent in PERCENTILES.items()}
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


def warn_of_settings(resolved: ResolvedExperiment, arms: Sequence[StartedArm]) -> Iterator[ResultWarning]:
    """What engines did not take, and where nothing tells whether they took that in which the arms differ."""
    started = {arm.arm: arm for arm in arms}
    baseline = next(arm for arm in resolved.arms if arm.name == resolved.baseline)
    for arm in resolved.arms:
        lacking = list_not_taken(arm, started[arm.name]) if arm.name in started else ()
        if lacking:
            detail = f"Its engine did not take what was asked for: {'; '.join(map(str, lacking))}."
            yield ResultWarning(code=WarningCode.NOT_TAKEN, detail=detail, arm=arm.name)
        unread = contrast(baseline, arm, arms).unread
        if unread and not (arm.simulated or baseline.simulated):
            detail = f"Whether it is in force could not be read back: {', '.join(unread)}."
            yield ResultWarning(code=WarningCode.NOT_READ_BACK, detail=detail, arm=arm.name)


def warn_of_work(fairness: Fairness | None, trials: Sequence[TrialSummary]) -> Iterator[ResultWarning]:
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


def warn_of_outliers(comparisons: Sequence[Comparison]) -> Iterator[ResultWarning]:
    """One for each candidate whose leading comparison has such a block.

    The block is not dropped: what nobody saw disturbed may be how the arm is, and whoever drops what does not fit finds
    what they like.
    """
    for comparison in lead_comparisons(comparisons):
        if comparison.interval_pct is None:
            continue
        changes = [block.log_ratio for block in comparison.blocks]
        found = find_outlier(changes)
        if found is not None:
            apart = comparison.blocks[found.index]
            yield ResultWarning(
                code=WarningCode.OUTLYING_BLOCK,
                detail=f"Block {apart.block} stands apart: {_write_change(changes[found.index])}, where the others "
                f"average {_write_change(found.others_mean)}. It counts; without it the change would be "
                f"{state_change_without(comparison, apart)}. Look for what the host did then, or repeat the "
                "experiment.",
                arm=comparison.candidate,
            )


def state_change_without(comparison: Comparison, apart: BlockValues) -> str:
    """What the change would be, had a block not counted."""
    rest = [block for block in comparison.blocks if block is not apart]
    modelled = comparison.analysis != "paired"
    apart_by_start = comparison.start_sd_pct is not None
    result = compare_starts(
        [block.baseline for block in rest],
        [block.candidate for block in rest],
        [block.order for block in rest] if modelled else None,
        [block.start if apart_by_start else 0 for block in rest],
        confidence=comparison.confidence,
        known=None if comparison.known_spread is None else read_spread(comparison.known_spread),
    )
    if isinstance(result, NoEstimate):
        return f"unknown ({result.reason})"
    change = result.log_ratio.transform(to_percent)
    low, high = (percent(end, signed=True) for end in (change.low, change.high))
    return f"{percent(change.value, signed=True)} ({low} to {high})"


def _write_change(log_ratio: float) -> str:
    return percent(to_percent(log_ratio), signed=True)


def warn_of_noise(comparisons: Sequence[Comparison], noise: NoiseFloor | None) -> Iterator[ResultWarning]:
    """A verdict on less than what two engines with equal settings differ by."""
    floor = None if noise is None or noise.starts is None else noise.floor_pct
    for comparison in lead_comparisons(comparisons):
        change = comparison.change_pct
        told = comparison.verdict in {Verdict.SLOWER, Verdict.FASTER}
        apart = comparison.start_luck is not StartLuck.SHARED_ENGINE
        if floor is not None and told and apart and change is not None and abs(change) <= floor:
            yield ResultWarning(
                code=WarningCode.WITHIN_NOISE_FLOOR,
                detail=f"{comparison.metric} differs by {percent(abs(change))}, but equal engines differ by up to "
                f"{percent(floor)} here (A/A experiments, 95 % of starts): another pair may show the contrary.",
                arm=comparison.candidate,
            )


def warn_of_continuation(continuation: Continuation | None) -> Iterator[ResultWarning]:
    """What a reader should know: not all of it ran on the same engines, or why all of it ran again."""
    if continuation is None:
        return
    for earlier in continuation.taken_over:
        yield ResultWarning(
            code=WarningCode.CONTINUED,
            detail=f"{_name_blocks(earlier)} had been finished under the same fingerprint and are part of these "
            "results; the engines were started anew after them.",
        )
    for earlier in continuation.run_again:
        more = len(earlier.differences) - MOST_NAMED
        named = "; ".join(earlier.differences[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        yield ResultWarning(
            code=WarningCode.NOT_CONTINUED,
            detail=f"{_name_blocks(earlier)} had been finished under another fingerprint and are no part of these "
            f"results: {named}.",
        )


def _name_blocks(earlier: EarlierBlocks) -> str:
    blocks = ", ".join(str(block) for block in earlier.blocks)
    return f"Blocks {blocks} of attempt {earlier.attempt} of {earlier.experiment_id}"


def measure_harness_share(trial: TrialSummary) -> float | None:
    """CPU time of the harness, as a share of the trial; None where it is not known."""
    return None if trial.harness is None else _share_of(trial, trial.harness.cpu_s)


def measure_lag_share(trial: TrialSummary) -> float | None:
    """How long the event loop was held up, as a share of the trial; None where it is not known."""
    lag_ms = None if trial.harness is None else trial.harness.event_loop_lag_ms
    return None if lag_ms is None else _share_of(trial, lag_ms / 1000)


def _share_of(trial: TrialSummary, seconds: float) -> float | None:
    duration_s = trial.metrics.get("duration_s")
    return None if duration_s is None else seconds / duration_s
