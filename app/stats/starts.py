"""The luck of a start in a comparison: blocks on one start of the engines share it and cannot average it away.

Model: d_ij = mu + b_i + s_ij pi + e_ij for block j on start i. b, of variance tau^2, is the difference of two equal
engines that comes from how their processes happened to start: twice the variance of one engine's starts. The rest is
the model of `app.stats.paired`. tau is known in one of two ways:

    several starts  What the starts gave (means of their blocks, the position effect taken out) is the sample: its mean,
                    and t with k-1 degrees of freedom. The interval of the blocks within the starts is drawn too, and
                    the wider of both is kept, so that luck with k values never makes it narrower.
    A/A starts      Equal engines have mu = 0, so what every start of an A/A experiment gave is a draw of b and its
                    noise: their mean square B, with a degree of freedom each, estimates tau^2 + sigma^2 / m for m
                    blocks a start. A verdict on one start of n blocks has the variance B + s^2 max(0, 1/n - 1/m), with
                    Satterthwaite's degrees of freedom. Its interval is this one or that of its blocks, the wider.

Sources: one value per independent unit, Student, Biometrika 6 (1908) 1-25; starts of unequal numbers of blocks make
that t test cautious, Benjamini, Journal of the American Statistical Association 78 (1983) 645-654; degrees of freedom
of a sum of mean squares, Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.stats.checks import check_finite
from app.stats.dispersion import estimate_spread
from app.stats.estimate import Estimate, NoEstimate
from app.stats.paired import PairedResult, StartLevel, analyse_differences, drop_rounding, log_ratios
from app.stats.student import t_quantile, t_tails

LEAST_STARTS = 2  # one value of unknown spread would have to be 13 times as large to be told from 0


@dataclass(frozen=True, slots=True)
class StartValue:
    """What one start gave."""

    log_ratio: float  # mean of its blocks, the position effect taken out
    blocks: int
    noise_sd: float  # of one block's log ratio within a start; 0 where no start has two blocks to show it


@dataclass(frozen=True, slots=True)
class StartSpread:
    """How far the start of two equal engines takes their log ratio from 0."""

    sd: float  # of what one start gives, the noise of its blocks included
    blocks: float  # that a start's value averages
    starts: int  # that this rests on; the degrees of freedom
    between: Estimate  # standard deviation of the start's part alone, with its 95 % interval

    def largest_by_chance(self, confidence: float = 0.95) -> float:
        """The log ratio that this share of starts of equal engines does not reach, up or down."""
        return t_quantile(1 - confidence, self.starts) * self.sd


@dataclass(frozen=True, slots=True)
class Within:
    """A plan of blocks on several starts, as the analysis within the starts sees it."""

    sizes: dict[int, int]  # start -> its blocks, in order
    leaning: dict[int, float]  # start -> mean of its blocks' signs
    lever: float | None  # that the position effect is seen by; None where no start shows it, or no df would remain
    df: int
    error: float  # standard error of the starts' mean, in standard deviations of one block


@dataclass(frozen=True, slots=True)
class StartFit:
    """Starts and position by least squares."""

    values: list[float]  # of the starts
    sd: float  # of the residuals
    df: int
    standard_error: float  # of the values' mean, by the residuals
    position: tuple[float, float] | None  # effect and standard error; None where it is not modelled

    def interval(self, value: float, standard_error: float, confidence: float) -> Estimate:
        half = t_quantile(1 - confidence, self.df) * standard_error
        return Estimate(value, value - half, value + half, confidence)


def compare_starts(
    baseline: Sequence[float],
    candidate: Sequence[float],
    positions: Sequence[int] | None,
    starts: Sequence[int],
    *,
    confidence: float,
    known: StartSpread | None = None,
    arms: int = 2,
) -> PairedResult | NoEstimate:
    """`compare_paired`, with the start that every block ran on, and what is known of starts from A/A experiments."""
    differences = log_ratios(baseline, candidate)
    if isinstance(differences, NoEstimate):
        return differences
    return analyse_starts(differences, positions, starts, confidence=confidence, known=known, arms=arms)


def analyse_starts(
    differences: Sequence[float],
    positions: Sequence[int] | None,
    starts: Sequence[int],
    *,
    confidence: float,
    known: StartSpread | None = None,
    arms: int = 2,
) -> PairedResult | NoEstimate:
    """The same from one log ratio per block. Several starts are judged by themselves, one start by `known`.

    Blocks that each have a start of their own are judged as blocks: they are independent.
    """
    result = analyse_differences(differences, positions, confidence=confidence, arms=arms)
    if len(starts) != len(differences):
        raise ValueError(f"every block needs a start, got {len(starts)} for {len(differences)} blocks")
    if isinstance(result, NoEstimate):
        return result
    distinct = len(set(starts))
    if distinct == 1:
        return result if known is None else widen(result, known)
    if distinct == len(differences):
        return replace(result, starts=distinct)
    return judge_by_start(
        replace(result, starts=distinct), _fit(differences, positions if arms <= 2 else None, starts), confidence
    )


def list_start_values(
    differences: Sequence[float], positions: Sequence[int] | None, starts: Sequence[int]
) -> tuple[StartValue, ...]:
    """What every start gave, in the order of their indices."""
    check_finite("differences", differences)
    fit = _fit(differences, positions, starts)
    return tuple(
        StartValue(value, starts.count(start), fit.sd)
        for start, value in zip(sorted(set(starts)), fit.values, strict=True)
    )


def combine_starts(values: Sequence[StartValue]) -> StartSpread | None:
    """What starts of equal engines say together, from one A/A experiment or several; None for fewer than two.

    The interval of the start's own part is the chi-square interval of the mean square (`dispersion.spread`) less the
    share of the blocks' noise, as if that were known.
    """
    if len(values) < LEAST_STARTS:
        return None
    check_finite("values", [value.log_ratio for value in values])
    sd = math.sqrt(statistics.fmean(value.log_ratio**2 for value in values))
    noise = statistics.fmean(value.noise_sd**2 / value.blocks for value in values)
    return StartSpread(
        sd=sd,
        blocks=1 / statistics.fmean(1 / value.blocks for value in values),
        starts=len(values),
        between=estimate_spread(sd, len(values)).transform(lambda whole: math.sqrt(max(0.0, whole**2 - noise))),
    )


def error_beside(known: StartSpread, sd: float, sd_df: float, blocks: int) -> tuple[float, float]:
    """Standard error and degrees of freedom of blocks on one start, where the spread of starts is known.

    `sd`: of one block's log ratio, on `sd_df` degrees of freedom.
    """
    ours = sd**2 * max(0.0, 1 / blocks - 1 / known.blocks)
    variance = known.sd**2 + ours
    if variance == 0:
        return 0.0, sd_df
    return math.sqrt(variance), variance**2 / (known.sd**4 / known.starts + ours**2 / sd_df)


def widen(result: PairedResult, known: StartSpread) -> PairedResult:
    """The interval of one start's blocks, or the one that speaks of other starts too, whichever is wider."""
    error, df = error_beside(known, result.sd, result.sd_df, result.blocks)
    return _keep_wider(result, StartLevel(error, df, known.sd, result.log_ratio)) if error else result


def judge_by_start(result: PairedResult, fit: StartFit, confidence: float) -> PairedResult:
    """Starts as the sample, or the blocks within them: whichever interval is wider."""
    mean, sd = drop_rounding(statistics.fmean(fit.values)), drop_rounding(statistics.stdev(fit.values))
    within = fit.interval(mean, fit.standard_error, confidence)
    level = StartLevel(sd / math.sqrt(result.starts), result.starts - 1, sd, within)
    return _keep_wider(
        replace(
            result,
            log_ratio=within,
            p_t=_compute_p(mean, fit.standard_error, fit.df),
            df=fit.df,
            sd=fit.sd,
            sd_df=fit.df,
            position=None if fit.position is None else fit.interval(*fit.position, confidence),
            analysis="paired" if fit.position is None else "crossover",
        ),
        level,
    )


def _keep_wider(result: PairedResult, level: StartLevel) -> PairedResult:
    value, confidence = result.log_ratio.value, result.log_ratio.confidence
    half = t_quantile(1 - confidence, level.df) * level.standard_error
    p = max(result.p_t, _compute_p(value, level.standard_error, level.df))
    if half <= result.log_ratio.high - value:
        return replace(result, p_t=p, by_start=level)
    interval = Estimate(value, value - half, value + half, confidence)
    return replace(result, log_ratio=interval, p_t=p, df=level.df, by_start=level)


def _compute_p(value: float, standard_error: float, df: float) -> float:
    if standard_error == 0:
        return 0.0 if value else 1.0
    return t_tails(value / standard_error, df)


def describe_within(positions: Sequence[int] | None, starts: Sequence[int]) -> Within:
    """What blocks of these orders on these starts can tell, whatever their values."""
    signs = [0] * len(starts) if positions is None else list(positions)
    blocks = list(zip(signs, starts, strict=True))
    sizes = {start: starts.count(start) for start in sorted(set(starts))}
    leaning = {start: sum(sign for sign, own in blocks if own == start) / size for start, size in sizes.items()}
    lever = math.fsum((sign - leaning[start]) ** 2 for sign, start in blocks)
    df, k = len(starts) - len(sizes), len(sizes)
    modelled = lever > 0 and df > 1
    variance = sum(1 / size for size in sizes.values()) / k**2
    if modelled:
        variance += (sum(leaning.values()) / k) ** 2 / lever
    return Within(sizes, leaning, lever if modelled else None, df - modelled, math.sqrt(variance))


def _fit(differences: Sequence[float], positions: Sequence[int] | None, starts: Sequence[int]) -> StartFit:
    """d = value of the start + sign x position effect, by least squares."""
    within = describe_within(positions, starts)
    signs = [0] * len(differences) if positions is None else list(positions)
    blocks = list(zip(differences, signs, starts, strict=True))
    means = {start: math.fsum(d for d, _, own in blocks if own == start) / size for start, size in within.sizes.items()}
    lean, lever = within.leaning, within.lever
    effect = math.fsum(d * (sign - lean[start]) for d, sign, start in blocks) / lever if lever else 0.0
    residuals = [d - means[start] - effect * (sign - lean[start]) for d, sign, start in blocks]
    sd = drop_rounding(math.sqrt(math.fsum(one**2 for one in residuals) / within.df)) if within.df else 0.0
    return StartFit(
        values=[drop_rounding(means[start] - effect * lean[start]) for start in within.sizes],
        sd=sd,
        df=within.df,
        standard_error=sd * within.error,
        position=(drop_rounding(effect), sd / math.sqrt(lever)) if lever else None,
    )
