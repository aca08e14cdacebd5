"""What a comparison of two arms says, in the form that travels."""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field

from app.spec.frozen import SpecModel


class Verdict(StrEnum):
    """What a comparison says of the candidate."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    CONFOUNDED = "confounded"


WORST_FIRST = (Verdict.SLOWER, Verdict.CONFOUNDED, Verdict.INCONCLUSIVE, Verdict.FASTER, Verdict.SAME)


def sort_worst_first(verdicts: Iterable[str]) -> tuple[Verdict, ...]:
    """Each of the verdicts of several primary comparisons once. Of all of them together the first is the verdict."""
    told = set(verdicts)
    return tuple(verdict for verdict in WORST_FIRST if verdict in told)


class StartLuck(StrEnum):
    """What a comparison can say of the luck of the engines' start: two equal engines differ by theirs."""

    SEVERAL_STARTS = "several_starts"
    KNOWN_SPREAD = "known_spread"
    SHARED_ENGINE = "shared_engine"
    UNKNOWN = "unknown"


class KnownSpread(SpecModel):
    """How far the start of two equal engines takes them apart in one metric, from A/A experiments."""

    sd_pct: float = Field(
        ge=0,
        description="Standard deviation of what one start gives, as a log ratio in hundredths, percent; the noise of "
        "its blocks is part of it.",
        examples=[0.4],
    )
    blocks: float = Field(gt=0, description="Blocks that a start's value averages.", examples=[3])
    starts: int = Field(ge=2, description="Starts it rests on: its degrees of freedom.", examples=[8])
    between_pct: float = Field(
        ge=0,
        description="Standard deviation of the start's own part, without the blocks' noise, percent.",
        examples=[0.3],
    )
    between_interval_pct: tuple[float, float] = Field(
        description="Its 95 % chi-square interval, percent.", examples=[[0.1, 0.7]]
    )


class Method(SpecModel):
    """How estimates and verdicts are made."""

    name: Literal["paired-log-t"] = Field(
        "paired-log-t", description="docs/method.md describes it.", examples=["paired-log-t"]
    )
    version: Literal[1, 2] = Field(
        2,
        description="Raised whenever the same records would give another answer. 2: latencies count from `arrived` "
        "instead of `sent`, `client_queue_ms` is compared, and the luck of a start counts.",
    )


PER_GPU = "output_throughput_per_gpu"


class BlockValues(SpecModel):
    """One block's two values: all the comparison is made of."""

    block: int = Field(description="Block, from 0.", examples=[0])
    baseline: float = Field(description="Value of the baseline's trial, in the metric's unit.", examples=[5761.0])
    candidate: float = Field(description="Value of the candidate's trial.", examples=[5749.0])
    baseline_slot: int = Field(description="Slot of the baseline's trial in the order of all trials.", examples=[0])
    candidate_slot: int = Field(description="Slot of the candidate's trial.", examples=[1])
    baseline_first: bool = Field(description="Whether the baseline ran before the candidate.")
    start: int = Field(0, description="Which start of the engines both ran on, from 0.", examples=[0])

    @property
    def log_ratio(self) -> float:
        """ln(candidate / baseline); both must be above 0."""
        return math.log(self.candidate) - math.log(self.baseline)

    @property
    def order(self) -> int:
        """+1 where the baseline ran first, -1 where the candidate did."""
        return 1 if self.baseline_first else -1


class DroppedBlock(SpecModel):
    """A block that does not count, and why."""

    block: int = Field(description="Block, from 0.", examples=[3])
    reason: str = Field(description="Why.", examples=["async failed: the engine died"])


class Comparison(SpecModel):
    """A candidate arm against the baseline arm in one metric, with everything needed to compute it again."""

    metric: str = Field(description="Key of the metric.", examples=["output_throughput"])
    unit: str = Field(description="Unit of the metric's values.", examples=["tokens/s"])
    higher_is_better: bool = Field(description="Which way the metric should go.")
    primary: bool = Field(
        description="Primary metrics decide. All others are secondary: their p-values are adjusted for how many "
        "there are in the experiment (Holm)."
    )
    baseline: str = Field(description="Arm compared with.", examples=["sync"])
    candidate: str = Field(description="Arm compared.", examples=["async"])
    ratio: float | None = Field(description="Candidate over baseline, geometric mean.", examples=[0.998])
    change_pct: float | None = Field(description="The ratio as a change, percent.", examples=[-0.2])
    interval_pct: tuple[float, float] | None = Field(
        description="Interval of `change_pct` with `confidence`, percent.", examples=[[-0.8, 0.4]]
    )
    confidence: float = Field(description="Share of such intervals that hold the true change.", examples=[0.95])
    margin_pct: float = Field(
        description="Ratios from 1 / (1 + margin) to 1 + margin count as the same, percent.", examples=[2.0]
    )
    p_t: float | None = Field(description="Two-sided p-value of no change, by the t distribution.", examples=[0.41])
    p_holm: float | None = Field(description="`p_t` of a secondary metric, adjusted (Holm).", examples=[0.82])
    p_sign_flip: float | None = Field(
        description="Two-sided p-value by the exact sign-flip test; null below 6 pairs.", examples=[0.44]
    )
    pairs: int = Field(description="Blocks that count.", examples=[6])
    blocks: tuple[BlockValues, ...] = Field(description="Their values.")
    dropped_blocks: tuple[DroppedBlock, ...] = Field(description="Blocks that do not count.")
    analysis: Literal["paired", "crossover", "narrower"] | None = Field(
        description="Which interval: of the paired t, of the crossover of the two orders, or the narrower of both at "
        "a level that pays for the choice.",
        examples=["narrower"],
    )
    sd_pct: float | None = Field(
        description="Standard deviation of one block's log ratio, in hundredths: the noise, percent.", examples=[0.5]
    )
    starts: int = Field(1, description="Starts of the engines that the blocks ran on.", examples=[1])
    start_luck: StartLuck | None = Field(
        None,
        description="What is known of the luck of a start. `several_starts`: the blocks ran on several, which are the "
        "evidence. `known_spread`: A/A experiments tell. `shared_engine`: both arms ran on one engine. `unknown`: the "
        "interval speaks of these two processes. Null where no engine ran, and in results of an earlier version.",
    )
    start_sd_pct: float | None = Field(
        None,
        description="Standard deviation of what one start gave, as a log ratio in hundredths, percent; null where "
        "blocks ran on one start, or each on its own.",
        examples=[0.4],
    )
    known_spread: KnownSpread | None = Field(
        None, description="The spread of starts that made the interval wider than its blocks did; null if none did."
    )
    position_effect_pct: float | None = Field(
        description="What running second in a block adds to a value, percent; null where it cannot be told.",
        examples=[0.6],
    )
    detectable_effect_pct: float | None = Field(
        description="Smallest change so many blocks find with 80 % probability, percent.", examples=[0.9]
    )
    blocks_needed: int | None = Field(
        description="For an inconclusive verdict of a primary metric: how many blocks would decide, in any way, with "
        "80 % probability, given what these leave open of change and noise; null beyond 1000.",
        examples=[24],
    )
    verdict: Verdict = Field(description="What it says of the candidate.", examples=["same"])
    within_margin: bool = Field(
        description="Whether the whole interval lies within the margin; with `faster` or `slower` it means: proven, "
        "but too small to matter."
    )
    reasons: tuple[str, ...] = Field(description="Why the verdict is inconclusive or confounded.")
    provisos: tuple[str, ...] = Field(
        (),
        description="What the verdict leaves open: conditions that nobody could see, or that differed and follow "
        "from what the arms do; the luck of the engines' start.",
    )


def lead_comparisons(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparison that a candidate's verdict is read from: on output throughput, per GPU where arms have unequal
    numbers of them.
    """
    main = {one.candidate: one for one in comparisons if one.metric == "output_throughput"}
    return tuple((main | {one.candidate: one for one in comparisons if one.metric == PER_GPU}).values())
