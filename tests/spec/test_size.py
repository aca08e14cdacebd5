"""What is too large to be run is refused with its size."""

from typing import Any

import pytest

from app.errors import InvalidInput
from app.spec.parsing import parse_experiment
from app.spec.plan import plan_trials
from app.spec.resolution import resolve

ARM = {"name": "a", "profile": "simulated"}


def refusals(**changes: Any) -> dict[str, str]:
    document = {"model": {"preset": "tiny-qwen2"}, "arms": [ARM]} | changes
    try:
        spec = parse_experiment(document)
        plan_trials(spec, resolve(spec))
    except InvalidInput as error:
        return {one.pointer: one.detail for one in error.errors}
    return {}


def test_a_hundred_million_samples_with_million_token_prompts_are_refused_with_their_size() -> None:
    found = refusals(
        workload={
            "prompts": {"count": 100_000, "tokens": {"value": 1_000_000}},
            "samples_per_prompt": 1024,
        }
    )
    assert found["/workload/prompts"].startswith("100,000 prompts of about 1,000,000 tokens: the most is 25,000,000")
    assert found["/workload"].startswith(
        "102,400,000 samples of about 1,000,128 tokens, prompt and output: the most is"
    )


def test_too_many_samples_are_refused_however_short_they_are() -> None:
    workload = {"prompts": {"count": 100_000, "tokens": {"value": 1}}, "samples_per_prompt": 11}
    assert refusals(workload=workload | {"output": {"tokens": {"value": 1}}}) == {
        "/workload": "1,100,000 samples per trial: the most is 1,000,000"
    }


def test_a_plan_of_a_million_trials_is_refused_before_it_is_made() -> None:
    arms = [ARM | {"name": f"a{number}"} for number in range(64)]
    assert refusals(arms=arms, plan={"blocks": 200, "warmup_trials": 20, "residency": "restart"}) == {
        "/plan": "268,800 trials, warm-ups included: the most is 10,000"
    }


def test_starts_count_their_warm_ups() -> None:
    arms = [ARM | {"name": f"a{number}"} for number in range(50)]
    found = refusals(arms=arms, plan={"blocks": 100, "warmup_trials": 20, "starts": 20})
    assert found == {"/plan": "25,000 trials, warm-ups included: the most is 10,000"}


@pytest.mark.parametrize(
    ("workload", "plan", "said"),
    [
        ({"prompts": {"count": 100_000}, "samples_per_prompt": 10}, {"blocks": 200}, "201,000,000: the most is"),
        (
            {"prompts": {"count": 10_000}, "samples_per_prompt": 10, "output": {"tokens": {"value": 9_000}}},
            {"blocks": 200},
            "183,472,800,000: the most is 100,000,000,000",
        ),
    ],
)
def test_many_large_trials_are_refused_together(workload: Any, plan: Any, said: str) -> None:
    (detail,) = refusals(workload=workload, plan=plan).values()
    assert said in detail


@pytest.mark.parametrize(
    "workload",
    [
        {"prompts": {"count": 8192, "tokens": {"median": 512, "sigma": 0.8, "max": 32_768}}, "samples_per_prompt": 16},
        {"prompts": {"count": 1}, "output": {"tokens": {"value": 1_000_000}}},
        {"prompts": {"count": 62_500}, "samples_per_prompt": 16},
    ],
)
def test_what_a_rollout_needs_is_far_below_the_limits(workload: Any) -> None:
    assert refusals(workload=workload) == {}


def test_a_slot_is_not_negative() -> None:
    arm = ARM | {"driver": {"failing_slots": [-1]}}
    assert refusals(arms=[arm]) == {"/arms/0/driver/failing_slots/0": "must be at least 0, not -1"}
