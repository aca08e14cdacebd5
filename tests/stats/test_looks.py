import numpy as np
import pytest
from scipy import stats

from app.stats.looks import find_level_per_look


@pytest.mark.parametrize(
    ("looks", "level"),
    [((4, 6, 8, 10), 0.0182), ((5, 10), 0.0289), ((3, 6, 10), 0.0192)],
)
def test_levels_found_before_with_another_simulation(looks: tuple[int, ...], level: float) -> None:
    # That one had a few thousand experiments, hence the room.
    assert find_level_per_look(looks) == pytest.approx(level, abs=0.0012)


@pytest.mark.parametrize(("looks", "level"), [(2, 0.0294), (4, 0.0182)])
def test_with_many_blocks_they_are_pococks_levels(looks: int, level: float) -> None:
    assert find_level_per_look([1000 * look for look in range(1, looks + 1)]) == pytest.approx(level, abs=0.0005)


@pytest.mark.parametrize("looks", [(5, 10), (4, 6, 8, 10)])
def test_all_looks_together_raise_5_percent_false_alarms(looks: tuple[int, ...]) -> None:
    differences = np.random.default_rng(0).standard_normal((100_000, 10))
    level = find_level_per_look(looks)
    p_values = np.array([stats.ttest_1samp(differences[:, :blocks], 0, axis=1).pvalue for blocks in looks])
    assert np.mean(p_values.min(axis=0) <= level) == pytest.approx(0.05, abs=0.0015)


def test_one_look_costs_nothing() -> None:
    assert find_level_per_look([6]) == 0.05


def test_the_level_is_the_same_every_time() -> None:
    assert find_level_per_look([5, 10]) == find_level_per_look((5, 10))


def test_more_looks_cost_more() -> None:
    assert find_level_per_look([4, 6, 8, 10]) < find_level_per_look([3, 6, 10]) < find_level_per_look([5, 10])


def test_a_stricter_plan_looks_stricter() -> None:
    assert find_level_per_look([5, 10], alpha=0.01) < 0.01


@pytest.mark.parametrize("looks", [[], [1, 4], [4, 4], [6, 4]])
def test_looks_increase_from_two_on(looks: list[int]) -> None:
    with pytest.raises(ValueError, match="looks are increasing numbers of blocks from 2 on"):
        find_level_per_look(looks)
