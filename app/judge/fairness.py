"""Did the arms do the same work?"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from pydantic import Field

from app.measure.work import Work, sum_if_known
from app.spec.frozen import SpecModel
from app.stats.paired import PairedResult, compare_paired

Aspect = Literal["samples", "prompt_tokens", "output_tokens", "cached_tokens", "finish_reasons", "shape"]

# Half of the default margin: a prompt token costs no more than an output token, so that so much more of either is no
# more than so much more time.
TOLERANCE = 0.01
CHANCE = 0.01  # of calling lengths unequal that were drawn alike
_BY_TIME: tuple[Aspect, ...] = ("cached_tokens",)  # what a busy host can change: evictions and shared steps


class WorkDifference(SpecModel):
    """A way in which the arms' work differed."""

    what: Aspect = Field(
        description="What differed; `shape`: equal in total, but not sample by sample.", examples=["output_tokens"]
    )
    values: dict[str, str] = Field(
        description="Total over the compared blocks, by arm.", examples=[{"sync": "16384", "async": "16400"}]
    )
    blocks: tuple[int, ...] = Field(description="Blocks in which they differ.", examples=[[0, 3]])
    setting: str | None = Field(
        None,
        description="Setting of the arms that it follows from, and so is an effect of; null where none explains it.",
        examples=["engine.enable_prefix_caching"],
    )


class Fairness(SpecModel):
    """Whether the arms did the same work, over the blocks that all arms finished."""

    equal: bool = Field(description="False where `differences` lists any.")
    blocks: int = Field(description="Blocks looked at.", examples=[6])
    prompt_tokens: dict[str, int] = Field(description="Prompt tokens by arm.", examples=[{"sync": 4096, "async": 4096}])
    output_tokens: dict[str, int] = Field(
        description="Output tokens by arm.", examples=[{"sync": 16384, "async": 16384}]
    )
    cached_tokens: dict[str, int | None] = Field(
        description="Prompt tokens from the prefix cache by arm; null where the engine does not say.",
        examples=[{"sync": 0, "async": 0}],
    )
    finish_reasons: dict[str, dict[str, int]] = Field(
        description="Samples by arm and finish reason.", examples=[{"sync": {"length": 192}, "async": {"length": 192}}]
    )
    identical_outputs_pct: float | None = Field(
        description="Samples whose token ids are the same in every arm, percent; for information, because equal "
        "work needs equal counts only. Null without a block or with one arm.",
        examples=[100.0],
    )
    differences: tuple[WorkDifference, ...] = Field(description="What was not equal; empty if all was.")
    tolerated: tuple[WorkDifference, ...] = Field(
        (),
        description="What was not equal either, but is too little to matter, or drawn by chance: cached tokens within "
        "1 % of the prompt tokens; with natural stops also output tokens, finish reasons and shape.",
    )


def check_fairness(
    blocks: Mapping[int, Mapping[str, Work]],
    arms: Sequence[str],
    *,
    natural: bool = False,
    disturbed: Collection[int] = (),
) -> Fairness:
    """Compare the arms' work block by block, over the blocks that all of `arms` finished.

    `disturbed`: blocks in which the host may have changed what depends on time, the cached tokens; they are not
    compared there.

    Equal means equal, but for what cannot be: evictions change a few cached tokens, and where the model ends the
    samples (`natural`), their lengths are drawn. Then output tokens are unequal only if the blocks prove it at a level
    of 1 %, and by more than 1 %.
    """
    done = {number: [works[arm] for arm in arms] for number, works in sorted(blocks.items()) if set(arms) <= set(works)}
    by_arm = {arm: [works[index] for works in done.values()] for index, arm in enumerate(arms)}
    cached = {arm: sum_if_known([work.cached_tokens for work in works]) for arm, works in by_arm.items()}
    prompt = {arm: sum(work.prompt_tokens for work in works) for arm, works in by_arm.items()}
    output = {arm: sum(work.output_tokens for work in works) for arm, works in by_arm.items()}
    reasons = {arm: _sum_counts([work.finish_reasons for work in works]) for arm, works in by_arm.items()}
    samples = {arm: sum(work.samples for work in works) for arm, works in by_arm.items()}
    looked_at: tuple[tuple[Aspect, Callable[[Work], object], Mapping[str, object]], ...] = (
        ("samples", lambda work: work.samples, samples),
        ("prompt_tokens", lambda work: work.prompt_tokens, prompt),
        ("output_tokens", lambda work: work.output_tokens, output),
        ("cached_tokens", lambda work: work.cached_tokens, cached),
        ("finish_reasons", lambda work: work.finish_reasons, reasons),
        ("shape", lambda work: work.shape_sha256, {}),
    )
    found = drop_echo(
        [
            WorkDifference(what=what, values={arm: write_total(totals.get(arm)) for arm in totals}, blocks=where)
            for what, value, totals in looked_at
            if (
                where := tuple(
                    number
                    for number, works in done.items()
                    if _are_unequal([value(work) for work in works]) and not (what in _BY_TIME and number in disturbed)
                )
            )
        ]
    )
    tolerated = tuple(one for one in found if is_tolerated(one, done, natural))
    differences = tuple(one for one in found if one not in tolerated)
    return Fairness(
        equal=not differences,
        blocks=len(done),
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        finish_reasons=reasons,
        identical_outputs_pct=measure_identical_pct(list(done.values())),
        differences=differences,
        tolerated=tolerated,
    )


def is_tolerated(difference: WorkDifference, done: Mapping[int, Sequence[Work]], natural: bool) -> bool:
    """Whether what differs may; `done` holds the arms' work, block by block."""
    if difference.what == "cached_tokens":  # block by block: a cache that stays warm favours whichever arm runs second
        for block in difference.blocks:
            cached = [work.cached_tokens for work in done[block] if work.cached_tokens is not None]
            if max(cached) - min(cached) > TOLERANCE * min(work.prompt_tokens for work in done[block]):
                return False
        return True
    if not natural or difference.what in {"samples", "prompt_tokens"}:
        return False
    arms = list(zip(*done.values(), strict=True))
    if difference.what == "finish_reasons":  # whether a sample ends itself or at its limit is drawn; another end is not
        ends = [_sum_counts([work.finish_reasons for work in works]) for works in arms]
        return not _are_unequal([{end: n for end, n in one.items() if end not in {"stop", "length"}} for one in ends])
    return not any(is_proven(ours, theirs) for ours, theirs in combinations(arms, 2))


def is_proven(ours: Sequence[Work], theirs: Sequence[Work]) -> bool:
    """Whether one side generates more tokens than the other, by more than the tolerance and beyond chance."""
    tokens = [(max(one.output_tokens, 1), max(other.output_tokens, 1)) for one, other in zip(ours, theirs, strict=True)]
    result = compare_paired(*zip(*tokens, strict=True), confidence=1 - CHANCE)
    if not isinstance(result, PairedResult):
        return False
    return result.log_ratio.excludes(0) and abs(result.log_ratio.value) > math.log1p(TOLERANCE)


def _are_unequal(values: Sequence[object]) -> bool:
    """What an engine does not report cannot be found unequal."""
    return None not in values and any(value != values[0] for value in values)


def drop_echo(differences: Sequence[WorkDifference]) -> tuple[WorkDifference, ...]:
    """Counts that differ change the shape too: it is news only where no count has told already."""
    counts = {"samples", "prompt_tokens", "output_tokens", "finish_reasons"}
    told = {block for difference in differences if difference.what in counts for block in difference.blocks}
    return tuple(
        difference for difference in differences if difference.what != "shape" or not set(difference.blocks) <= told
    )


def measure_identical_pct(blocks: Sequence[Sequence[Work]]) -> float | None:
    """Samples whose token ids are the same in every arm, percent; None without a block or with one arm."""
    samples = same = 0
    for works in blocks:
        hashes = [np.frombuffer(work.output_hashes, dtype=np.uint64) for work in works]
        samples += max(map(len, hashes))
        if len({len(one) for one in hashes}) == 1:
            same += int(np.logical_and.reduce([one == hashes[0] for one in hashes]).sum())
    return 100.0 * same / samples if samples and len(blocks[0]) > 1 else None


def _sum_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def write_total(value: object) -> str:
    """A total over the blocks, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{count} {reason}" for reason, count in value.items())
    return "unknown" if value is None else str(value)
