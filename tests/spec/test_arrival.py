"""When requests may start: in the workload, or in one arm."""

from typing import Any

import pytest

from app.errors import InvalidInput
from app.judge.parity import check_parity, compare_settings
from app.judge.taken import contrast, list_not_read_back
from app.spec.plan import plan_trials
from app.spec.resolution import ResolvedArm, resolve
from tests.support.builders import a_resolved_arm, a_spec
from workers.engines import add_driver_settings


def arms_with(*arrivals: dict[str, Any] | None, profile: str = "vllm-async") -> list[dict[str, Any]]:
    return [
        {"name": f"arm {number}", "profile": profile, **({} if arrival is None else {"arrival": arrival})}
        for number, arrival in enumerate(arrivals)
    ]


def resolved(*arrivals: dict[str, Any] | None) -> tuple[ResolvedArm, ...]:
    return resolve(a_spec(workload={"arrival": {"rate": 4}}, arms=arms_with(*arrivals))).arms


def test_an_arm_has_the_workload_s_arrival_or_its_own() -> None:
    plain, own = resolved(None, {"rate": 4, "limit": 8})
    assert (plain.arrival.model_dump(), own.arrival.model_dump()) == (
        {"pattern": "poisson", "rate": 4, "limit": None},
        {"pattern": "poisson", "rate": 4, "limit": 8},
    )


def test_arms_that_differ_in_arrival_do_so_as_declared() -> None:
    plain, own = resolved(None, {"rate": 4, "limit": 8})
    started = [add_driver_settings(a_resolved_arm(config={}), arm) for arm in (plain, own)]
    parity = check_parity((plain, own), started)
    assert [(one.key, one.setting) for one in parity.declared] == [("arrival.limit", "arrival.limit")]
    assert parity.equal
    assert compare_settings(plain, own) == {"arrival.limit": (None, 8)}
    assert contrast(plain, own, started).in_force == {"arrival.limit": (None, 8)}
    assert [one for one in list_not_read_back(own, started[1]) if one.startswith("arrival")] == []


def test_arms_that_differ_in_arrival_have_engines_of_their_own() -> None:
    # What is in the prefix cache hangs on when requests come.
    for arrival, engines in ((None, 1), ({"rate": 5}, 2)):
        arms = arms_with(None, arrival)
        arms[1]["driver"] = {"output_kind": "delta"}
        spec = a_spec(workload={"arrival": {"rate": 4}}, arms=arms)
        assert len(plan_trials(spec, resolve(spec)).engines) == engines


@pytest.mark.parametrize("arrival", [{"rate": 4}, {"limit": 4}, {"pattern": "constant", "rate": 4}])
def test_llm_takes_no_requests_one_by_one(arrival: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(a_spec(arms=arms_with(arrival, profile="vllm-sync")))
    (error,) = caught.value.errors
    assert error.pointer == "/arms/0/driver/api"
    assert "LLM.generate takes the whole batch at once" in error.detail


def test_llm_takes_calls_of_a_size() -> None:
    (arm,) = resolve(a_spec(arms=arms_with({"size": 8}, profile="vllm-sync"))).arms
    assert arm.arrival.model_dump() == {"pattern": "batch", "size": 8}


def test_samples_that_are_asked_for_with_n_fit_into_a_call() -> None:
    arms = arms_with({"size": 6})
    arms[0]["driver"] = {"samples": "n_parameter"}
    with pytest.raises(InvalidInput) as caught:
        resolve(a_spec(workload={"samples_per_prompt": 4}, arms=arms))
    (error,) = caught.value.errors
    assert error.pointer == "/arms/0/driver/samples"
    assert "say a multiple of 4" in error.detail
