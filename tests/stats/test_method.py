"""The promises of docs/method.md, by simulation with fixed seeds."""

import pytest

from app.stats.paired import PairedResult, analyse_differences
from benchmarks.method import (
    BLOCKS,
    DISTURBED,
    QUIET,
    SLOWER,
    World,
    alarms_over_a_retry,
    chosen,
    power_without_position_effect,
    share_covered,
    share_found,
    simulate,
)

WORLDS = {"quiet": QUIET, "disturbed": DISTURBED}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_false_alarms_stay_below_6_percent(blocks: int, world: str) -> None:
    assert share_found(chosen, WORLDS[world], 0.0, blocks, count=20_000) <= 6


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_intervals_hold_the_truth_in_at_least_94_percent(blocks: int, world: str) -> None:
    assert share_covered(chosen, WORLDS[world], blocks, count=20_000) >= 94


def test_six_blocks_find_2_percent_at_1_percent_run_noise_in_at_least_75_percent() -> None:
    assert power_without_position_effect(SLOWER, 0.01 * 2**0.5, 6) >= 75
    assert share_found(chosen, QUIET, SLOWER, 6, count=100_000) >= 75


def test_no_position_effect_brings_that_below_66_percent() -> None:
    for position in (0.005, 0.01, 0.03, 0.1):
        assert share_found(chosen, World(position=position), SLOWER, 6) >= 66


@pytest.mark.parametrize("memory", [0.4, 0.6])
def test_noise_that_remembers_costs_at_most_2_percent_more_false_alarms(memory: float) -> None:
    for blocks in (6, 10):
        assert share_found(chosen, World(memory=memory), 0.0, blocks) <= 7


@pytest.mark.parametrize("blocks", [4, 5, 6, 10])
def test_the_simulated_analysis_is_the_one_in_use(blocks: int) -> None:
    differences, signs = simulate(DISTURBED, SLOWER, blocks, count=50, seed=3)
    centres, halves = chosen(differences, signs, 0.05)
    for row, order, centre, half in zip(differences, signs, centres, halves, strict=True):
        result = analyse_differences(row.tolist(), [int(sign) for sign in order], confidence=0.95)
        assert isinstance(result, PairedResult)
        assert result.log_ratio.value == pytest.approx(centre)
        assert result.log_ratio.high == pytest.approx(centre + half)


def test_a_verdict_that_waits_for_the_retry_keeps_its_level() -> None:
    both, anew, once = alarms_over_a_retry(5)
    assert once <= 5.5
    assert min(both, anew) > 8
