"""The tables of docs/method.md on the luck of a start; `python -m benchmarks.method` prints them with the others.

The analyses are those of app/stats/starts.py, written once more for many experiments at a time;
tests/stats/test_starts.py holds the two against each other.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from app.stats.student import t_quantile
from benchmarks.method import Intervals, chosen, found, percent, table

Array = npt.NDArray[np.float64]

SLOWER = float(np.log(1.02))
SPREADS = (0.0, 0.001, 0.003, 0.01)  # standard deviation of one engine's starts
NOISES = (0.01, 0.002)  # standard deviation of one run
MANY, FEWER = 20_000, 10_000  # experiments


def simulate(
    shape: tuple[int, int, int], spread: float, noise: float, effect: float = 0.0, *, seed: int, position: float = 0.0
) -> tuple[Array, Array]:
    """Log ratios [experiment, start, block] and their order signs [start, block]; blocks alternate AB and BA.

    `shape` holds experiments, starts and blocks per start; a log ratio has the luck and the noise of two arms.
    """
    _, starts, blocks = shape
    rng = np.random.default_rng([seed, starts, blocks])
    luck = np.sqrt(2) * spread * rng.standard_normal((*shape[:2], 1))
    signs = np.where(np.arange(starts * blocks) % 2 == 0, 1.0, -1.0).reshape(starts, blocks)
    return effect + luck + np.sqrt(2) * noise * rng.standard_normal(shape) + position * signs, signs


def by_start(differences: Array, signs: Array, level: float) -> Intervals:
    """Several starts: the wider of the interval within the starts and that of the starts themselves."""
    starts = differences.shape[1]
    values, residuals, df, share = _fitted(differences, signs)
    within = t_quantile(level, df) * np.sqrt(np.sum(residuals**2, axis=(1, 2)) / df * share)
    between = t_quantile(level, starts - 1) * values.std(axis=1, ddof=1) / np.sqrt(starts)
    return values.mean(axis=1), np.maximum(within, between)


def _fitted(differences: Array, signs: Array) -> tuple[Array, Array, int, float]:
    """Values of the starts, residuals, their degrees of freedom, and variance of the values' mean in residual ones."""
    _, starts, blocks = differences.shape
    leaning = signs.mean(axis=1)
    lever = float(np.sum((signs - leaning[:, None]) ** 2))
    means = differences.mean(axis=2)
    df = starts * blocks - starts
    if df < 2:
        return means, differences - means[:, :, None], df, 1 / (starts * blocks)
    effect = np.sum(differences * (signs - leaning[:, None]), axis=(1, 2)) / lever
    residuals = differences - means[:, :, None] - effect[:, None, None] * (signs - leaning[:, None])
    share = 1 / (starts * blocks) + float(leaning.mean()) ** 2 / lever
    return means - effect[:, None] * leaning, residuals, df - 1, share


def blocks_alone(differences: Array, signs: Array, level: float) -> Intervals:
    """What the blocks say if nobody asks which start they ran on."""
    count, starts, blocks = differences.shape
    flat = np.broadcast_to(signs.reshape(1, -1), (count, starts * blocks))
    return chosen(differences.reshape(count, -1), flat, level)


def with_known_spread(differences: Array, signs: Array, values: Array, averaged: float, level: float) -> Intervals:
    """One start [experiment, 1, block], where A/A starts [experiment, start] of so many blocks each are known."""
    _, _, blocks = differences.shape
    centre, half = blocks_alone(differences, signs, level)
    _, residuals, df, _ = _fitted(differences, signs)
    known = np.mean(values**2, axis=1)
    ours = np.sum(residuals**2, axis=(1, 2)) / df * max(0.0, 1 / blocks - 1 / averaged)
    freedom = (known + ours) ** 2 / (known**2 / values.shape[1] + ours**2 / df)
    quantiles = -special.stdtrit(freedom, level / 2)
    return centre, np.maximum(half, quantiles * np.sqrt(known + ours))


def share_by_start(starts: int, blocks: int, spread: float, noise: float, effect: float) -> float:
    """Percent of experiments with several starts whose interval excludes 0."""
    return found(by_start(*simulate((MANY, starts, blocks), spread, noise, effect, seed=21), 0.05))


def share_with_known_spread(known: tuple[int, int], blocks: int, spread: float, noise: float, effect: float) -> float:
    """Percent of experiments on one start whose interval excludes 0; `known` holds A/A starts and blocks of each."""
    calibrations, _ = simulate((FEWER, *known), spread, noise, seed=22)
    differences, signs = simulate((FEWER, 1, blocks), spread, noise, effect, seed=23)
    return found(with_known_spread(differences, signs, calibrations.mean(axis=2), known[1], 0.05))


def share_of_one_start(blocks: int, spread: float, noise: float) -> float:
    """False alarms in percent of experiments on one start that nothing widens."""
    return found(blocks_alone(*simulate((MANY, 1, blocks), spread, noise, seed=24), 0.05))


def share_covered(starts: int, blocks: int, spread: float, noise: float) -> float:
    """Percent of intervals that hold the true 2 %."""
    centre, half = by_start(*simulate((MANY, starts, blocks), spread, noise, SLOWER, seed=25), 0.05)
    return 100 - found((centre - SLOWER, half))


def luck_of_the_start() -> None:
    """What it does, what several starts do about it, and what a known spread does."""
    head = ["", *(f"{100 * spread:g} %" for spread in SPREADS)]
    for noise in NOISES:
        rows: list[Sequence[str]] = [
            [f"{blocks} blocks", *percent(share_of_one_start(blocks, spread, noise) for spread in SPREADS)]
            for blocks in (6, 10, 20)
        ]
        table(f"False alarms on one start, run noise {100 * noise:g} %, by spread of the starts", head, rows)
    for noise in NOISES:
        rows = []
        for starts in range(2, 7):
            for blocks in (2, 3, 4):
                shares = (
                    f"{share_by_start(starts, blocks, spread, noise, 0.0):.1f} / "
                    f"{share_covered(starts, blocks, spread, noise):.1f} / "
                    f"{share_by_start(starts, blocks, spread, noise, SLOWER):.1f}"
                    for spread in SPREADS
                )
                rows.append([f"{starts} starts x {blocks} blocks", *shares])
        table(f"Several starts, run noise {100 * noise:g} %: false alarms / coverage / power for 2 %", head, rows)
    for noise in NOISES:
        rows = []
        for known in ((2, 3), (4, 3), (6, 6), (12, 4)):
            for blocks in (6, 10):
                shares = (
                    f"{share_with_known_spread(known, blocks, spread, noise, 0.0):.1f} / "
                    f"{share_with_known_spread(known, blocks, spread, noise, SLOWER):.1f}"
                    for spread in SPREADS
                )
                rows.append([f"{known[0]} x {known[1]} in A/A, then {blocks} blocks", *shares])
        table(f"One start and a known spread, run noise {100 * noise:g} %: false alarms / power for 2 %", head, rows)
