"""A GPU over a trial, from plain readings."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.measure.gpu import GpuLook, GpuProcess, GpuReadings, GpuTotals, ProcessUse, measure_gpu
from app.measure.records import GpuConditions, Spread, Unseen

ENGINE, STRANGER = 100, 4711
SECOND = 1_000_000


def look(*pids: int, **changes: Any) -> GpuLook:
    """A look that lists these processes, 2 GiB each."""
    return GpuLook(processes=tuple(GpuProcess(pid, 2048.0) for pid in pids), **changes)


def use(second: int, pid: int, sm_pct: float, memory_pct: float = 0.0) -> ProcessUse:
    """A sample of NVML's."""
    return ProcessUse(second * SECOND, pid, sm_pct, memory_pct)


def conditions(looks: Sequence[GpuLook], *uses: ProcessUse, **changes: Any) -> GpuConditions:
    """What two seconds with these readings come to."""
    fields: dict[str, Any] = {
        "gpu": "0",
        "seconds": 2.0,
        "before": GpuTotals(energy_j=1000.0, held_back_s={"power": 5.0, "heat": 0.0}),
        "after": GpuTotals(energy_j=2000.0, held_back_s={"power": 5.0, "heat": 0.0}),
        "looks": looks,
        "uses": uses,
        "util_pct": 98.0,
        "unseen": {},
    }
    return measure_gpu(GpuReadings(**(fields | changes)), frozenset({ENGINE}), {STRANGER: "python3"})


def test_the_experiment_s_own_processes_are_no_neighbours() -> None:
    assert conditions([look(ENGINE)] * 3, use(1, ENGINE, 97)).neighbours == ()


def test_a_neighbour_has_a_name_its_memory_and_its_share_of_the_sms() -> None:
    (found,) = conditions([look(ENGINE, STRANGER)] * 3, use(1, ENGINE, 55), use(1, STRANGER, 43, 12)).neighbours
    assert (found.pid, found.name, found.memory_mib) == (STRANGER, "python3", 2048.0)
    assert (found.sm_pct, found.memory_busy_pct, found.passing) == (43.0, 12.0, False)


def test_a_share_is_of_the_whole_trial_though_the_neighbour_was_there_for_a_part_of_it() -> None:
    looks = [look(ENGINE), look(ENGINE, STRANGER), look(ENGINE), look(ENGINE)]
    uses = [use(second, ENGINE, 90) for second in range(1, 5)]
    (found,) = conditions(looks, *uses, use(2, STRANGER, 80)).neighbours
    assert found.sm_pct == 20.0
    assert found.passing


@pytest.mark.parametrize(
    "there", [[False, True, True], [True, True, False], [False, True, False]], ids=["came", "went", "came and went"]
)
def test_a_neighbour_that_comes_or_goes_is_passing(there: list[bool]) -> None:
    (found,) = conditions([look(ENGINE, *[STRANGER] * here) for here in there], use(1, ENGINE, 90)).neighbours
    assert found.passing


def test_one_that_came_and_went_between_two_looks_is_known_by_its_samples() -> None:
    (found,) = conditions([look(ENGINE)] * 3, use(1, ENGINE, 50), use(2, ENGINE, 90), use(1, STRANGER, 44)).neighbours
    assert (found.pid, found.sm_pct, found.passing) == (STRANGER, 22.0, True)


def test_a_neighbour_without_samples_did_nothing_where_others_have_some() -> None:
    (found,) = conditions([look(ENGINE, STRANGER)] * 3, use(1, ENGINE, 97)).neighbours
    assert (found.sm_pct, found.passing) == (0.0, False)


def test_without_any_sample_nobody_knows_what_a_neighbour_did() -> None:
    found = conditions([look(ENGINE, STRANGER)] * 3)
    assert found.neighbours[0].sm_pct is None
    assert Unseen.SHARES in found.unseen


def test_without_a_neighbour_missing_samples_do_not_matter() -> None:
    assert conditions([look(ENGINE)] * 3).unseen == {}


def test_the_busiest_neighbour_comes_first() -> None:
    looks = [look(ENGINE, 1, 2, 3)] * 2
    found = conditions(looks, use(1, ENGINE, 50), use(1, 2, 30), use(1, 3, 5)).neighbours
    assert [one.pid for one in found] == [2, 3, 1]


def test_process_ids_of_another_namespace_are_no_neighbours_and_said_to_be_unseen() -> None:
    found = conditions([look(90_001, 90_002)] * 3, use(1, 90_001, 50))
    assert found.neighbours == ()
    assert "another namespace" in found.unseen[Unseen.PROCESSES]


def test_an_empty_list_does_not_prove_that_nobody_was_there() -> None:
    assert Unseen.PROCESSES in conditions([look()] * 3).unseen


def test_what_the_driver_keeps_from_us_is_passed_on() -> None:
    found = conditions([GpuLook()] * 3, unseen={Unseen.PROCESSES: "MIG"})
    assert found.unseen == {Unseen.PROCESSES: "MIG"}
    assert found.neighbours == ()


def test_held_back_is_what_the_counters_gained_during_the_trial() -> None:
    found = conditions([look(ENGINE)], after=GpuTotals(2000.0, {"power": 6.5, "heat": 0.0}))
    assert found.held_back_pct == {"power": 75.0, "heat": 0.0}


def test_counters_that_cannot_be_read_are_unseen_and_not_0() -> None:
    found = conditions([look(ENGINE)], before=GpuTotals(), after=GpuTotals())
    assert found.held_back_pct == {}
    assert Unseen.HELD_BACK in found.unseen
    assert found.power_w is None


def test_clocks_and_temperature_are_those_of_the_trial_and_not_of_its_end() -> None:
    looks = [look(ENGINE, sm_clock_mhz=clock, temperature_c=60.0) for clock in (1980.0, 1740.0, 1770.0)]
    found = conditions(looks)
    assert found.sm_clock_mhz == Spread(mean=1830.0, least=1740.0, most=1980.0)
    assert found.power_w == 500.0
    assert found.memory_clock_mhz is None
