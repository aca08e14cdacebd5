"""What was asked for against what the engines resolved to."""

from typing import Any

import pytest

from app.judge.taken import NotTaken, contrast, list_not_read_back, list_not_taken
from app.measure.records import StartedArm
from app.spec.resolution import ResolvedArm, resolve
from tests.support.builders import a_resolved_arm, a_spec

# What vLLM 0.32 resolves this project's common defaults to on a CPU.
ENGINE: dict[str, object] = {
    "engine.parallel_config.tensor_parallel_size": 1,
    "engine.model_config.dtype": "torch.float32",
    "engine.model_config.max_model_len": 256,
    "engine.model_config.enforce_eager": True,
    "engine.model_config.seed": 0,
    "engine.scheduler_config.max_num_seqs": 256,
    "engine.scheduler_config.max_num_batched_tokens": 8192,
    "engine.scheduler_config.enable_chunked_prefill": True,
    "engine.scheduler_config.async_scheduling": False,
    "engine.cache_config.gpu_memory_utilization": 0.8,
    "engine.cache_config.enable_prefix_caching": True,
    "engine.cache_config.block_size": 128,
    "engine.cache_config.cache_dtype": "auto",
    "env.OMP_NUM_THREADS": "1",
}


def an_arm(name: str = "async", **settings: Any) -> ResolvedArm:
    return resolve(a_spec(arms=[{"name": name, "profile": "vllm-async", **settings}])).arms[0]


def an_engine(name: str = "async", **changes: object) -> StartedArm:
    return a_resolved_arm(name, ENGINE | {key.replace("__", "."): value for key, value in changes.items()})


def compared(
    one: dict[str, Any], other: dict[str, Any], ours: StartedArm | None = None, theirs: StartedArm | None = None
) -> Any:
    arms = [ours or an_engine("one"), theirs or an_engine("other")]
    return contrast(an_arm("one", **one), an_arm("other", **other), arms)


def test_an_engine_that_has_all_that_was_asked_for_has_nothing_to_tell() -> None:
    assert list_not_taken(an_arm(), an_engine()) == ()
    assert list_not_read_back(an_arm(), an_engine()) == ()


def test_a_setting_that_was_not_taken_is_told_with_what_came_of_it() -> None:
    arm = an_arm(engine={"async_scheduling": True})
    assert list_not_taken(arm, an_engine()) == (NotTaken(setting="engine.async_scheduling", asked=True, got=False),)
    assert str(list_not_taken(arm, an_engine())[0]) == "engine.async_scheduling: asked true, got false"


@pytest.mark.parametrize(
    ("setting", "asked", "key", "got"),
    [
        ("kv_cache_dtype", "fp8", "engine.cache_config.cache_dtype", "auto"),
        ("dtype", "bfloat16", "engine.model_config.dtype", "torch.float32"),
        ("quantization", "fp8", "engine.model_config.quantization", None),
        ("max_num_seqs", 64, "engine.scheduler_config.max_num_seqs", 256),
    ],
)
def test_a_setting_is_found_under_vllm_s_name_for_it(setting: str, asked: Any, key: str, got: Any) -> None:
    arm, engine = an_arm(engine={setting: asked}), a_resolved_arm("async", ENGINE | {key: got})
    assert [(one.setting, one.got) for one in list_not_taken(arm, engine)] == [(f"engine.{setting}", got)]
    assert list_not_taken(arm, a_resolved_arm("async", ENGINE | {key: asked})) == ()


def test_what_is_left_to_vllm_was_not_asked_for() -> None:
    arm = an_arm(engine={"dtype": "auto", "max_num_seqs": None})
    assert list_not_taken(arm, an_engine()) == ()


def test_a_common_default_from_which_a_worker_departs_was_not_asked_for() -> None:
    whole = an_engine(engine__scheduler_config__enable_chunked_prefill=False)
    assert list_not_taken(an_arm(), whole) == ()
    assert list_not_taken(an_arm(engine={"enable_chunked_prefill": False}), an_engine()) != ()


def test_a_variable_that_the_engine_does_not_have_was_not_taken() -> None:
    arm = an_arm(environment={"variables": {"OMP_NUM_THREADS": "2", "VLLM_USE_SOMETHING": "1"}})
    assert {one.setting: one.got for one in list_not_taken(arm, an_engine())} == {
        "environment.OMP_NUM_THREADS": "1",
        "environment.VLLM_USE_SOMETHING": None,
    }


def test_what_nothing_tells_of_is_not_claimed() -> None:
    arm = an_arm(environment={"python": "/opt/other/bin/python"}, engine={"quantization": "fp8"})
    engine = a_resolved_arm("async", {**ENGINE, "engine.model_config.quantization": "<vllm.Fp8 object>"})
    assert list_not_taken(arm, engine) == ()
    assert list_not_read_back(arm, engine) == ("engine.quantization", "environment.python")


def test_tokens_cannot_become_text_without_a_tokenizer() -> None:
    arm = an_arm(driver={"detokenize": True})
    engine = a_resolved_arm("async", ENGINE | {"engine.model_config.skip_tokenizer_init": True})
    assert [one.setting for one in list_not_taken(arm, engine)] == ["driver.detokenize"]


# --- two arms ------------------------------------------------------------------------------------------------------


def test_a_setting_that_only_one_engine_has_is_in_force() -> None:
    theirs = a_resolved_arm("other", ENGINE | {"engine.cache_config.enable_prefix_caching": False})
    found = compared({}, {"engine": {"enable_prefix_caching": False}}, theirs=theirs)
    assert found.in_force == {"engine.enable_prefix_caching": (True, False)}
    assert found.same_twice is None


def test_arms_that_differ_in_nothing_that_is_in_force_are_the_same_thing_twice() -> None:
    found = compared({}, {"engine": {"async_scheduling": True}})
    assert found.in_force == {}
    assert found.same_twice == (
        "they are the same thing twice, since nothing they ask for differently is in force: "
        "engine.async_scheduling is asked to be null and true"
    )


def test_a_variable_that_both_have_anyway_makes_no_difference() -> None:
    found = compared({}, {"environment": {"variables": {"OMP_NUM_THREADS": "1"}}})
    assert found.same_twice is not None


def test_one_setting_in_force_among_others_is_enough_and_alone_is_named() -> None:
    theirs = a_resolved_arm("other", ENGINE | {"engine.model_config.dtype": "torch.bfloat16"})
    found = compared({}, {"engine": {"async_scheduling": True, "dtype": "bfloat16"}}, theirs=theirs)
    assert found.in_force == {"engine.dtype": ("float32", "bfloat16")}
    assert list(found.void) == ["engine.async_scheduling"]
    assert found.same_twice is None


def test_what_could_not_be_read_back_may_be_in_force() -> None:
    found = compared({}, {"environment": {"python": "/opt/other/bin/python"}})
    assert list(found.unread) == ["environment.python"]
    assert found.same_twice is None


def test_a_driver_s_settings_are_our_own_and_in_force() -> None:
    assert compared({}, {"driver": {"output_kind": "delta"}}).in_force == {
        "driver.output_kind": ("final_only", "delta")
    }


def test_an_arm_against_itself_asks_for_nothing_and_is_meant() -> None:
    found = compared({}, {})
    assert (found.in_force, found.void, found.same_twice) == ({}, {}, None)
