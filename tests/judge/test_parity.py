"""Which differences between resolved configurations follow from what the arms ask for."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.judge.parity import CONSEQUENCES, IGNORED, ParityReport, check_parity, compare_settings, list_start_changes
from app.measure.records import StartedArm
from app.spec.engine import EngineSettings
from app.spec.resolution import ResolvedArm, resolve
from tests.support.builders import a_resolved_arm, a_spec

SEQS = "engine.scheduler_config.max_num_seqs"


# Unlike the presets, it changes no common default.
HUB_MODEL = {"id": "org/model"}


def arms(
    sync: dict[str, Any] | None = None, other: dict[str, Any] | None = None, **spec: Any
) -> tuple[ResolvedArm, ...]:
    return resolve(
        a_spec(
            model=HUB_MODEL,
            arms=[
                {"name": "sync", "profile": "vllm-sync", **(sync or {})},
                {"name": "async", "profile": "vllm-async", **(other or {})},
            ],
            **spec,
        )
    ).arms


def engines(sync: dict[str, object], other: dict[str, object]) -> list[StartedArm]:
    return [
        a_resolved_arm("sync", sync, versions={}, hardware={}),
        a_resolved_arm("async", other, versions={}, hardware={}),
    ]


def checked(
    key: str, values: tuple[object, object], sync: dict[str, Any] | None = None, other: dict[str, Any] | None = None
) -> ParityReport:
    return check_parity(arms(sync, other), engines({key: values[0]}, {key: values[1]}))


# --- what is compared ----------------------------------------------------------------------------------------------


def test_equal_configurations_have_parity() -> None:
    report = check_parity(arms(), engines({SEQS: 256}, {SEQS: 256}))
    assert report == ParityReport(equal=True, declared=(), undeclared=())


def test_a_key_nobody_thought_of_is_compared_too() -> None:
    report = checked("engine.something_new.in_next_years_vllm", (1, 2))
    assert not report.equal
    assert report.undeclared[0].values == {"sync": 1, "async": 2}
    assert report.undeclared[0].setting is None


def test_a_key_that_one_configuration_lacks_is_a_difference() -> None:
    report = check_parity(arms(), engines({"env.OMP_NUM_THREADS": "1"}, {}))
    assert report.undeclared[0].values == {"sync": "1", "async": None}


def test_versions_and_hardware_are_compared() -> None:
    mine = a_resolved_arm("sync", {}, versions={"vllm": "0.25.1"}, hardware={"gpu": "NVIDIA H200"})
    yours = a_resolved_arm("async", {}, versions={"vllm": "0.33.0"}, hardware={"gpu": "NVIDIA H100"})
    assert [one.key for one in check_parity(arms(), [mine, yours]).undeclared] == ["hardware.gpu", "versions.vllm"]


@pytest.mark.parametrize(
    "key",
    [
        "engine.instance_id",
        "engine.parallel_config.data_parallel_master_port",
        "engine.parallel_config._data_parallel_master_port_list",
        "engine.parallel_config.master_addr",
        "engine.cache_config.hash_block_size",
        "engine.compilation_config.static_forward_context.model.layers.0.self_attn.attn",
        "env.VLLM_DIST_IDENT",
    ],
)
def test_ids_addresses_and_what_only_the_models_process_knows_are_ignored(key: str) -> None:
    assert checked(key, (1, 2)).equal


def test_no_setting_is_ignored() -> None:
    names = set(EngineSettings.model_fields)
    assert not any(pattern.rpartition(".")[2] in names for pattern in IGNORED)


def test_numbers_of_another_type_are_another_value() -> None:
    assert not checked("engine.x", (True, 1)).equal


def test_arms_that_have_not_started_are_left_out() -> None:
    assert check_parity(arms(), [a_resolved_arm("sync")]).equal


def test_settings_come_before_what_follows_from_them() -> None:
    report = check_parity(arms(), engines({"engine.a": 1, SEQS: 1}, {"engine.a": 2, SEQS: 2}))
    assert [one.key for one in report.undeclared] == [SEQS, "engine.a"]


# --- declared ------------------------------------------------------------------------------------------------------


def test_a_declared_setting_explains_the_key_of_its_name() -> None:
    report = checked(SEQS, (256, 64), other={"engine": {"max_num_seqs": 64}})
    assert report.equal
    assert report.declared[0].setting == "engine.max_num_seqs"


@pytest.mark.parametrize(
    ("setting", "value", "key"),
    [
        ("max_num_batched_tokens", 2048, "engine.scheduler_config.encoder_cache_size"),
        ("max_num_batched_tokens", 2048, "engine.compilation_config.compile_ranges_endpoints"),
        ("max_num_seqs", 64, "engine.compilation_config.cudagraph_capture_sizes"),
        ("max_num_seqs", 64, "engine.cache_config.num_gpu_blocks"),
        ("enforce_eager", True, "engine.compilation_config.mode"),
        ("enforce_eager", True, "engine.kernel_config.ir_op_priority.rms_norm"),
        ("kv_cache_dtype", "fp8", "engine.cache_config.cache_dtype"),
        ("block_size", 32, "engine.cache_config.user_specified_block_size"),
        ("tensor_parallel_size", 2, "engine.parallel_config.world_size"),
        ("quantization", "fp8", "engine.quant_config"),
    ],
)
def test_a_declared_setting_explains_what_vllm_derives_from_it(setting: str, value: object, key: str) -> None:
    assert not checked(key, (1, 2)).equal
    assert checked(key, (1, 2), other={"engine": {setting: value}}).declared[0].setting == f"engine.{setting}"


def test_a_declared_setting_explains_nothing_else() -> None:
    assert not checked("engine.model_config.dtype", ("a", "b"), other={"engine": {"max_num_seqs": 64}}).equal


def test_driver_settings_are_declared_by_what_the_profiles_say() -> None:
    report = check_parity(
        arms(),
        engines(
            {"driver.api": "llm", "driver.engine_process": "separate"},
            {"driver.api": "async_llm", "driver.output_kind": "final_only"},
        ),
    )
    assert report.equal
    assert {one.key: one.setting for one in report.declared} == {
        "driver.api": "driver.api",
        "driver.engine_process": "driver.api",
        "driver.output_kind": "driver.output_kind",
    }


def test_an_engine_in_process_explains_another_executor() -> None:
    key = "engine.parallel_config.distributed_executor_backend"
    assert checked(key, ("uni", "mp"), sync={"driver": {"engine_process": "in_process"}}).equal
    assert not checked(key, ("uni", "mp")).equal


def test_an_environment_variable_is_declared_by_its_arm_only() -> None:
    key = "env.OMP_NUM_THREADS"
    assert checked(key, ("1", "4"), other={"environment": {"variables": {"OMP_NUM_THREADS": "4"}}}).equal
    assert not checked(key, ("1", "4")).equal


def test_another_interpreter_explains_another_vllm() -> None:
    mine, yours = engines({"engine.new_default": False}, {"engine.new_default": True, "engine.new_field": 1})
    newer = arms(other={"environment": {"python": "/opt/nightly/bin/python"}})
    assert check_parity(newer, [mine, yours]).equal
    assert {one.setting for one in check_parity(newer, [mine, yours]).declared} == {"environment.python"}


def test_two_settings_are_named_where_pairs_of_arms_differ_for_two_reasons() -> None:
    three = resolve(
        a_spec(
            model=HUB_MODEL,
            arms=[
                {"name": "a", "profile": "vllm-sync"},
                {"name": "b", "profile": "vllm-sync", "engine": {"max_num_seqs": 64}},
                {"name": "c", "profile": "vllm-sync", "engine": {"enforce_eager": True}},
            ],
        )
    ).arms
    key = "engine.compilation_config.cudagraph_capture_sizes"
    report = check_parity(three, [a_resolved_arm(name, {key: [n]}) for n, name in enumerate("abc")])
    assert report.declared[0].setting == "engine.enforce_eager, engine.max_num_seqs"


# --- undeclared ----------------------------------------------------------------------------------------------------


def test_a_limit_both_arms_leave_to_vllm_is_the_confound_of_the_usage_context() -> None:
    left = arms(engine={"max_num_seqs": None})
    report = check_parity(left, engines({SEQS: 1024}, {SEQS: 128}))
    assert report.undeclared[0].values == {"sync": 1024, "async": 128}


def test_a_limit_one_arm_takes_away_from_our_defaults_is_undeclared_with_all_that_follows() -> None:
    left = arms(other={"engine": {"max_num_seqs": None}})
    follows = "engine.compilation_config.max_cudagraph_capture_size"
    report = check_parity(left, engines({SEQS: 256, follows: 512}, {SEQS: 128, follows: 256}))
    assert [one.key for one in report.undeclared] == [SEQS, follows]


def test_a_limit_left_to_vllm_that_comes_out_the_same_is_no_difference() -> None:
    left = arms(other={"engine": {"max_num_seqs": None}})
    assert check_parity(left, engines({SEQS: 256}, {SEQS: 256})).equal


def test_a_setting_that_has_no_common_default_is_declared_by_the_arm_that_sets_it() -> None:
    key = "engine.scheduler_config.async_scheduling"
    assert checked(key, (True, False), other={"engine": {"async_scheduling": False}}).equal


def test_one_undeclared_pair_of_three_arms_is_enough() -> None:
    three = resolve(
        a_spec(
            model=HUB_MODEL,
            arms=[
                {"name": "a", "profile": "vllm-sync"},
                {"name": "b", "profile": "vllm-async"},
                {"name": "c", "profile": "vllm-async", "engine": {"max_num_seqs": 64}},
            ],
        )
    ).arms
    resolved = [a_resolved_arm(name, {SEQS: seqs}) for name, seqs in (("a", 256), ("b", 128), ("c", 64))]
    assert check_parity(three, resolved).undeclared
    assert check_parity([three[0], three[2]], resolved).equal


# --- measured ------------------------------------------------------------------------------------------------------


def test_free_memory_may_differ_by_a_percent() -> None:
    key = "engine.cache_config.num_gpu_blocks"
    assert checked(key, (10_000, 10_099)).equal
    assert not checked(key, (10_000, 10_200)).equal


# --- the tables and the words --------------------------------------------------------------------------------------


def test_consequences_are_listed_for_settings_that_exist() -> None:
    settings = {f"engine.{name}" for name in EngineSettings.model_fields}
    settings |= {"driver.api", "driver.engine_process", "environment.python"}
    assert set(CONSEQUENCES) <= settings


def test_people_are_told_of_settings_both_arms_have_and_of_unusual_ones() -> None:
    sync, other = arms(other={"driver": {"output_kind": "delta", "detokenize": True}, "engine": {"max_num_seqs": 64}})
    assert compare_settings(sync, other) == {
        "engine.max_num_seqs": (256, 64),
        "driver.api": ("llm", "async_llm"),
        "driver.detokenize": (False, True),
        "driver.output_kind": (None, "delta"),
    }


def test_people_are_not_told_of_defaults_only_one_driver_has() -> None:
    sync, other = arms()
    assert compare_settings(sync, other) == {"driver.api": ("llm", "async_llm")}


# --- what vLLM 0.32 really does ------------------------------------------------------------------------------------

REAL = json.loads((Path(__file__).parent / "vllm_0_32_configurations.json").read_text())


@pytest.mark.parametrize("setting", REAL["settings"])
def test_all_that_one_setting_changes_in_a_real_configuration_is_declared(setting: str) -> None:
    real = REAL["settings"][setting]
    sync = arms()[0]
    changed = sync.engine.model_copy(update={setting: real["value"]})
    other = sync.model_copy(update={"name": "async", "engine": changed})
    report = check_parity((sync, other), engines(real["before"], real["after"]))
    assert report.undeclared == ()
    assert report.declared


def test_limits_a_real_vllm_chooses_by_interface_are_undeclared_with_all_that_follows() -> None:
    left = arms(engine={"max_num_seqs": None, "max_num_batched_tokens": None})
    report = check_parity(left, engines(REAL["left_to_vllm"]["LLM"], REAL["left_to_vllm"]["AsyncLLM"]))
    assert report.declared == ()
    assert [one.values for one in report.undeclared[:2]] == [{"sync": 4096, "async": 2048}, {"sync": 256, "async": 128}]


def test_real_engines_of_both_interfaces_differ_in_what_their_drivers_say() -> None:
    real = REAL["sync_and_async"]
    report = check_parity(arms(), engines(real["sync"], real["async"]))
    assert report.undeclared == ()
    assert [one.key for one in report.declared] == ["driver.api", "driver.engine_process", "driver.output_kind"]


def test_a_real_engine_in_process_differs_in_its_executor_only() -> None:
    real = REAL["sync_and_in_process"]
    two = resolve(
        a_spec(
            model=HUB_MODEL,
            arms=[
                {"name": "sync", "profile": "vllm-sync"},
                {"name": "async", "profile": "vllm-sync", "driver": {"engine_process": "in_process"}},
            ],
        )
    ).arms
    report = check_parity(two, engines(real["sync"], real["inproc"]))
    assert report.undeclared == ()
    assert {one.setting for one in report.declared} == {"driver.engine_process"}


# --- memory, and engines that start anew ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gib", "equal"), [((503, 504), True), ((15, 16), True), ((1007, 1000), True), ((504, 472), False)]
)
def test_what_kernels_leave_of_the_same_memory_is_no_difference(gib: tuple[int, int], equal: bool) -> None:
    assert checked("hardware.memory_gib", gib).equal is equal


def test_an_engine_that_starts_anew_may_be_another() -> None:
    first, same, other = (
        a_resolved_arm("sync", {"engine.instance_id": name, "engine.cache_config.num_gpu_blocks": blocks})
        for name, blocks in (("a", 1000), ("b", 1004), ("c", 900))
    )
    assert list_start_changes(first, same) == ()
    assert list_start_changes(first, other) == ("engine.cache_config.num_gpu_blocks is 900 instead of 1000",)
