"""What engines on a CPU are told about prompts whose requests have seeds."""

from typing import Any

import pytest

from app.errors import InvalidWorkload
from app.spec.engine import EngineSettings
from app.spec.experiment import Experiment
from app.spec.resolution import resolve
from app.spec.workload import Workload
from tests.support.builders import a_simulated_spec, a_spec
from workers.whole_prompts import keep_prompts_whole

LONG: dict[str, Any] = {"prompts": {"count": 20, "tokens": {"value": 500}}}
SAMPLING: dict[str, Any] = {"sampling": {"per_request_seed": False}}


def engines(spec: Experiment, from_file: tuple[Any, ...] | None = None) -> list[EngineSettings]:
    return [arm.engine for arm in keep_prompts_whole(spec, resolve(spec), from_file).values()]


def test_prompts_of_seeded_requests_are_kept_whole_in_every_arm_alike() -> None:
    first, second = engines(a_spec(workload=LONG))
    assert first == second
    assert first.enable_chunked_prefill is False
    assert first.max_num_batched_tokens == 8192


def test_a_step_has_room_for_the_longest_sequence() -> None:
    spec = a_spec(workload={"output": {"tokens": {"value": 20_000}}})
    assert {engine.max_num_batched_tokens for engine in engines(spec)} == {20_128}


@pytest.mark.parametrize("sampling", [{"per_request_seed": False}, {"temperature": 0.0}])
def test_requests_whose_tokens_need_no_generator_may_be_split(sampling: dict[str, Any]) -> None:
    spec = a_spec(workload=LONG | {"sampling": sampling})
    assert engines(spec) == [arm.engine for arm in resolve(spec).arms]


@pytest.mark.parametrize(
    "asked", [{"enable_chunked_prefill": True}, {"enable_chunked_prefill": None}, {"max_num_batched_tokens": 256}]
)
def test_an_experiment_that_asks_for_split_prompts_is_refused_where_a_step_may_overflow(asked: dict[str, Any]) -> None:
    advice = r"80 prompts of up to 500 tokens .*per_request_seed: false"
    for spec in (a_spec(workload=LONG, engine=asked), one_arm_asks(LONG, asked)):
        with pytest.raises(InvalidWorkload, match=advice):
            engines(spec)
    little = {"prompts": {"count": 1, "tokens": {"value": 200}}, "samples_per_prompt": 1}
    spec = a_spec(workload=little, engine=asked)
    assert engines(spec) == [arm.engine for arm in resolve(spec).arms]
    unseeded = a_spec(workload=LONG | SAMPLING, engine=asked)
    assert engines(unseeded) == [arm.engine for arm in resolve(unseeded).arms]


def one_arm_asks(workload: dict[str, Any], asked: dict[str, Any]) -> Experiment:
    return a_spec(
        workload=workload,
        arms=[{"name": "sync", "profile": "vllm-sync"}, {"name": "other", "profile": "vllm-sync", "engine": asked}],
    )


def test_the_room_for_prompts_of_a_file_is_checked_once_they_are_read() -> None:
    workload = {"prompts": {"source": "file", "path": "p.jsonl"}}
    spec = a_spec(workload=workload, engine={"enable_chunked_prefill": True})
    assert engines(spec, ((1,) * 100,) * 4)[0].enable_chunked_prefill
    assert engines(spec, ("text of unknown length",) * 4)[0].enable_chunked_prefill
    with pytest.raises(InvalidWorkload, match="up to 1000 tokens"):
        engines(spec, ((1,) * 1000,) * 4)


def test_limits_left_to_vllm_are_left_to_it() -> None:
    spec = a_spec(engine={"max_num_seqs": None, "max_num_batched_tokens": None})
    assert {(engine.max_num_batched_tokens, engine.enable_chunked_prefill) for engine in engines(spec)} == {
        (None, False)
    }


def test_an_arm_against_itself_is_told_the_same_twice() -> None:
    first, second = engines(a_spec(arms=[{"name": "a", "profile": "vllm-sync"}], calibrate=True))
    assert first == second
    assert first.enable_chunked_prefill is False


def test_simulated_arms_are_left_alone() -> None:
    spec = a_simulated_spec()
    assert engines(spec) == [arm.engine for arm in resolve(spec).arms]
    assert spec.workload == Workload()
