"""Are the arms comparable: do their resolved configurations differ only where the experiment says so?

Everything in the configurations is compared, not a list of keys somebody thought of. A difference is declared when it
follows from a setting in which the arms' settings differ; a setting explains

* every key of its section that ends in its name: `engine.max_num_seqs` explains
  `engine.scheduler_config.max_num_seqs`;
* what CONSEQUENCES lists for it.

A setting that an arm takes away from this project's common defaults, and so leaves to vLLM, explains nothing: then
vLLM chooses by how the engine was made, and that is the confound this check is for.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations

from pydantic import Field, JsonValue

from app.measure.records import StartedArm
from app.spec.engine import EngineSettings
from app.spec.experiment import Api, EngineProcess
from app.spec.frozen import SpecModel
from app.spec.resolution import COMMON_ENGINE, ResolvedArm

# Keys that say nothing about how an engine runs: random ids, addresses and ports, and what vLLM fills in only in the
# process that holds the model, so that an engine core of its own never shows it.
IGNORED = (
    "engine.instance_id",
    "engine.parallel_config.*_ip",
    "engine.parallel_config.*_addr",
    "engine.parallel_config.*_port",
    "engine.parallel_config.*_port_list",
    "engine.cache_config.hash_block_size",
    "engine.cache_config.kv_cache_layout",
    "engine.cache_config.cache_hit_alignment_tokens",
    "engine.compilation_config.static_forward_context",
    "engine.compilation_config.static_forward_context.*",
    "engine.compilation_config.enabled_custom_ops",
    "engine.compilation_config.enabled_custom_ops.*",
    "engine.compilation_config.disabled_custom_ops",
    "engine.compilation_config.disabled_custom_ops.*",
    "engine.compilation_config.traced_files",
    "engine.compilation_config.local_cache_dir",
    "engine.compilation_config.*compilation_time",
    "engine.compilation_config.static_all_moe_layers",
    "env.VLLM_DIST_IDENT",
    "env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
)

# What the engine measures while it starts. Free memory is never quite the same twice, so these may differ by 1 %.
MEASURED = (
    "engine.cache_config.num_gpu_blocks",
    "engine.cache_config.kv_cache_size_tokens",
    "engine.cache_config.kv_cache_max_concurrency",
)
# What the host and its GPUs say of their memory is what kernel, firmware and driver leave of it: another boot leaves
# another few hundred MiB, which also tips the rounding to whole GiB. Memory that was added or taken out is more than
# 1 %: a module is a fortieth of what a board can hold, or more.
ROUNDED = ("hardware.memory_gib", "hardware.gpu_memory_mib")
TOLERANCE = 0.01

_GRAPH_SIZES = (
    "engine.compilation_config.bs_to_padded_graph_size*",
    "engine.compilation_config.compile_ranges_*",
    "engine.compilation_config.compile_sizes*",
    "engine.compilation_config.cudagraph_capture_sizes*",
    "engine.compilation_config.max_cudagraph_capture_size",
)

# Setting -> what vLLM derives from it under other names.
CONSEQUENCES: dict[str, tuple[str, ...]] = {
    "engine.tensor_parallel_size": (
        *MEASURED,
        "engine.parallel_config.distributed_executor_backend",
        "engine.parallel_config.disable_custom_all_reduce",
        "engine.parallel_config.world_size",
        "engine.compilation_config.pass_config.*",
        "env.CUDA_VISIBLE_DEVICES",
        "hardware.gpu_count",
    ),
    "engine.dtype": MEASURED,
    "engine.quantization": (*MEASURED, "engine.quant_config*", "engine.compilation_config.pass_config.*"),
    "engine.kv_cache_dtype": (*MEASURED, "engine.cache_config.cache_dtype"),
    "engine.max_model_len": MEASURED,
    "engine.max_num_seqs": (*MEASURED, *_GRAPH_SIZES),
    "engine.max_num_batched_tokens": (
        *MEASURED,
        *_GRAPH_SIZES,
        "engine.scheduler_config.encoder_cache_size",
        "engine.scheduler_config.max_num_encoder_input_tokens",
        "engine.scheduler_config.max_num_scheduled_tokens",
    ),
    "engine.gpu_memory_utilization": MEASURED,
    "engine.num_gpu_blocks_override": MEASURED,
    "engine.block_size": (*MEASURED, "engine.cache_config.*block_size*"),
    # Without torch.compile, kernels of vLLM's own stand in for those it would generate.
    "engine.enforce_eager": (
        *MEASURED,
        "engine.compilation_config.*",
        "engine.kernel_config.enable_jit_warmup",
        "engine.kernel_config.ir_op_priority.*",
    ),
    "engine.enable_chunked_prefill": ("engine.scheduler_config.chunked_prefill_enabled",),
    "engine.async_scheduling": ("engine.parallel_config.disable_nccl_for_dp_synchronization",),
    "driver.engine_process": (
        "engine.parallel_config.distributed_executor_backend",
        "env.VLLM_ENABLE_V1_MULTIPROCESSING",
    ),
    # Each interface has driver settings of its own.
    "driver.api": ("driver.*",),
    # Another interpreter is another vLLM: its fields and defaults are what is compared.
    "environment.python": ("engine.*", "versions.*", "hardware.python"),
}


class Difference(SpecModel):
    """A key in which the arms' resolved configurations differ."""

    key: str = Field(
        description="Dotted key of the resolved configuration: `engine.*`, `driver.*`, `env.*`, `versions.*`, "
        "`hardware.*`.",
        examples=["engine.scheduler_config.max_num_seqs"],
    )
    values: dict[str, JsonValue] = Field(
        description="Value by arm; null also where an arm's configuration has no such key.",
        examples=[{"sync": 1024, "async": 128}],
    )
    setting: str | None = Field(
        description="Setting of the arms that it follows from; null where none explains it.",
        examples=["engine.max_num_seqs"],
    )


class ParityReport(SpecModel):
    """Whether the arms' resolved configurations differ only where the experiment says so."""

    equal: bool = Field(description="True where `undeclared` is empty.")
    declared: tuple[Difference, ...] = Field(description="Differences that follow from what the arms' settings say.")
    undeclared: tuple[Difference, ...] = Field(description="Differences nobody asked for: they confound.")


def check_parity(arms: Sequence[ResolvedArm], resolved: Sequence[StartedArm]) -> ParityReport:
    """Compare everything the engines of `arms` resolved to; arms that have not started yet are left out."""
    configs = {one.arm: _list_config(one) for one in resolved}
    started = [arm for arm in arms if arm.name in configs]
    configs = {arm.name: configs[arm.name] for arm in started}
    settings = {arm.name: flatten_settings(arm) for arm in started}
    differences = [
        explain_difference(key, configs, settings)
        for key in sorted({key for config in configs.values() for key in config}, key=_rank_key)
        if not _matches(key, IGNORED) and _differs(key, list(configs.values()))
    ]
    undeclared = tuple(difference for difference in differences if difference.setting is None)
    return ParityReport(
        equal=not undeclared,
        declared=tuple(difference for difference in differences if difference.setting is not None),
        undeclared=undeclared,
    )


def list_start_changes(first: StartedArm, again: StartedArm) -> tuple[str, ...]:
    """In what an arm's engine, started anew, is not what it was at its first start; one text per key."""
    before, now = _list_config(first), _list_config(again)
    return tuple(
        f"{key} is {json.dumps(now.get(key))} instead of {json.dumps(before.get(key))}"
        for key in sorted({*before, *now}, key=_rank_key)
        if not _matches(key, IGNORED) and _differs(key, [before, now])
    )


def flatten_settings(arm: ResolvedArm) -> dict[str, JsonValue]:
    """What an arm asks for: dotted key -> JSON value."""
    settings = {
        **{f"engine.{key}": value for key, value in arm.engine.model_dump(mode="json").items()},
        **{f"driver.{key}": value for key, value in arm.driver.model_dump(mode="json").items()},
        **{f"environment.{key}": value for key, value in arm.environment.variables.items()},
        "environment.python": arm.environment.python,
        **{f"arrival.{key}": value for key, value in arm.arrival.model_dump(mode="json", exclude_none=True).items()},
    }
    if arm.driver.api is Api.ASYNC_LLM:
        settings["driver.engine_process"] = EngineProcess.SEPARATE.value  # it has no other
    return settings


def compare_settings(one: ResolvedArm, other: ResolvedArm) -> dict[str, tuple[JsonValue, JsonValue]]:
    """In what two arms ask for different things, for people: without what only one driver has and has by default."""
    ours, theirs = flatten_settings(one), flatten_settings(other)
    pairs = {key: (ours.get(key), theirs.get(key)) for key in {**ours, **theirs}}
    unusual = _list_unusual(one) | _list_unusual(other)
    return {
        key: pair
        for key, pair in pairs.items()
        if pair[0] != pair[1] and ((key in ours and key in theirs) or not key.startswith("driver.") or key in unusual)
    }


def _list_unusual(arm: ResolvedArm) -> set[str]:
    return {f"driver.{key}" for key in arm.driver.model_dump(exclude_defaults=True)}


def _list_config(resolved: StartedArm) -> dict[str, JsonValue]:
    everything = {
        **resolved.config,
        **{f"versions.{key}": value for key, value in resolved.versions.items()},
        **{f"hardware.{key}": value for key, value in resolved.hardware.items()},
    }
    return {key: simplify(value) for key, value in everything.items()}


def simplify(value: object) -> JsonValue:
    """A value as JSON has it; infinite and NaN as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    plain: JsonValue = json.loads(json.dumps(value, default=str))
    return plain


def _rank_key(key: str) -> tuple[bool, str]:
    """People know settings; what vLLM derives from them comes after."""
    return key.rpartition(".")[2] not in EngineSettings.model_fields, key


def _differs(key: str, configs: Sequence[Mapping[str, JsonValue]]) -> bool:
    return any(not are_equal(key, one.get(key), other.get(key)) for one, other in combinations(configs, 2)) or (
        0 < sum(key in config for config in configs) < len(configs)
    )


def are_equal(key: str, one: JsonValue, other: JsonValue) -> bool:
    """Whether two arms' values of a key are the same, as far as what is measured or rounded can be."""
    if key in MEASURED + ROUNDED and isinstance(one, int | float) and isinstance(other, int | float):
        unit = 1.0 if key in ROUNDED else 0.0
        return abs(one - other) <= max(unit, TOLERANCE * max(abs(one), abs(other)))
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def explain_difference(
    key: str, configs: Mapping[str, Mapping[str, JsonValue]], settings: Mapping[str, Mapping[str, JsonValue]]
) -> Difference:
    """A key that differs, with the setting that it follows from."""
    values = {arm: config.get(key) for arm, config in configs.items()}
    pairs = [(a, b) for a, b in combinations(values, 2) if _differs(key, [configs[a], configs[b]])]
    reasons = [next(list_reasons(key, settings[a], settings[b]), None) for a, b in pairs]
    found = sorted({reason for reason in reasons if reason is not None})
    return Difference(key=key, values=values, setting=None if None in reasons else ", ".join(found))


def list_reasons(key: str, ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> Iterator[str]:
    """The settings that make the key of two arms differ, the most specific first."""
    asked = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    left = {name for name in asked if _is_left_to_vllm(name, ours) or _is_left_to_vllm(name, theirs)}
    if any(_has_same_name(key, name) for name in left):
        return
    yield from (name for name in asked if _has_same_name(key, name))
    yield from (name for name in asked if name not in left and _matches(key, CONSEQUENCES.get(name, ())))


def _is_left_to_vllm(name: str, settings: Mapping[str, JsonValue]) -> bool:
    section, _, field = name.partition(".")
    return section == "engine" and settings.get(name) is None and getattr(COMMON_ENGINE, field, None) is not None


def _has_same_name(key: str, setting: str) -> bool:
    section, _, name = setting.partition(".")
    of_config = "env" if section == "environment" else section
    return key.startswith(f"{of_config}.") and key.rpartition(".")[2] == name


def _matches(key: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
