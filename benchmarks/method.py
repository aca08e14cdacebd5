"""Reproduces every figure of docs/method.md: `python -m benchmarks.method`, a minute on one core.

With `--results FILE` it judges real noise instead: FILE holds the results of a long A/A experiment, as
`GET /v1/experiments/{id}/results` returns them.

The analyses are the ones of app/stats, written once more for many experiments at a time; tests/stats/test_method.py
holds the two against each other.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import integrate, special, stats

from app.stats.looks import find_level_per_look
from app.stats.paired import Analysis, PairedResult, analyse_differences
from app.stats.power import blocks_needed, detectable_effect
from app.stats.sign_flip import sign_flip_p
from app.stats.student import t_quantile
from app.stats.two_intervals import separate_level

Array = npt.NDArray[np.float64]
Intervals = tuple[Array, Array]  # centre and half width, one of each per experiment
Analyse = Callable[[Array, Array, float], Intervals]  # log ratios and order signs, both [experiment, block]; level

SLOWER = float(np.log(1.02))
BLOCKS = (4, 5, 6, 7, 8, 9, 10)
CHANGES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)  # percent


@dataclass(frozen=True)
class World:
    """Where the runs of an experiment come from; shares of a run's value, so that 0.01 is 1 %."""

    noise: float = 0.01  # standard deviation of one run
    position: float = 0.0  # what running second in a block costs
    drift: float = 0.0  # from each run to the next
    arch: float = 0.0  # height of a slow drift that rises and falls again: half a sine over the experiment
    memory: float = 0.0  # lag-1 correlation of the noise
    shape: str = "normal"  # or "exponential", or "stalls": one run in twenty takes 15 % longer
    order: str = "ABBA"  # or "shuffled": as many AB as BA in random order


def simulate(world: World, effect: float, blocks: int, count: int, seed: int) -> tuple[Array, Array]:
    """`count` experiments of `blocks` blocks, in each of which the candidate's log is `effect` above the baseline's.

    Returns log ratios and order signs, [experiment, block].
    """
    rng = np.random.default_rng([seed, blocks])
    runs = _noise(world, (count, 2 * blocks), rng)
    place = np.arange(2 * blocks)
    runs += world.drift * place + world.arch * np.sin(np.pi * place / (2 * blocks - 1))
    runs[:, 1::2] += world.position
    signs = _orders(world.order, count, blocks, rng)
    return signs * (runs[:, 1::2] - runs[:, 0::2]) + effect, signs


def _noise(world: World, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    if world.shape == "exponential":
        return world.noise * rng.standard_exponential(shape)
    runs = rng.standard_normal(shape)
    for place in range(1, shape[1]):
        runs[:, place] = world.memory * runs[:, place - 1] + np.sqrt(1 - world.memory**2) * runs[:, place]
    if world.shape == "stalls":
        runs += np.log(1.15) / world.noise * (rng.random(shape) < 0.05)
    return np.multiply(world.noise, runs)


def _orders(order: str, count: int, blocks: int, rng: np.random.Generator) -> Array:
    alternating = np.tile(np.where(np.arange(blocks) % 2 == 0, 1.0, -1.0), (count, 1))
    return alternating if order == "ABBA" else rng.permuted(alternating, axis=1)


def paired(differences: Array, signs: Array, level: float) -> Intervals:  # noqa: ARG001 - one signature for all
    """The paired t interval."""
    blocks = differences.shape[1]
    half = t_quantile(level, blocks - 1) * differences.std(axis=1, ddof=1) / np.sqrt(blocks)
    return differences.mean(axis=1), half


def block_means(differences: Array, signs: Array, level: float) -> Intervals:
    """Each two neighbouring blocks averaged, then a paired t interval; an odd last block is lost."""
    pairs = differences.shape[1] // 2
    halves = differences[:, : 2 * pairs].reshape(-1, pairs, 2).mean(axis=2)
    return paired(halves, signs, level)


def crossover(differences: Array, signs: Array, level: float) -> Intervals:
    """The mean of the two orders' means; variance pooled within the orders."""
    squares, sizes, means = 0.0, [], []
    for order in (1, -1):
        mine = signs == order
        size = mine.sum(axis=1)
        mean = np.where(mine, differences, 0).sum(axis=1) / size
        squares = squares + np.where(mine, (differences - mean[:, None]) ** 2, 0).sum(axis=1)
        sizes.append(size)
        means.append(mean)
    df = differences.shape[1] - 2
    error = np.sqrt(squares / df * (1 / sizes[0] + 1 / sizes[1])) / 2
    return (means[0] + means[1]) / 2, t_quantile(level, df) * error


def chosen(differences: Array, signs: Array, level: float) -> Intervals:
    """What app.stats.paired does: the narrower of the two where the orders are equally frequent, else the crossover."""
    blocks = differences.shape[1]
    if blocks % 2:
        return crossover(differences, signs, level)
    each = separate_level(level, blocks)
    centre, half = paired(differences, signs, each)
    return centre, np.minimum(half, crossover(differences, signs, each)[1])


def cheapest(differences: Array, signs: Array, level: float) -> Intervals:
    """The same without paying for the choice: each interval at the full level."""
    centre, half = paired(differences, signs, level)
    return centre, np.minimum(half, crossover(differences, signs, level)[1])


def bootstrap(differences: Array, signs: Array, level: float) -> Intervals:  # noqa: ARG001 - one signature for all
    """The percentile bootstrap of the blocks' mean, 1000 resamples."""
    rng = np.random.default_rng(7)
    blocks = differences.shape[1]
    weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=1000) / blocks
    low, high = np.quantile(differences @ weights.T, [level / 2, 1 - level / 2], axis=1)
    return (low + high) / 2, (high - low) / 2


ANALYSES: dict[str, Analyse] = {
    "paired t": paired,
    "block means": block_means,
    "crossover": crossover,
    "**chosen**": chosen,
}


def found(intervals: Intervals) -> float:
    """The share of experiments whose interval excludes 0, in percent."""
    centre, half = intervals
    return 100 * float(np.mean(np.abs(centre) > half))


def share_found(analyse: Analyse, world: World, effect: float, blocks: int, *, count: int = 40_000) -> float:
    """Simulates and judges at 5 %: false alarms in percent where `effect` is 0, power where it is not."""
    return found(analyse(*simulate(world, effect, blocks, count, seed=1), 0.05))


def share_covered(analyse: Analyse, world: World, blocks: int, *, count: int = 40_000) -> float:
    """Simulates a candidate 2 % slower: the share of intervals that hold these 2 %, in percent."""
    centre, half = analyse(*simulate(world, SLOWER, blocks, count, seed=2), 0.05)
    return 100 - found((centre - SLOWER, half))


QUIET = World()
DISTURBED = World(position=0.01, drift=0.002)


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Prints one markdown table."""
    head = list(head)
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def percent(shares: Iterable[float]) -> list[str]:
    """Shares as table cells."""
    return [f"{share:.1f}" for share in shares]


def by_blocks(title: str, judge: Callable[..., float], analyses: dict[str, Analyse]) -> None:
    """One row per analysis, one column per number of blocks."""
    rows = [[name, *percent(judge(analyse, blocks=blocks) for blocks in BLOCKS)] for name, analyse in analyses.items()]
    table(title, ["blocks", *map(str, BLOCKS)], rows)


def level_coverage_power() -> None:
    """The proof figures."""
    for name, world in {"quiet": QUIET, "position effect 1 %, drift 0.2 % a run": DISTURBED}.items():
        by_blocks(f"False alarms, {name}", partial(share_found, world=world, effect=0.0), ANALYSES)
        by_blocks(f"Power for 2 %, {name}", partial(share_found, world=world, effect=SLOWER), ANALYSES)
        by_blocks(f"Coverage, {name}", partial(share_covered, world=world), {"**chosen**": chosen})


def position_effects() -> None:
    """What a position effect does to six blocks."""
    positions = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03)
    analyses = ANALYSES | {"narrower, unpaid": cheapest}
    for title, effect in {"False alarms": 0.0, "Power for 2 %": SLOWER}.items():
        rows = [
            [name, *percent(share_found(a, World(position=p), effect, 6) for p in positions)]
            for name, a in analyses.items()
        ]
        table(f"{title}, 6 blocks, by position effect", ["", *(f"{100 * p:g} %" for p in positions)], rows)


def memory_and_drift() -> None:
    """Noise that remembers, and a slow drift of 20 % over the experiment."""
    real = World(noise=0.05, memory=0.5)
    worlds = {
        "lag-1 correlation 0.4": World(memory=0.4),
        "lag-1 correlation 0.6": World(memory=0.6),
        "20 % rise": World(drift=0.2 / 11),
        "20 % rise and fall": World(arch=0.2),
        "noise 5 %, correlation 0.5": real,
        "the same, 20 % rise": replace(real, drift=0.2 / 11),
        "the same, 20 % rise and fall": replace(real, arch=0.2),
    }
    for title, strength in {"False alarms": 0.0, "Power for twice the noise": 2.0}.items():
        rows = []
        for name, world in worlds.items():
            for order in ("ABBA", "shuffled"):
                judged = replace(world, order=order)
                effect = strength * world.noise
                shares = [share_found(analyse, judged, effect, 6) for analyse in ANALYSES.values()]
                rows.append([name, order, *percent([*shares, share_found(chosen, judged, effect, 10)])])
        head = ["world", "order", *ANALYSES, "**chosen**, 10 blocks"]
        table(f"{title}, 6 blocks", head, rows)


def other_noise() -> None:
    """Noise that is not normal."""
    rows = []
    for shape in ("normal", "exponential", "stalls"):
        for blocks in (4, 6, 8, 10):
            judge = partial(share_found, chosen, World(shape=shape))
            rows.append([shape, str(blocks), *percent([judge(0.0, blocks), judge(SLOWER, blocks)])])
    table("The chosen analysis under other noise", ["noise", "blocks", "false alarms", "power for 2 %"], rows)


def what_we_do_not_use() -> None:
    """Bootstrap, Welch, one order only, pooled requests."""
    resampled = (share_found(bootstrap, QUIET, 0.0, n, count=4000) for n in BLOCKS)
    rows = [
        ["percentile bootstrap of the blocks", *percent(resampled)],
        ["all of one, then all of the other", *percent(_sequential(n) for n in BLOCKS)],
        ["the same one first in every block", *percent(_fixed_order(n) for n in BLOCKS)],
    ]
    table("False alarms of what we do not use", ["blocks", *map(str, BLOCKS)], rows)
    rows = [[str(n), *percent([_welch(n), share_found(chosen, QUIET, SLOWER, n)])] for n in (4, 6, 8, 10)]
    table("Power for 2 %, blocks that differ by 2 %", ["blocks", "Welch", "**chosen**"], rows)
    print(f"\nMann-Whitney on pooled requests: {_pooled_requests():.0f} % false alarms")


def _sequential(blocks: int, count: int = 40_000) -> float:
    rng = np.random.default_rng([3, blocks])
    runs = 0.01 * rng.standard_normal((count, 2 * blocks)) + 0.002 * np.arange(2 * blocks)
    return found(paired(runs[:, blocks:] - runs[:, :blocks], np.ones((count, blocks)), 0.05))


def _fixed_order(blocks: int) -> float:
    return share_found(lambda d, s, level: paired(d * s, s, level), DISTURBED, 0.0, blocks)


def _welch(blocks: int, count: int = 40_000) -> float:
    rng = np.random.default_rng([4, blocks])
    shared = 0.02 * rng.standard_normal((count, blocks))
    first, second = (shared + 0.01 * rng.standard_normal((count, blocks)) for _ in range(2))
    p = stats.ttest_ind(second + SLOWER, first, axis=1, equal_var=False).pvalue
    return 100 * float(np.mean(p < 0.05))


def _pooled_requests(count: int = 400, runs: int = 3, requests: int = 1000) -> float:
    """Standard deviation of a run 1.5 %, of a request 30 %."""
    rng = np.random.default_rng(5)
    sides = [
        rng.normal(0.015 * rng.standard_normal((count, runs, 1)), 0.3, (count, runs, requests)).reshape(count, -1)
        for _ in range(2)
    ]
    p = stats.mannwhitneyu(sides[0], sides[1], axis=1, method="asymptotic").pvalue
    return 100 * float(np.mean(p < 0.05))


def second_opinion() -> None:
    """The sign-flip test beside the t intervals."""
    rows = []
    for name, world in {"quiet": QUIET, "disturbed": DISTURBED, "stalls": World(shape="stalls")}.items():
        for blocks in (6, 8, 10):
            shares = [_sign_flips(world, effect, blocks) for effect in (0.0, SLOWER)]
            rows.append([name, str(blocks), *percent(shares)])
    table("Sign-flip test", ["world", "pairs", "false alarms", "power for 2 %"], rows)


def _sign_flips(world: World, effect: float, blocks: int, count: int = 4000) -> float:
    differences, _ = simulate(world, effect, blocks, count, seed=6)
    p_values = [sign_flip_p(row) for row in differences.tolist()]
    return 100 * float(np.mean([p is not None and p <= 0.05 for p in p_values]))


def looking_early() -> None:
    """Several looks at 5 % each, and at the corrected level."""
    rows = []
    for looks in ((5, 10), (4, 6, 8, 10), (3, 6, 10), tuple(range(3, 11))):
        level = find_level_per_look(looks)
        shares = [_any_look(world, looks, at) for world, at in ((QUIET, 0.05), (QUIET, level), (DISTURBED, level))]
        rows.append([", ".join(map(str, looks)), f"{level:.4f}", *percent(shares)])
    head = ["looks after", "level per look", "at 5 % each", "corrected, quiet", "corrected, disturbed"]
    table("False alarms of the chosen analysis over all looks", head, rows)


def _any_look(world: World, looks: tuple[int, ...], level: float, count: int = 40_000) -> float:
    return 100 * float(_looked(simulate(world, 0.0, looks[-1], count, seed=8), looks, level).mean())


def _looked(series: tuple[Array, Array], looks: Sequence[int], level: float) -> npt.NDArray[np.bool_]:
    """Where any of the looks calls a difference."""
    differences, signs = series
    alarm = np.zeros(len(differences), dtype=bool)
    for blocks in looks:
        centre, half = chosen(differences[:, :blocks], signs[:, :blocks], level)
        alarm |= np.abs(centre) > half
    return alarm


def failure_and_retry() -> None:
    """False alarms over an experiment of 10 blocks that fails, and its retry."""
    rows = [[str(blocks), *percent(alarms_over_a_retry(blocks))] for blocks in (4, 6, 8, 9)]
    head = ["blocks before the failure", "both read, retry goes on", "both read, retry anew", "read once, at its end"]
    table("False alarms over a failure and its retry", head, rows)
    rows = [
        [", ".join(map(str, looks)), str(failed_after), *percent(alarms_over_looks(looks, failed_after))]
        for looks in ((5, 10), (4, 6, 8, 10), (3, 6, 10))
        for failed_after in looks[:-1]
    ]
    head = ["looks after", "blocks before the failure", "every look again", "each look once"]
    table("False alarms over the looks of a failure and of its retry, measured anew", head, rows)


def alarms_over_a_retry(failed_after: int, blocks: int = 10, count: int = 40_000) -> tuple[float, float, float]:
    """Both verdicts read, of a retry that takes the blocks over and of one that does not; and only the retry's."""
    differences, signs = simulate(QUIET, 0.0, blocks, count, seed=11)
    at_the_end, anew = (_alarms(*simulate(QUIET, 0.0, blocks, count, seed=seed)) for seed in (11, 12))
    before = _alarms(differences[:, :failed_after], signs[:, :failed_after])
    both, twice, once = (100 * float(read.mean()) for read in (before | at_the_end, before | anew, at_the_end))
    return both, twice, once


def alarms_over_looks(looks: tuple[int, ...], failed_after: int, count: int = 40_000) -> tuple[float, float]:
    """Of an attempt that fails and a retry that measures anew: with all looks read again, and with each read once."""
    level = find_level_per_look(looks)
    first, second = (simulate(QUIET, 0.0, looks[-1], count, seed=seed) for seed in (11, 12))
    before = _looked(first, [look for look in looks if look <= failed_after], level)
    left = [look for look in looks if look > failed_after]
    again, once = (100 * float((before | _looked(second, own, level)).mean()) for own in (looks, left))
    return again, once


def _alarms(differences: Array, signs: Array) -> npt.NDArray[np.bool_]:
    centre, half = chosen(differences, signs, 0.05)
    return np.asarray(np.abs(centre) > half)


def enough_blocks() -> None:
    """How often the promised number of blocks decides, after experiments that did not."""
    rows = []
    for first in (4, 6, 8):
        for noise in (0.01, 0.02):
            told = [share_decided(World(noise=noise), np.log1p(change / 100), first) for change in CHANGES]
            shares = ["-" if np.isnan(blocks) else f"{100 * share:.0f} ({blocks:.0f})" for blocks, share in told]
            rows.append([str(first), f"{100 * noise:g} %", *shares])
    head = ["blocks run", "run noise", *(f"{change:g} %" for change in CHANGES)]
    table("Decided by `blocks_needed` blocks, percent (median number), by the true change", head, rows)


def share_decided(world: World, effect: float, first: int, *, count: int = 600) -> tuple[float, float]:
    """After inconclusive experiments of `first` blocks: the median of `blocks_needed`, and the share of new experiments
    of so many blocks that decide.
    """
    differences, signs = simulate(world, effect, first, count, seed=9)
    open_still = ~decided(chosen(differences, signs, 0.05))
    results = [
        analyse_differences(row, [int(sign) for sign in order], confidence=0.95)
        for row, order in zip(differences[open_still].tolist(), signs[open_still].tolist(), strict=True)
    ]
    needed = [blocks_needed(result, SLOWER) for result in results if isinstance(result, PairedResult)]
    known = [blocks for blocks in needed if blocks is not None]
    if not known:
        return float("nan"), float("nan")
    again = [decided(chosen(*simulate(world, effect, n, 1, seed=10_000 + i), 0.05))[0] for i, n in enumerate(known)]
    return float(np.median(known)), float(np.mean(again))


def decided(intervals: Intervals) -> npt.NDArray[np.bool_]:
    """Whether each interval excludes 0 or lies within ± 2 %."""
    centre, half = intervals
    return np.asarray((np.abs(centre) > half) | (np.abs(centre) + half <= SLOWER))


def power_without_position_effect(effect: float, sd: float, blocks: int) -> float:
    """Not simulated: the power of the chosen analysis at 5 % in percent, by the integral of app/stats/two_intervals."""
    df, each = blocks - 1, separate_level(0.05, blocks)
    thresholds = t_quantile(each, df), t_quantile(each, df - 1) * np.sqrt(df / (df - 1))
    noncentrality = effect / sd * np.sqrt(blocks)

    def integrand(angle: float) -> float:
        threshold = min(thresholds[0], thresholds[1] * np.cos(angle))
        return float(np.cos(angle) ** (df - 2) * (1 - special.ncfdtr(1, df, noncentrality**2, threshold**2)))

    total, _ = integrate.quad(integrand, 0, np.pi / 2)
    return 200 / float(special.beta(0.5, (df - 1) / 2)) * float(total)


def integrals() -> None:
    """Not simulated: levels, power without a position effect, and detectable effects."""
    counts = (4, 6, 8, 10, 12, 16, 20)
    levels = [f"{100 * separate_level(0.05, blocks):.2f}" for blocks in counts]
    powers = percent(power_without_position_effect(SLOWER, 0.01 * np.sqrt(2), blocks) for blocks in counts)
    rows = [["level of each interval", *levels], ["power for 2 %, no position effect", *powers]]
    table("The chosen analysis by integration", ["blocks", *map(str, counts)], rows)
    table("Detectable effect in standard deviations of one block", ["blocks", *map(str, counts)], _detectable(counts))


def _detectable(counts: Iterable[int]) -> list[list[str]]:
    analyses: tuple[Analysis, ...] = ("paired", "narrower")
    return [[name, *(f"{detectable_effect(1.0, n, name):.2f}" for n in counts)] for name in analyses]


def real_noise(path: Path) -> None:
    """Every run of consecutive trials of an A/A experiment, taken as an ABBA experiment of its own.

    What one engine is slower than the other throughout is no noise, and taken out. The windows overlap, so that their
    shares are less certain than their number suggests.
    """
    comparisons = json.loads(path.read_text())["comparisons"]
    blocks_that_count = next(one for one in comparisons if one["metric"] == "output_throughput")["blocks"]
    sides = ("baseline", "candidate")
    values = {block[f"{side}_slot"]: (side, block[side]) for block in blocks_that_count for side in sides}
    runs = np.log([value for _, (_, value) in sorted(values.items())])
    again = np.array([side == "candidate" for _, (side, _) in sorted(values.items())])
    one, other = runs[~again].mean(), runs[again].mean()
    print(f"the two engines differ by {100 * np.expm1(other - one):+.1f} %, which is taken out")
    runs -= np.where(again, other, one)
    memory = float(np.sum(runs[1:] * runs[:-1]) / np.sum(runs**2))
    block_sd = float(np.std(runs[1::2] - runs[0::2], ddof=1))
    print(f"{len(runs)} trials, sd {100 * runs.std(ddof=1):.2f} %, lag-1 correlation {memory:.2f}")
    rows = []
    for blocks in (4, 6, 8, 10):
        pairs = np.lib.stride_tricks.sliding_window_view(runs, 2 * blocks).reshape(-1, blocks, 2)
        signs = np.tile(np.where(np.arange(blocks) % 2 == 0, 1.0, -1.0), (len(pairs), 1))
        differences = signs * (pairs[:, :, 1] - pairs[:, :, 0])
        promised = detectable_effect(block_sd, blocks, "narrower")
        shares = [found(chosen(differences + effect, signs, 0.05)) for effect in (0.0, SLOWER, promised)]
        rows.append([str(blocks), str(len(pairs)), *percent(shares), f"{100 * np.expm1(promised):.1f} %"])
    head = ["blocks", "windows", "false alarms", "2 % found", "detectable effect found", "detectable effect"]
    table("An arm against itself, for real", head, rows)


def main() -> None:
    """Prints the tables in the order of docs/method.md, or those of real trials."""
    from benchmarks.starts import luck_of_the_start  # which builds on this module

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path)
    results = parser.parse_args().results
    if results is not None:
        real_noise(results)
        return
    integrals()
    level_coverage_power()
    position_effects()
    memory_and_drift()
    other_noise()
    second_opinion()
    looking_early()
    failure_and_retry()
    enough_blocks()
    what_we_do_not_use()
    luck_of_the_start()


if __name__ == "__main__":
    main()
