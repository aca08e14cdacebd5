"""Why a difference between two arms may not come from what they were asked to do differently."""

import json
from collections.abc import Iterator, Sequence

from app.judge.blocks import Blocks, Pair, fairness_of
from app.judge.conditions import unequal_conditions
from app.judge.fairness import Fairness
from app.judge.parity import ParityReport, check_parity
from app.measure.records import StartedArm
from app.spec.resolution import ResolvedArm


def confounds_of(
    baseline: ResolvedArm, candidate: ResolvedArm, pair: Pair, blocks: Blocks, arms: Sequence[StartedArm]
) -> tuple[str, ...]:
    """Undeclared settings, unequal work, an unequal host: validity comes before statistics."""
    reasons = [
        *_parity(check_parity((baseline, candidate), arms)),
        *_work(fairness_of(blocks, (baseline.name, candidate.name))),
    ]
    unequal = unequal_conditions(list(pair.done.values()))
    if unequal is not None and not (baseline.simulated or candidate.simulated):
        reasons.append(unequal)
    return tuple(reasons)


def _parity(parity: ParityReport) -> Iterator[str]:
    for difference in parity.undeclared:
        values = " and ".join(f"{json.dumps(value)} in {arm}" for arm, value in difference.values.items())
        yield f"{difference.key} is {values}, and no setting says so"


def _work(fairness: Fairness) -> Iterator[str]:
    for difference in fairness.differences:
        totals = set(difference.values.values())
        if len(totals) == 1:
            blocks = ", ".join(map(str, difference.blocks))
            yield f"{difference.what} differ within blocks {blocks}, though every arm has {totals.pop()} in all"
        else:
            values = ", ".join(f"{arm} {value}" for arm, value in difference.values.items())
            yield f"{difference.what} differ: {values or 'sample by sample'}"
