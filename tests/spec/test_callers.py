"""Callers: whose settings are whose."""

from typing import Any

import pytest

from app.errors import InvalidInput
from app.spec.callers import SETTINGS, check_caller, settle_caller
from app.spec.experiment import AsyncLlmDriver, DriverCaller
from app.spec.resolution import resolve
from app.spec.workload import BatchArrival, PoissonArrival
from tests.support.builders import a_spec


def errors_of(**driver: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        resolve(a_spec(arms=[{"name": "arm", "profile": "vllm-async", "driver": driver}]))
    return [(error.pointer, error.detail) for error in caught.value.errors]


def test_every_setting_of_a_caller_is_a_field_that_is_left_to_it() -> None:
    assert set(SETTINGS) == set(DriverCaller)
    fields = AsyncLlmDriver.model_fields
    assert all(fields[name].default is None for settings in SETTINGS.values() for name in settings)


def test_a_direct_caller_has_no_settings() -> None:
    (arm,) = resolve(a_spec(arms=[{"name": "arm", "profile": "vllm-async"}])).arms
    assert arm.driver == AsyncLlmDriver()


def test_a_setting_of_another_caller_is_refused() -> None:
    assert errors_of(agent_workers=4) == [
        ("/arms/0/driver/agent_workers", "only caller ray has this setting; this arm's caller is direct")
    ]


def test_what_a_profile_says_of_another_caller_is_left_out() -> None:
    inherited = AsyncLlmDriver(agent_workers=4, calls_per_actor=2)
    assert settle_caller(inherited, {"caller"}) == AsyncLlmDriver()


def test_a_caller_that_does_not_run_here_is_refused() -> None:
    assert errors_of(caller="http") == [
        ("/arms/0/driver/caller", "this version does not run caller http; it runs direct")
    ]


def test_the_synchronous_interface_has_one_caller() -> None:
    with pytest.raises(InvalidInput, match="does not take this setting"):
        resolve(a_spec(arms=[{"name": "arm", "profile": "vllm-sync", "driver": {"caller": "ray"}}]))


def test_agent_workers_share_no_slots_and_no_barrier() -> None:
    driver = AsyncLlmDriver(caller=DriverCaller.RAY)
    (limited,) = check_caller(PoissonArrival(rate=4.0, limit=4), driver)
    assert "driver.calls_per_actor limits the calls in flight" in limited.detail
    (sized,) = check_caller(BatchArrival(size=4), driver)
    assert "no size of arrival" in sized.detail
    assert check_caller(PoissonArrival(rate=4.0), driver) == []
    assert check_caller(BatchArrival(size=4), AsyncLlmDriver()) == []
