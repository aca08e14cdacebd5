"""What makes two results comparable, and what does not."""

from typing import Any

import pytest

from app.judge.fingerprint import compute_fingerprint, count_gpus, describe_environment
from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.resolution import resolve
from tests.support.builders import a_resolved_arm, a_spec

HARDWARE: dict[str, object] = {"gpu": "NVIDIA H200", "gpu_count": 1, "cpu": "Xeon", "cpu_cores": 16}


def engines(**changes: Any) -> list[StartedArm]:
    return [
        a_resolved_arm(name, changes.pop("config", {"env.OMP_NUM_THREADS": "1"}), hardware=HARDWARE | changes)
        for name in ("sync", "async")
    ]


def print_of(spec: Experiment | None = None, arms: list[StartedArm] | None = None, **options: Any) -> str:
    spec = spec or a_spec()
    return compute_fingerprint(spec, resolve(spec), engines() if arms is None else arms, **options)


def test_it_is_a_sha256() -> None:
    assert len(print_of()) == 64
    assert set(print_of()) <= set("0123456789abcdef")


def test_it_is_the_same_every_time() -> None:
    assert print_of() == print_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": {"samples_per_prompt": 8}},
        {"model": {"id": "Qwen/Qwen2.5-7B", "revision": "main"}},
        {"engine": {"max_num_seqs": 64}},
        {"plan": {"seed": 1}},
        {"plan": {"reset_prefix_cache": False}},
        {"plan": {"warmup_trials": 0}},
        {"decision": {"service_levels": {"ttft_ms": 100}}},
        {"arms": [{"name": "sync", "profile": "vllm-sync"}]},
    ],
)
def test_what_runs_is_part_of_it(changes: dict[str, Any]) -> None:
    assert print_of(a_spec(**changes)) != print_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "tonight"},
        {"labels": {"suite": "nightly"}},
        {"plan": {"blocks": 12, "looks": [6]}},
        {"decision": {"margin_pct": 5}},
        {"limits": {"timeout_s": 60}},
        {"baseline": "async"},
    ],
)
def test_names_precision_and_limits_are_no_part_of_it(changes: dict[str, Any]) -> None:
    assert print_of(a_spec(**changes)) == print_of()


def test_the_names_and_the_order_of_arms_do_not_matter() -> None:
    spec = a_spec(arms=[{"name": "b", "profile": "vllm-async"}, {"name": "a", "profile": "vllm-sync"}])
    arms = [a_resolved_arm(name, {"env.OMP_NUM_THREADS": "1"}, hardware=HARDWARE) for name in ("a", "b")]
    assert print_of(spec, arms) == print_of()


def test_hardware_software_and_environment_are_part_of_it() -> None:
    plain = print_of()
    assert print_of(arms=engines(gpu="NVIDIA H100")) != plain
    assert print_of(arms=[a_resolved_arm("sync", versions={"vllm": "0.33.0"}), engines()[1]]) != plain
    assert (
        print_of(arms=[a_resolved_arm(arm.arm, {"env.OMP_NUM_THREADS": "8"}, hardware=HARDWARE) for arm in engines()])
        != plain
    )


def test_where_on_the_host_an_engine_ran_is_no_part_of_it() -> None:
    there = {
        "env.OMP_NUM_THREADS": "1",
        "env.CUDA_VISIBLE_DEVICES": "3",
        "env.VLLM_DIST_IDENT": "vllm_dist_e7b264c4",
        "env.VLLM_PORT": "4711",
    }
    assert print_of(arms=[a_resolved_arm(arm.arm, there, hardware=HARDWARE) for arm in engines()]) == print_of()


def test_what_an_engine_measured_is_no_part_of_it() -> None:
    measured = {"env.OMP_NUM_THREADS": "1", "engine.cache_config.num_gpu_blocks": 12345}
    assert print_of(arms=[a_resolved_arm(arm.arm, measured, hardware=HARDWARE) for arm in engines()]) == print_of()


def test_drawn_requests_are_part_of_it_where_their_hash_is_known() -> None:
    assert print_of(workload_sha256="aa") != print_of(workload_sha256="bb")


def test_people_read_the_gpu_and_the_version() -> None:
    spec = a_spec()
    report = describe_environment(spec, resolve(spec), engines())
    assert (report.gpu, report.gpus, report.cpu, report.vllm) == ("NVIDIA H200", 1, "Xeon", "0.32.0")
    assert report.fingerprint == print_of()


def test_all_versions_are_named_where_the_arms_differ() -> None:
    spec = a_spec()
    arms = [a_resolved_arm("sync", versions={"vllm": "0.25.1"}), a_resolved_arm("async", versions={"vllm": "0.33.0"})]
    assert describe_environment(spec, resolve(spec), arms).vllm == "0.25.1, 0.33.0"


def test_a_host_without_a_gpu_has_none() -> None:
    spec = a_spec()
    report = describe_environment(spec, resolve(spec), [a_resolved_arm("sync", hardware={"gpu_count": 0})])
    assert (report.gpu, report.gpus) == (None, 0)


@pytest.mark.parametrize(
    ("reported", "other", "same"), [(503, 504, True), (1006, 1008, True), (62, 63, True), (62, 126, False)]
)
def test_what_a_kernel_keeps_of_the_memory_is_no_part_of_it(reported: int, other: int, same: bool) -> None:
    spec = a_spec()
    prints = {
        compute_fingerprint(spec, resolve(spec), [a_resolved_arm("sync", hardware={"memory_gib": gib})])
        for gib in (reported, other)
    }
    assert (len(prints) == 1) is same


@pytest.mark.parametrize(("visible", "processes", "gpus"), [(2, 1, 1), (2, 2, 2), (0, 1, 0), (2, None, 2)])
def test_an_arm_has_the_gpus_its_engine_runs_on_not_those_it_may_see(
    visible: int, processes: int | None, gpus: int
) -> None:
    config: dict[str, object] = {} if processes is None else {"engine.parallel_config.world_size": processes}
    assert count_gpus(a_resolved_arm("sync", config, hardware={"gpu_count": visible})) == gpus
