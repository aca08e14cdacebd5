"""By what factor do two series, measured side by side in blocks, differ?

Model: d_i = ln(candidate_i) - ln(baseline_i) = mu + s_i * pi + e_i for block i, with s_i = +1 where the baseline ran
first and -1 where the candidate did. mu is the log ratio; pi, the position effect, is what running second costs; e is
independent noise. Whatever a block's two values share cancels, and a steady drift is part of pi.

Three analyses, chosen (`choose_analysis`) by the orders that were run and never by the values:

    paired     mean of d, n-1 degrees of freedom; where the order is unknown, drawn at random (more than two arms), or
               never changed
    crossover  mean of the two orders' means, variance pooled within the orders, n-2; where one order is more frequent
    narrower   both of these at the level that makes the narrower interval right (`two_intervals`); where neither is

Sources: paired t, Student, Biometrika 6 (1908) 1-25. Crossover, Hills and Armitage, British Journal of Clinical
Pharmacology 8 (1979) 7-20; Jones and Kenward, Design and Analysis of Cross-Over Trials, 3rd edition (2014), chapter 2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.stats.checks import check_finite, check_share
from app.stats.estimate import Estimate, NoEstimate
from app.stats.student import t_quantile, t_tails
from app.stats.two_intervals import joint_level, separate_level

Analysis = Literal["paired", "crossover", "narrower"]

ROUNDING = 1e-12  # log ratios closer than this differ by floating-point rounding, not by measurement


@dataclass(frozen=True, slots=True)
class StartLevel:
    """What the luck of a start does to the log ratio (`app.stats.starts`)."""

    standard_error: float  # of the log ratio, by the spread of the starts
    df: float
    sd: float  # of what one start gives, its blocks' noise included
    of_blocks: Estimate  # the log ratio with the interval of the blocks alone, which speaks of these processes only


@dataclass(frozen=True, slots=True)
class PairedResult:
    """What the blocks say about ln(candidate / baseline). All logs are natural, so 0.01 is about 1 %."""

    log_ratio: Estimate
    p_t: float  # two-sided, of log_ratio = 0; below 1 - confidence exactly when the interval excludes 0
    df: float  # of the interval that is shown
    sd: float  # of one block's log ratio; a position effect is taken out where it is modelled
    sd_df: int  # degrees of freedom that `sd` rests on
    position: Estimate | None  # log of what running second costs; None where it is not modelled
    analysis: Analysis
    blocks: int
    order_confounded: bool  # one order only: log_ratio contains the position effect, and nothing can part them
    starts: int = 1  # of the engines; blocks that each had their own count as starts and are judged as blocks
    by_start: StartLevel | None = None  # where the starts, and not the blocks alone, are the evidence

    @property
    def error_of_blocks(self) -> float:
        """Standard error of the log ratio by the blocks alone; not of `narrower`, which has two."""
        interval = self.log_ratio if self.by_start is None else self.by_start.of_blocks
        return (interval.high - interval.value) / t_quantile(1 - interval.confidence, self.sd_df)

    def treat_starts_as_blocks(self, level: StartLevel) -> "PairedResult":
        """The same with every start for a block."""
        df = self.starts - 1
        return replace(self, blocks=self.starts, sd=level.sd, sd_df=df, df=df, analysis="paired", position=None)


@dataclass(frozen=True, slots=True)
class Fit:
    """A value with its standard error."""

    value: float
    sd: float
    standard_error: float
    df: int

    @property
    def p(self) -> float:
        """Two-sided p-value of 0."""
        if self.standard_error == 0:
            return 0.0 if self.value else 1.0
        return t_tails(self.value / self.standard_error, self.df)

    def half_width(self, level: float) -> float:
        """Of the interval at a level."""
        return t_quantile(level, self.df) * self.standard_error

    def interval(self, level: float, confidence: float) -> Estimate:
        half = self.half_width(level)
        return Estimate(self.value, self.value - half, self.value + half, confidence)


def choose_analysis(orders: Sequence[int], arms: int = 2) -> Analysis:
    """How blocks of these orders are analysed: +1 where the baseline ran first, -1 where the candidate did, 0 unknown.

    `arms`: how many ran in every block. More than two run in random order, in which a place is luck and not a plan.
    A choice that looked at the values would have to be paid for.
    """
    baseline_first, candidate_first = orders.count(1), orders.count(-1)
    if arms > 2 or not baseline_first or not candidate_first or len(orders) == 2:
        return "paired"
    return "narrower" if baseline_first == candidate_first else "crossover"


def compare_paired(
    baseline: Sequence[float],
    candidate: Sequence[float],
    positions: Sequence[int] | None = None,
    *,
    confidence: float,
    arms: int = 2,
) -> PairedResult | NoEstimate:
    """The log ratio of two series of positive values, one of each per block.

    `positions` holds +1 for a block whose baseline ran first, -1 for one whose candidate did, or 0 throughout (as None)
    where that is not known; `arms` says how many ran in every block. No estimate for fewer than 2 blocks or a value
    that has no logarithm.
    """
    differences = log_ratios(baseline, candidate)
    if isinstance(differences, NoEstimate):
        return differences
    return analyse_differences(differences, positions, confidence=confidence, arms=arms)


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> list[float] | NoEstimate:
    """ln(candidate / baseline) of every block; no estimate where a value has no logarithm."""
    if len(baseline) != len(candidate):
        raise ValueError(f"every block needs both values, got {len(baseline)} and {len(candidate)}")
    check_finite("baseline", baseline)
    check_finite("candidate", candidate)
    for index, pair in enumerate(zip(baseline, candidate, strict=True)):
        if min(pair) <= 0:
            return NoEstimate(f"block {index} has the value {min(pair):g}, and a ratio needs values above 0")
    return [math.log(after) - math.log(before) for before, after in zip(baseline, candidate, strict=True)]


def analyse_differences(
    differences: Sequence[float], positions: Sequence[int] | None = None, *, confidence: float, arms: int = 2
) -> PairedResult | NoEstimate:
    """The same from one log ratio, or one contrast of logs, per block."""
    check_share("confidence", confidence)
    check_finite("differences", differences)
    signs = check_signs(positions if arms <= 2 else None, len(differences))
    if len(differences) < 2:
        return NoEstimate(f"fewer than 2 blocks ({len(differences)}): one difference does not show its own noise")
    analysis = choose_analysis(signs, arms)
    paired = fit_paired(differences)
    if analysis == "paired":
        return _build_result(analysis, [paired], None, signs, confidence)
    crossover, position = fit_crossover(differences, signs)
    fits = [crossover] if analysis == "crossover" else [paired, crossover]
    return _build_result(analysis, fits, position, signs, confidence)


def check_signs(positions: Sequence[int] | None, blocks: int) -> list[int]:
    """+1 and -1, or all 0, one for each block; else ValueError."""
    signs = [0] * blocks if positions is None else list(positions)
    if len(signs) != blocks:
        raise ValueError(f"every block needs a position, got {len(signs)} for {blocks} blocks")
    if not (set(signs) <= {1, -1} or set(signs) <= {0}):
        raise ValueError(f"positions are +1 and -1, or all 0, got {signs}")
    return signs


def _build_result(
    analysis: Analysis, fits: list[Fit], position: Fit | None, signs: list[int], confidence: float
) -> PairedResult:
    blocks, level = len(signs), 1 - confidence
    p = min(fit.p for fit in fits)
    narrowest = fits[0]
    level_shown = level
    if analysis == "narrower":
        p = joint_level(p, blocks)
        level_shown = separate_level(level, blocks)
        narrowest = min(fits, key=lambda fit: fit.half_width(level_shown))
    return PairedResult(
        log_ratio=narrowest.interval(level_shown, confidence),
        p_t=p,
        df=narrowest.df,
        sd=fits[-1].sd,
        sd_df=fits[-1].df,
        position=position.interval(level, confidence) if position else None,
        analysis=analysis,
        blocks=blocks,
        order_confounded=len(set(signs)) == 1 and 0 not in signs,
    )


def fit_paired(differences: Sequence[float]) -> Fit:
    """The mean of all blocks."""
    blocks = len(differences)
    mean = drop_rounding(math.fsum(differences) / blocks)
    sd = drop_rounding(math.sqrt(_sum_squares(differences) / (blocks - 1)))
    return Fit(mean, sd, sd / math.sqrt(blocks), blocks - 1)


def fit_crossover(differences: Sequence[float], signs: Sequence[int]) -> tuple[Fit, Fit]:
    """The log ratio and the position effect: half the sum and half the difference of the two orders' means."""
    orders = [[d for d, sign in zip(differences, signs, strict=True) if sign == order] for order in (1, -1)]
    first, second = (math.fsum(order) / len(order) for order in orders)
    df = len(differences) - 2
    sd = drop_rounding(math.sqrt(sum(map(_sum_squares, orders)) / df))
    standard_error = sd / 2 * math.sqrt(sum(1 / len(order) for order in orders))
    log_ratio, position = drop_rounding((first + second) / 2), drop_rounding((first - second) / 2)
    return Fit(log_ratio, sd, standard_error, df), Fit(position, sd, standard_error, df)


def _sum_squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def drop_rounding(number: float) -> float:
    """0 for what floating point leaves of a difference that is 0."""
    return 0.0 if abs(number) < ROUNDING else number
