"""Why a difference between two arms may not come from what they were asked to do differently."""

import json
from collections.abc import Iterator, Sequence

from app.judge.blocks import Blocks, Pair, has_succeeded
from app.judge.clocks import find_unequal_clocks
from app.judge.conditions import find_unequal_conditions, find_unequal_treatment
from app.judge.effects import compare_work_of_arms, describe_difference, list_effects
from app.judge.neighbours import describe_unattributed, find_unequal_neighbours
from app.judge.parity import check_parity
from app.judge.taken import contrast
from app.measure.records import StartedArm
from app.spec.resolution import ResolvedArm


def find_confounds(
    baseline: ResolvedArm,
    candidate: ResolvedArm,
    pair: Pair,
    blocks: Blocks,
    arms: Sequence[StartedArm],
    *,
    natural: bool = False,
) -> tuple[str, ...]:
    """Undeclared settings, unequal work, an unequal host: validity comes before statistics."""
    same = contrast(baseline, candidate, arms).same_twice
    reasons = [] if same is None else [same]
    for difference in check_parity((baseline, candidate), arms).undeclared:
        values = " and ".join(f"{json.dumps(value)} in {arm}" for arm, value in difference.values.items())
        reasons.append(f"{difference.key} is {values}, and no setting says so")
    reasons += find_engine_changes(pair)
    work = compare_work_of_arms(blocks, (baseline, candidate), arms, natural=natural)
    reasons += [describe_difference(one) for one in work.differences if one.setting is None]
    if not (baseline.simulated or candidate.simulated):
        reasons += find_host_confounds(pair, blocks, same_environment=baseline.environment == candidate.environment)
    return tuple(reasons)


def find_provisos(
    baseline: ResolvedArm,
    candidate: ResolvedArm,
    pair: Pair,
    blocks: Blocks,
    arms: Sequence[StartedArm],
    *,
    natural: bool = False,
) -> tuple[str, ...]:
    """What a verdict must not keep to itself: work and conditions that differed as the arms explain, and what nobody
    saw.
    """
    trials = [trial for both in pair.done.values() for trial in both]
    unseen = describe_unattributed(trials)
    return (
        *list_effects(compare_work_of_arms(blocks, (baseline, candidate), arms, natural=natural)),
        *(f"{one.said}: {one.explained}" for one in find_unequal_clocks(list(pair.done.values())) if one.explained),
        *([] if unseen is None else [unseen]),
    )


def find_host_confounds(pair: Pair, blocks: Blocks, *, same_environment: bool) -> Iterator[str]:
    """A neighbour that takes its blocks with it still tells the arms apart: dropped blocks are looked at too."""
    ran = [
        (by_arm[pair.baseline], by_arm[pair.candidate])
        for by_arm in blocks.values()
        if {pair.baseline, pair.candidate} <= {arm for arm, trial in by_arm.items() if has_succeeded(trial)}
    ]
    yield from find_unequal_conditions(ran)
    if same_environment:  # another interpreter or variable may be there to set just this
        yield from find_unequal_treatment(ran)
    yield from find_unequal_neighbours(ran)
    yield from (one.said for one in find_unequal_clocks(list(pair.done.values())) if one.explained is None)


def find_engine_changes(pair: Pair) -> Iterator[str]:
    """An engine that was restarted or replaced is another one, unless it resolved to the same."""
    found: dict[tuple[str, str], list[int]] = {}
    for block, trials in pair.done.items():
        for trial in trials:
            for change in () if trial.conditions is None else trial.conditions.engine_changes:
                found.setdefault((trial.planned.arm, change), []).append(block)
    for (arm, change), where in found.items():
        blocks = ", ".join(map(str, where))
        yield f"started anew, the engine of {arm} was another in its trials of blocks {blocks}: {change}"
