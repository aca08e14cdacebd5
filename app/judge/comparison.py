"""How a candidate arm compares with the baseline arm."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.judge.blocks import Blocks, Pair, group_blocks, list_finished
from app.judge.confounds import find_confounds, find_provisos
from app.judge.luck import Luck, NoiseFloor, find_luck
from app.judge.verdict import PER_GPU, BlockValues, Comparison, DroppedBlock, Method, Verdict
from app.measure.metrics import METRICS, Better, Metric, TrialSummary
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.plan import TrialPlan
from app.spec.resolution import ResolvedExperiment
from app.spec.workload import NaturalOutput
from app.stats.estimate import Estimate, NoEstimate, drop_infinite, to_percent, to_ratio
from app.stats.holm import adjust_by_holm
from app.stats.looks import find_level_per_look
from app.stats.paired import PairedResult
from app.stats.power import blocks_needed, detectable_by, detectable_effect
from app.stats.sign_flip import sign_flip_p
from app.stats.starts import compare_starts

__all__ = ["BlockValues", "Comparison", "DroppedBlock", "Method", "Verdict", "compare", "should_stop_early"]

_THROUGHPUTS = ("output_throughput", PER_GPU)


@dataclass(frozen=True, slots=True)
class Draft:
    """A comparison but for its verdict, which for secondary metrics depends on all the others."""

    metric: Metric
    key: str
    pair: Pair
    values: tuple[BlockValues, ...]
    dropped: tuple[DroppedBlock, ...]
    result: PairedResult | NoEstimate
    confounds: tuple[str, ...]
    provisos: tuple[str, ...]
    luck: Luck

    @property
    def p_t(self) -> float | None:
        return self.result.p_t if isinstance(self.result, PairedResult) else None

    @property
    def widened(self) -> bool:
        """Whether one start's blocks alone would have given a narrower interval than the luck of a start allows."""
        result = self.result
        return (
            isinstance(result, PairedResult)
            and result.starts == 1
            and result.by_start is not None
            and result.log_ratio != result.by_start.of_blocks
        )


def compare(
    spec: Experiment,
    resolved: ResolvedExperiment,
    trials: Sequence[TrialSummary],
    arms: Sequence[StartedArm],
    *,
    withheld: str | None = None,
    noise: NoiseFloor | None = None,
) -> tuple[Comparison, ...]:
    """Every candidate against the baseline in every metric both have; primary metrics first.

    `withheld`: why there may be no verdict yet, whatever the blocks say. `noise`: what A/A experiments with these arms
    found.
    """
    drafts = _draft_all(spec, resolved, group_blocks(trials), arms, noise)
    adjusted = adjust_by_holm([None if draft.metric.primary else draft.p_t for draft in drafts])
    arms_of_a_block = len(resolved.arms)
    return tuple(
        finish(draft, p_holm, spec, withheld, arms_of_a_block) for draft, p_holm in zip(drafts, adjusted, strict=True)
    )


def should_stop_early(
    spec: Experiment,
    resolved: ResolvedExperiment,
    plan: TrialPlan,
    trials: Sequence[TrialSummary],
    noise: NoiseFloor | None = None,
    *,
    read: Collection[int] = (),
) -> bool:
    """Whether the worker may end the experiment after the blocks that are done.

    Only at a look the plan fixes, and when the numbers decide `output_throughput` for every candidate. `read`: the
    looks that an earlier attempt has read; a second reading would be a look that nobody corrected. An A/A experiment
    runs to its end: one that ends where its noise is small would leave a noise that is too small.
    """
    if spec.calibrate:
        return False
    blocks = group_blocks(trials)
    done = {block: blocks[block] for block in list_finished(blocks, plan)}
    if len(done) not in spec.plan.looks or len(done) in read or len(done) >= spec.plan.blocks:
        return False
    drafts = [draft for draft in _draft_all(spec, resolved, done, (), noise) if draft.key in _THROUGHPUTS]
    verdicts = [_judge(draft, None, spec) for draft in drafts]
    return bool(verdicts) and Verdict.INCONCLUSIVE not in verdicts


def find_decision_level(spec: Experiment) -> float:
    """The level of every test: `decision.alpha`, or less where the plan allows to look before the end."""
    alpha, looks = spec.decision.alpha, spec.plan.looks
    if not looks:
        return alpha
    every = looks if looks[-1] >= spec.plan.blocks else (*looks, spec.plan.blocks)
    # The level is rounded down to 4 decimals, to 0 for a tiny alpha; Bonferroni's never is.
    return max(find_level_per_look(every, alpha), alpha / len(every))


# --- numbers -------------------------------------------------------------------------------------------------------


def _draft_all(
    spec: Experiment,
    resolved: ResolvedExperiment,
    blocks: Blocks,
    arms: Sequence[StartedArm],
    noise: NoiseFloor | None,
) -> list[Draft]:
    natural = isinstance(spec.workload.output, NaturalOutput)
    baseline = next(arm for arm in resolved.arms if arm.name == resolved.baseline)
    confidence = 1 - find_decision_level(spec)
    drafts: list[Draft] = []
    for candidate in resolved.arms:
        if candidate.name == baseline.name:
            continue
        pair = Pair.build(blocks, baseline.name, candidate.name)
        confounds = find_confounds(baseline, candidate, pair, blocks, arms, natural=natural)
        provisos = find_provisos(baseline, candidate, pair, blocks, arms, natural=natural)
        luck = find_luck(spec, resolved, (baseline, candidate), noise)
        drafts += [
            make_draft(
                metric, key, pair, confounds, provisos, luck=luck, confidence=confidence, arms=len(resolved.arms)
            )
            for metric in list_metrics(pair)
            for key in metric.compared_keys
            if metric.primary or pair.has(key)
        ]
    # The sort is stable: within a rank, candidates and metrics keep their order.
    return sorted(drafts, key=lambda draft: _RANK.get(draft.key, len(_RANK)))


def list_metrics(pair: Pair) -> Iterator[Metric]:
    """All of them; where one arm has more GPUs, output per GPU is primary too, since more of them are no merit."""
    unequal = any(_count_gpus(ours) != _count_gpus(theirs) for ours, theirs in pair.done.values())
    for metric in METRICS.values():
        yield replace(metric, primary=True, compared=True) if unequal and metric.key == PER_GPU else metric


def _count_gpus(trial: TrialSummary) -> int:
    """Of the arm; 0 where it has none."""
    throughput, per_gpu = trial.metrics.get("output_throughput"), trial.metrics.get(PER_GPU)
    return round(throughput / per_gpu) if throughput and per_gpu else 0


_RANK = {PER_GPU: 0, "output_throughput": 1, "duration_s": 2}


def make_draft(
    metric: Metric,
    key: str,
    pair: Pair,
    confounds: tuple[str, ...],
    provisos: tuple[str, ...],
    *,
    luck: Luck,
    confidence: float,
    arms: int,
) -> Draft:
    """One candidate in one metric, by the blocks that have both values."""
    values: list[BlockValues] = []
    dropped = dict(pair.dropped)
    for block, (ours, theirs) in pair.done.items():
        before, after = ours.metrics.get(key), theirs.metrics.get(key)
        if before is None or after is None:
            lacking = ours if before is None else theirs
            dropped[block] = f"{lacking.planned.arm} has no {key}: {lacking.missing.get(key, 'not measured')}"
            continue
        values.append(
            BlockValues(
                block=block,
                baseline=before,
                candidate=after,
                baseline_slot=ours.planned.slot,
                candidate_slot=theirs.planned.slot,
                baseline_first=ours.planned.position < theirs.planned.position,
                start=ours.planned.start,
            )
        )
    result = estimate(values, pair, luck, key, confidence=confidence, arms=arms)
    if isinstance(result, PairedResult) and result.order_confounded:
        first = pair.baseline if values[0].baseline_first else pair.candidate
        confounds = (*confounds, f"{first} ran first in every block that counts, so its place cannot be told from it")
    return Draft(
        metric=metric,
        key=key,
        pair=pair,
        values=tuple(values),
        dropped=tuple(DroppedBlock(block=block, reason=reason) for block, reason in sorted(dropped.items())),
        result=result,
        confounds=confounds,
        provisos=(*provisos, *luck.list_provisos(key, result)),
        luck=luck,
    )


def estimate(
    values: Sequence[BlockValues], pair: Pair, luck: Luck, key: str, *, confidence: float, arms: int
) -> PairedResult | NoEstimate:
    """The log ratio over the blocks; a value of 0 or less is named with its arm."""
    for one in values:
        for arm, value in ((pair.baseline, one.baseline), (pair.candidate, one.candidate)):
            if value <= 0:
                return NoEstimate(f"{arm} has {value:g} in block {one.block}, and a ratio needs values above 0")
    return compare_starts(
        [one.baseline for one in values],
        [one.candidate for one in values],
        [one.order for one in values],
        [0 if luck.shared else one.start for one in values],
        confidence=confidence,
        known=luck.find_spread(key),
        arms=arms,
    )


# --- verdict -------------------------------------------------------------------------------------------------------


def _judge(draft: Draft, p_holm: float | None, spec: Experiment) -> Verdict:
    """What the numbers say, whatever confounds them.

    The margin is the same factor both ways, so that neither swapping the arms nor looking at the time instead of the
    throughput changes the verdict.
    """
    if isinstance(draft.result, NoEstimate):
        return Verdict.INCONCLUSIVE
    estimate = draft.result.log_ratio
    if estimate.excludes(0) and (p_holm is None or p_holm < find_decision_level(spec)):
        return Verdict.FASTER if (estimate.value > 0) == (draft.metric.better is Better.HIGHER) else Verdict.SLOWER
    return Verdict.SAME if _is_within(estimate, spec.decision.margin_pct) else Verdict.INCONCLUSIVE


def _is_within(estimate: Estimate, margin_pct: float) -> bool:
    margin = math.log1p(margin_pct / 100)
    return -margin <= estimate.low and estimate.high <= margin


def finish(draft: Draft, p_holm: float | None, spec: Experiment, withheld: str | None, arms: int) -> Comparison:
    """The comparison with its verdict: validity first, then the plan, then the numbers."""
    level = find_decision_level(spec)
    verdict, reasons = _judge(draft, p_holm, spec), tuple[str, ...]()
    if draft.confounds:
        verdict, reasons = Verdict.CONFOUNDED, draft.confounds
    elif withheld is not None:
        verdict, reasons = Verdict.INCONCLUSIVE, (withheld,)
    elif verdict is Verdict.INCONCLUSIVE:
        reasons = (explain_inconclusive(draft, p_holm, spec),)
    log_ratios = [] if isinstance(draft.result, NoEstimate) else [one.log_ratio for one in draft.values]
    return Comparison(
        metric=draft.key,
        unit=draft.metric.unit,
        higher_is_better=draft.metric.better is Better.HIGHER,
        primary=draft.metric.primary,
        baseline=draft.pair.baseline,
        candidate=draft.pair.candidate,
        confidence=1 - level,
        margin_pct=spec.decision.margin_pct,
        p_t=draft.p_t,
        p_holm=p_holm,
        p_sign_flip=sign_flip_p(log_ratios),
        pairs=len(draft.values),
        blocks=draft.values,
        dropped_blocks=draft.dropped,
        blocks_needed=count_blocks_needed(draft, spec, arms)
        if verdict is Verdict.INCONCLUSIVE and not withheld
        else None,
        verdict=verdict,
        reasons=reasons,
        provisos=draft.provisos,
        **list_numbers(draft, level, spec.decision.margin_pct),
    )


def list_numbers(draft: Draft, level: float, margin_pct: float) -> dict[str, Any]:
    """The fields that need an estimate; None where there is none, or where it is beyond the range of a float."""
    result = draft.result
    if isinstance(result, NoEstimate):
        # One block has a ratio, though nothing to say of how sure it is.
        alone = len(draft.values) == 1 and min(draft.values[0].baseline, draft.values[0].candidate) > 0
        log_ratio = draft.values[0].log_ratio if alone else None
        return {
            "ratio": None if log_ratio is None else drop_infinite(to_ratio(log_ratio)),
            "change_pct": None if log_ratio is None else drop_infinite(to_percent(log_ratio)),
            "interval_pct": None,
            "analysis": None,
            "sd_pct": None,
            "position_effect_pct": None,
            "detectable_effect_pct": None,
            "within_margin": False,
        }
    change = result.log_ratio.transform(to_percent)
    by_start = result.by_start
    return {
        "starts": result.starts,
        "start_luck": draft.luck.describe(draft.key, result.starts),
        "start_sd_pct": None if by_start is None or result.starts == 1 else 100 * by_start.sd,
        "known_spread": draft.luck.known[draft.key] if draft.widened else None,
        "ratio": drop_infinite(to_ratio(result.log_ratio.value)),
        "change_pct": drop_infinite(change.value),
        "interval_pct": (change.low, change.high) if math.isfinite(change.high) else None,
        "analysis": result.analysis,
        "sd_pct": 100 * result.sd,
        "position_effect_pct": None if result.position is None else drop_infinite(to_percent(result.position.value)),
        "detectable_effect_pct": find_detectable_pct(result, level),
        "within_margin": _is_within(result.log_ratio, margin_pct),
    }


def find_detectable_pct(result: PairedResult, level: float) -> float | None:
    """The smallest change so many blocks find with 80 % probability, percent."""
    if result.analysis == "narrower":
        effect = detectable_effect(result.sd, result.blocks, result.analysis, alpha=level)
    else:  # of the orders that counted: a block that was dropped leaves one of them in the minority
        effect = detectable_by(result.error_of_blocks, result.sd_df, alpha=level)
    if result.by_start is not None:
        effect = max(effect, detectable_by(result.by_start.standard_error, result.by_start.df, alpha=level))
    return drop_infinite(to_percent(effect))


def count_blocks_needed(draft: Draft, spec: Experiment, arms: int) -> int | None:
    """For a primary metric only: whether another is decided hangs on all the others beside it (Holm).

    Where starts are the evidence, as many blocks to a start as there were; on one start of a known spread no number of
    blocks decides.
    """
    result = draft.result
    if isinstance(result, NoEstimate) or not draft.metric.primary or draft.widened:
        return None
    margin, level = math.log1p(spec.decision.margin_pct / 100), find_decision_level(spec)
    if result.starts == 1 or result.by_start is None:
        return blocks_needed(result, margin, arms=arms, alpha=level)
    alone = result.treat_starts_as_blocks(result.by_start)
    starts = blocks_needed(alone, margin, arms=3, alpha=level)  # in no order, as three arms
    return None if starts is None else math.ceil(starts * result.blocks / result.starts)


def explain_inconclusive(draft: Draft, p_holm: float | None, spec: Experiment) -> str:
    """Why the numbers decide nothing."""
    if isinstance(draft.result, NoEstimate):
        if draft.values or not draft.dropped:
            return draft.result.reason
        most = Counter(block.reason for block in draft.dropped).most_common(1)[0][0]
        count = len(draft.dropped)
        return f"{f'all {count} blocks' if count > 1 else 'the only block'} had to be dropped ({most})"
    if draft.result.log_ratio.excludes(0):
        return (
            f"the interval excludes 0, but this is one of several secondary metrics: adjusted for their number "
            f"p = {p_holm:.2g} is not below {find_decision_level(spec):.2g}"
        )
    why = ", since equal engines differ by their start here too (A/A experiments)" if draft.widened else ""
    return f"the interval includes 0 and reaches beyond the margin of {spec.decision.margin_pct:g} %{why}"
