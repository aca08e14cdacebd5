"""Whether an engine was stopped, from looks at its processes."""

import pytest

from app.measure.host import EngineLook, core_ranges, stopped_s


def look(at_s: float, *, took_s: float = 0.0, stopped: bool = False, cpu_s: float = 0.0) -> EngineLook:
    """A look of whoever has used so much CPU time."""
    return EngineLook(at_s, at_s + took_s, stopped, cpu_s)


def looks(*stopped: bool) -> list[EngineLook]:
    """One every quarter of a second, by a process that is a little busy."""
    return [look(0.25 * number, stopped=one, cpu_s=0.01 * number) for number, one in enumerate(stopped)]


def test_an_engine_that_ran_was_never_stopped() -> None:
    assert stopped_s(looks(False, False, False, False), 0.25) == 0.0


def test_a_stop_is_timed_to_about_a_period() -> None:
    assert stopped_s(looks(False, True, True, True, False), 0.25) == pytest.approx(0.75)


def test_whoever_looks_knows_by_its_own_absence_that_it_was_stopped() -> None:
    assert stopped_s([look(0.0), look(3.0, cpu_s=0.01)], 0.25) == pytest.approx(2.75)


def test_a_look_that_is_late_because_its_process_was_busy_is_no_stop() -> None:
    assert stopped_s([look(0.0), look(3.0, cpu_s=2.9)], 0.25) == 0.0


def test_a_look_that_is_late_because_the_one_before_took_long_is_no_stop() -> None:
    assert stopped_s([look(0.0, took_s=2.8), look(3.0)], 0.25) == 0.0


@pytest.mark.parametrize(("cores", "text"), [([0], "0"), ([2, 0, 1], "0-2"), ([0, 1, 5, 7, 8], "0-1,5,7-8"), ([], "")])
def test_cores_are_written_as_ranges(cores: list[int], text: str) -> None:
    assert core_ranges(cores) == text
