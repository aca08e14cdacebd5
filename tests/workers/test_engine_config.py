"""Settings to arguments, configurations to flat dicts."""

import dataclasses
import enum
import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import NotPermitted
from app.spec.models import MODELS
from app.spec.resolution import resolve
from tests.support.builders import a_spec
from workers.engine_config import (
    build_engine_arguments,
    build_engine_environment,
    describe_arm,
    flatten,
    read_engine_config,
)


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Inner:
    size: int
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Outer:
    inner: Inner
    names: list[str]
    parts: list[Inner]
    mapping: dict[str, int]
    parent: Any = None


def test_nested_configurations_become_dotted_keys() -> None:
    outer = Outer(Inner(3), ["a"], [Inner(4)], {"x": 1})
    assert flatten(outer, "engine") == {
        "engine.inner.size": 3,
        "engine.inner.colour": "Colour.RED",
        "engine.names": ["a"],
        "engine.parts.0.size": 4,
        "engine.parts.0.colour": "Colour.RED",
        "engine.mapping.x": 1,
        "engine.parent": None,
    }


def test_a_cycle_ends() -> None:
    outer = Outer(Inner(3), [], [], {})
    outer.parent = outer
    assert flatten(outer)["parent"] == "<cycle>"


def test_equal_objects_of_two_processes_are_equal_here() -> None:
    assert flatten({"handle": object()}) == flatten({"handle": object()})


def test_empty_containers_are_kept() -> None:
    assert flatten({"a": [], "b": {}, "c": set()}) == {"a": [], "b": {}, "c": []}


@dataclasses.dataclass
class ModelConfig:
    vocabulary: int

    def get_vocab_size(self) -> int:
        return self.vocabulary


@dataclasses.dataclass
class ParallelConfig:
    ray_runtime_env: dict[str, dict[str, str]]


@dataclasses.dataclass
class VllmConfig:
    model_config: ModelConfig
    parallel_config: ParallelConfig


def test_a_started_engine_says_what_it_turned_out_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("HOME", "/home/somebody")
    (settings,) = resolve(a_spec(arms=[{"name": "sync", "profile": "vllm-sync"}])).arms
    runtime = ParallelConfig({"env_vars": {"ROLLOUT_LAB_ENGINE": "another for every engine"}})
    found = describe_arm(settings, VllmConfig(ModelConfig(512), runtime), start_s=3.5, can_sleep=True)
    assert (found.arm, found.start_s, found.can_sleep, found.vocab_size) == ("sync", 3.5, True, 512)
    assert found.config["engine.model_config.vocabulary"] == 512
    assert found.config["env.VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "env.HOME" not in found.config
    assert not [key for key in found.config if "ray_runtime_env" in key]
    assert found.config["versions.vllm"] == found.versions["vllm"]


def test_every_arm_gets_the_same_explicit_scheduler_limits_and_statistics() -> None:
    sync, other = (build_engine_arguments(arm, sleep_mode=False) for arm in resolve(a_spec()).arms)
    assert sync == other
    assert sync["max_num_seqs"] == 256
    assert sync["max_num_batched_tokens"] == 8192
    assert sync["max_model_len"] == 256
    assert sync["disable_log_stats"] is False


def test_a_null_leaves_the_choice_to_vllm() -> None:
    (arm,) = resolve(a_spec(arms=[{"name": "a", "profile": "vllm-sync", "engine": {"max_num_seqs": None}}])).arms
    assert "max_num_seqs" not in build_engine_arguments(arm, sleep_mode=False)


def test_a_preset_is_a_directory_and_needs_no_tokenizer_if_it_has_none() -> None:
    (arm,) = resolve(a_spec(model={"preset": "qwen2.5-7b-shape"}, arms=[{"name": "a", "profile": "vllm-sync"}])).arms
    arguments = build_engine_arguments(arm, sleep_mode=True)
    assert arguments["model"] == str(MODELS["qwen2.5-7b-shape"].path)
    assert arguments["load_format"] == "dummy"
    assert arguments["skip_tokenizer_init"] is True
    assert arguments["enable_sleep_mode"] is True


def test_a_hub_model_keeps_its_revision_and_tokenizer() -> None:
    model = {"id": "org/model", "revision": "abc", "tokenizer": "org/tokenizer"}
    (arm,) = resolve(a_spec(model=model, arms=[{"name": "a", "profile": "vllm-sync"}])).arms
    arguments = build_engine_arguments(arm, sleep_mode=False)
    assert (arguments["model"], arguments["revision"], arguments["tokenizer"]) == ("org/model", "abc", "org/tokenizer")
    assert "skip_tokenizer_init" not in arguments


def test_the_arm_s_own_environment_wins() -> None:
    arms = [
        {"name": "a", "profile": "vllm-sync", "environment": {"variables": {"VLLM_CPU_KVCACHE_SPACE": "2"}}},
        {"name": "b", "profile": "vllm-sync"},
    ]
    own, common = resolve(a_spec(arms=arms)).arms
    assert build_engine_environment(own, on_gpu=False)["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert build_engine_environment(common, on_gpu=False)["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "VLLM_CPU_KVCACHE_SPACE" not in build_engine_environment(common, on_gpu=True)


def test_where_prompts_are_kept_whole_our_default_step_gives_way_to_the_model_s_longest_sequence(
    tmp_path: Path,
) -> None:
    config = json.loads((MODELS["tiny-qwen2"].path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 20_000}))
    text = {"prompts": {"source": "inline", "prompts": ["of unknown length"]}}
    model = {"id": str(tmp_path), "load_format": "dummy"}
    (whole, *_) = resolve(a_spec(model=model, workload=text, engine={"enable_chunked_prefill": False})).arms
    assert build_engine_arguments(whole, sleep_mode=False)["max_num_batched_tokens"] == 20_000
    (asked, *_) = resolve(
        a_spec(model=model, workload=text, engine={"enable_chunked_prefill": False, "max_num_batched_tokens": 4096})
    ).arms
    assert build_engine_arguments(asked, sleep_mode=False)["max_num_batched_tokens"] == 4096


def test_no_secret_of_the_environment_or_of_vllm_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "planted-api-key")
    monkeypatch.setenv("HF_TOKEN", "planted-hub-token")
    monkeypatch.setenv("OMP_LEAK", "planted-hub-token")
    found = read_engine_config({"model_config": {"hf_token": "planted-other", "path": "planted-hub-token"}})
    assert "planted" not in str(found)
    assert found["env.VLLM_API_KEY"] == found["engine.model_config.hf_token"] == "<hidden>"


def test_a_variable_that_ray_would_expand_never_reaches_it() -> None:
    variables = {"variables": {"OMP_LEAK": "x${HF_TOKEN}"}}
    (arm,) = resolve(a_spec(arms=[{"name": "a", "profile": "vllm-sync", "environment": variables}])).arms
    with pytest.raises(NotPermitted, match="OMP_LEAK"):
        build_engine_environment(arm, on_gpu=True)
